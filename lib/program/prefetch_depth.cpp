#include "program/prefetch_depth.h"

#include <algorithm>

namespace tessera::program {

namespace {

constexpr double share = 0.1;  // of the memory, for what is gathered ahead

double buffer_bytes(const MemoryPlan& plan) {
  double sum = 0;
  for (const auto* buffers : {&plan.weight_buffers, &plan.gradient_buffers})
    for (const auto& [bytes, count] : *buffers) sum += static_cast<double>(bytes) * static_cast<double>(count);
  return sum;
}

}  // namespace

std::int32_t affordable_prefetch_depth(const architecture::Architecture& architecture,
                                       const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                       const BuilderOptions& options, const MemoryFacts& facts) {
  auto tried = options;
  // Micro-steps behind the second turn repeat it.
  tried.micro_steps = std::min(options.micro_steps, options.overlap_exchange ? 4 : 2);
  const auto built = [&](std::int32_t depth) {
    tried.prefetch_depth = depth;
    return build_program(architecture, placements, layout, tried);
  };
  const auto planned = [&](const Program& program) {
    return plan_memory(program, architecture, placements, layout, 0, facts);
  };
  const auto nearest = built(1);
  if (std::all_of(nearest.unit_groups.begin(), nearest.unit_groups.end(), [](const auto& g) { return g.empty(); }))
    return 1;
  const auto least = planned(nearest);
  const auto most_bytes = buffer_bytes(least) + share * least.total();
  const auto is_affordable = [&](std::int32_t depth) { return buffer_bytes(planned(built(depth))) <= most_bytes; };

  const auto chains = static_cast<std::int32_t>(nearest.chains.size());
  std::int32_t affordable = 1, next = 2;
  while (next <= chains && is_affordable(next)) {
    affordable = next;
    next *= 2;
  }
  auto beyond = std::min(next, chains + 1);
  while (beyond - affordable > 1) {
    const auto middle = affordable + (beyond - affordable) / 2;
    (is_affordable(middle) ? affordable : beyond) = middle;
  }
  return affordable;
}

}  // namespace tessera::program
