// A small model and its placements, on one rank by default, for the program tests.
#pragma once

#include <utility>
#include <vector>

#include "architecture/architecture.h"
#include "layout/layout.h"
#include "plan/parallel_plan.h"
#include "plan/placement.h"
#include "program/builder.h"

namespace tessera::test {

struct SmallModel {
  architecture::Architecture architecture;
  layout::Layout layout;
  std::vector<plan::Placement> placements;

  // Two layers: the first dense, the second with experts, unless `all_experts`.
  explicit SmallModel(bool all_experts = false, bool tied = false,
                      config::BalanceLoss balance = config::BalanceLoss::pooled, layout::LayoutSizes sizes = {},
                      plan::MasterSharding masters = plan::MasterSharding::sharded)
      : SmallModel(config_of(all_experts, tied), balance, std::move(sizes), masters) {}

  // Returns `layers` layers with experts, on `ranks` ranks.
  static SmallModel of_layers(std::int64_t layers, std::int64_t ranks = 1) {
    auto model = config_of(true, false);
    model.num_hidden_layers = layers;
    layout::LayoutSizes sizes;
    sizes.dp_shard = ranks;
    return {std::move(model), config::BalanceLoss::pooled, std::move(sizes), plan::MasterSharding::sharded};
  }

  [[nodiscard]] program::Program build(const program::BuilderOptions& options) const {
    return program::build_program(architecture, placements, layout, options);
  }
  [[nodiscard]] program::Program build(const program::BuilderOptions& options,
                                       const program::Schedule& schedule) const {
    return program::build_program(architecture, placements, layout, options, schedule);
  }

 private:
  SmallModel(architecture::ModelConfig config, config::BalanceLoss balance, layout::LayoutSizes sizes,
             plan::MasterSharding masters)
      : architecture(std::move(config), balance), layout(std::move(sizes)) {
    base::Problems problems;
    placements = plan::place(architecture.parameters(), plan::built_in_plan(), layout, masters, problems);
    problems.throw_if_any("placements of the small model");
  }

  static architecture::ModelConfig config_of(bool all_experts, bool tied) {
    architecture::ModelConfig config;
    config.vocab_size = 31;
    config.hidden_size = 12;
    config.intermediate_size = 10;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.num_key_value_heads = 1;
    config.head_dim = 6;
    config.moe_intermediate_size = 7;
    config.num_experts = 5;
    config.num_experts_per_tok = 2;
    config.tie_word_embeddings = tied;
    if (!all_experts) config.mlp_only_layers = {0};
    return config;
  }
};

}  // namespace tessera::test
