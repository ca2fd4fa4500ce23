#include "architecture/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace tessera::architecture {

std::string Step::name() const { return layer < 0 ? std::string(kind) : fmt::format("{}[{}]", kind, layer); }

std::string layer_fqn(std::int64_t layer, std::string_view name) {
  return fmt::format("model.layers.{}.{}", layer, name);
}

void append(Block& model, Block block) {
  std::ranges::move(block.parameters, std::back_inserter(model.parameters));
  std::ranges::move(block.steps, std::back_inserter(model.steps));
}

std::string BlockBuilder::fqn(std::string_view name) const {
  return layer_ < 0 ? std::string(name) : layer_fqn(layer_, name);
}

void BlockBuilder::parameter(std::string_view name, std::vector<std::int64_t> shape, Initial initial) {
  block_.parameters.push_back({.spec = {fqn(name), std::move(shape)}, .initial = initial});
}

void BlockBuilder::expert_parameter(std::string_view name, std::vector<std::int64_t> shape, Initial initial) {
  parameter(name, std::move(shape), initial);
  block_.parameters.back().of_experts = true;
}

void BlockBuilder::fuse(std::string_view name, const std::vector<std::string_view>& parts) {
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const auto found =
        std::ranges::find(block_.parameters, fqn(parts[k]), [](const Parameter& p) { return p.spec.fqn; });
    base::expect(found != block_.parameters.end(), "{} has no part {}", name, parts[k]);
    found->spec.fused = {fqn(name), static_cast<std::int64_t>(k), std::ssize(parts)};
  }
}

Step& BlockBuilder::segment(std::string_view kind, std::vector<ValueId> reads, std::vector<ValueId> writes,
                            WorkOf work) {
  Step& step = block_.steps.emplace_back();
  step.type = Step::Type::segment;
  step.kind = kind;
  step.layer = layer_;
  step.reads = std::move(reads);
  step.writes = std::move(writes);
  step.work = std::move(work);
  return step;
}

Step& BlockBuilder::exchange(std::string_view kind, std::vector<std::pair<ValueId, ValueId>> moves,
                             std::vector<ValueId> counts) {
  Step& step = block_.steps.emplace_back();
  step.type = Step::Type::exchange;
  step.kind = kind;
  step.layer = layer_;
  step.reads = std::move(counts);
  step.moves = std::move(moves);
  return step;
}

Step& BlockBuilder::use(Step& step, const std::string& unit, const std::vector<std::string_view>& names,
                        plan::UseKind kind) const {
  step.unit = unit;
  for (const auto name : names) step.uses.push_back({name, {fqn(name), kind}});
  return step;
}

}  // namespace tessera::architecture
