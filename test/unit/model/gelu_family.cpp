#include "gelu_family.h"

#include <string>

#include "architecture/blocks/attention.h"
#include "architecture/blocks/dense_mlp.h"
#include "architecture/blocks/embedding.h"
#include "architecture/blocks/experts.h"
#include "architecture/blocks/head.h"
#include "architecture/blocks/router.h"

namespace tessera::test {

using architecture::Block;
using architecture::Dim;

const architecture::ExpertBody& gelu_body() {
  using architecture::Initial;
  using Use = architecture::ExpertMatrix::Use;
  static const architecture::ExpertBody body{
      .name = "gelu",
      .matrices = {{"mlp.experts.fc1", Use::into, {Dim::experts, Dim::expert_inner, Dim::hidden}},
                   {"mlp.experts.fc1_bias", Use::into_bias, {Dim::experts, Dim::expert_inner}, Initial::zeros},
                   {"mlp.experts.fc2", Use::out, {Dim::experts, Dim::hidden, Dim::expert_inner}},
                   {"mlp.experts.fc2_bias", Use::out_bias, {Dim::experts, Dim::hidden}, Initial::zeros}},
      .fused_name = {},
      .fused = {}};
  return body;
}

namespace {

Block build(const architecture::ModelConfig& config, config::BalanceLoss balance) {
  Block model = architecture::embedding::block(config, "embed");
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    append(model, architecture::attention::block(config, layer, name + ".attention"));
    if (config.is_moe_layer(layer)) {
      append(model, architecture::router::block(config, layer, name + ".attention"));
      append(model, architecture::experts::block(config, layer, gelu_body(), name + ".experts"));
    } else {
      append(model, architecture::dense_mlp::block(config, layer, name + ".attention"));
    }
  }
  append(model, architecture::head::block(config, balance, "head"));
  return model;
}

}  // namespace

const architecture::Family& gelu_family() {
  static const architecture::Family family{.model_type = "gelu_moe",
                                           .title = "a test's model",
                                           .read = architecture::qwen3_moe.read,
                                           .check = architecture::qwen3_moe.check,
                                           .write = architecture::qwen3_moe.write,
                                           .build = build};
  return family;
}

}  // namespace tessera::test
