#include "architecture/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "architecture/family.h"
#include "base/error.h"

namespace tessera::architecture {

Architecture::Architecture(ModelConfig config, config::BalanceLoss balance)
    : Architecture(config, balance, config.family->build(config, balance)) {}

Architecture::Architecture(ModelConfig config, config::BalanceLoss balance, Block model)
    : config_(std::move(config)), balance_(balance), steps_(std::move(model.steps)), units_(units_of(steps_)) {
  const auto idle = config_.num_experts - config_.num_experts_per_tok;
  for (auto& parameter : model.parameters) {
    const auto elements = base::elements(parameter.spec);
    active_parameters_ += parameter.of_experts ? elements - elements / config_.num_experts * idle : elements;
    initial_.push_back(parameter.initial);
    parameters_.push_back(std::move(parameter.spec));
  }
}

std::size_t Architecture::number_of(std::string_view fqn) const {
  const auto found = std::ranges::find(parameters_, fqn, &base::ParameterSpec::fqn);
  base::expect(found != parameters_.end(), "the model has no parameter {}", fqn);
  return static_cast<std::size_t>(found - parameters_.begin());
}

const std::vector<std::int64_t>& Architecture::shape_of(std::string_view fqn) const {
  return parameters_[number_of(fqn)].shape;
}

Initial Architecture::initial_of(std::string_view fqn) const { return initial_[number_of(fqn)]; }

std::optional<ValueId> Architecture::summed_counts() const {
  if (balance_ == config::BalanceLoss::sequence || config_.moe_layers() == 0) return std::nullopt;
  return ValueId{ValueKind::balance_count};
}

std::int64_t Architecture::total_parameters() const {
  std::int64_t sum = 0;
  for (const base::ParameterSpec& parameter : parameters_) sum += base::elements(parameter);
  return sum;
}

StepCost Architecture::cost(const Step& step, const MicroBatchSizes& batch) const {
  constexpr double float_bytes = 4;
  const Sizes sizes(config_, batch);
  const Work work = step.work ? step.work(sizes) : Work{};
  StepCost cost{.forward_flops = work.forward_flops,
                .backward_input_flops = work.backward_input_flops,
                .backward_weight_flops = work.backward_weight_flops,
                .kept_bytes = work.kept_elements * float_bytes,
                .written_bytes = 0};
  const auto add_written = [&](ValueId id) {
    if (is_differentiable(id.kind)) cost.written_bytes += elements_of(id.kind, sizes) * float_bytes;
  };
  for (const ValueId id : step.writes) add_written(id);
  for (const auto& [from, to] : step.moves) add_written(to);
  return cost;
}

std::string Architecture::describe() const {
  const auto& c = config_;
  return fmt::format("{}, {} layers ({} with experts), hidden {}, {} experts ({} per token), vocabulary {}",
                     c.family->title, c.num_hidden_layers, c.moe_layers(), c.hidden_size, c.num_experts,
                     c.num_experts_per_tok, c.vocab_size);
}

std::vector<plan::Unit> units_of(const std::vector<Step>& steps) {
  std::vector<plan::Unit> units;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const Step& step : steps) {
    if (step.uses.empty()) continue;
    const auto [at, is_new] = index.try_emplace(step.unit, units.size());
    if (is_new) units.push_back({step.unit, {}});
    auto& uses = units[at->second].uses;
    for (const ParameterUse& used : step.uses)
      if (std::find(uses.begin(), uses.end(), used.use) == uses.end()) uses.push_back(used.use);
  }
  return units;
}

}  // namespace tessera::architecture
