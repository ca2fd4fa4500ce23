#include "architecture/blocks/dense_mlp.h"

namespace tessera::architecture::dense_mlp {

using K = ValueKind;

namespace {

Work work(const Sizes& s) {
  auto sum = product(s.tokens, s.hidden, 3 * s.dense_inner);
  // Residual and its norm; gate, up and their product.
  sum.kept_elements = s.tokens * (2 * s.hidden + 3 * s.dense_inner);
  return sum;
}

}  // namespace

Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit) {
  BlockBuilder b(layer);
  for (const auto matrix : {gate, up}) b.parameter(matrix, {config.intermediate_size, config.hidden_size});
  b.parameter(down, {config.hidden_size, config.intermediate_size});
  b.parameter(norm, {config.hidden_size}, Initial::ones);
  b.use(b.segment(segment, {b.here(K::hidden), b.here(K::attention_output)}, {b.next(K::hidden)}, work), unit,
        {norm, gate, up, down}, plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
  return b.take();
}

}  // namespace tessera::architecture::dense_mlp
