#include "architecture/model_config.h"

#include <algorithm>

namespace tessera::architecture {

bool ModelConfig::is_moe_layer(std::int64_t layer) const {
  const bool dense = std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) != mlp_only_layers.end();
  return !dense && num_experts > 0 && (layer + 1) % decoder_sparse_step == 0;
}

std::int64_t ModelConfig::moe_layers() const {
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) layers += is_moe_layer(layer) ? 1 : 0;
  return layers;
}

}  // namespace tessera::architecture
