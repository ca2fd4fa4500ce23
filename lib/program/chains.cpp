#include "program/chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace tessera::program {

using architecture::Architecture;
using architecture::Step;
using architecture::ValueId;

namespace {

std::vector<layout::GroupId> exchange_groups_of(const Architecture& a, const plan::PlacementIndex& placements,
                                                const layout::Layout& layout) {
  std::vector<layout::GroupId> groups;
  for (const auto& step : a.steps()) {
    auto& group = groups.emplace_back();
    if (step.type != Step::Type::exchange) continue;
    auto id = step.axis ? layout::GroupId::of(*step.axis) : placements.of(step.owned).owners();
    if (layout.has_several_ranks(id)) group = std::move(id);
  }
  return groups;
}

bool is_gathered_over_ranks(const plan::PlacementIndex& placements, const layout::Layout& layout, const Step& step) {
  return std::any_of(step.uses.begin(), step.uses.end(), [&](const architecture::ParameterUse& u) {
    const auto& placement = placements.of(u.use.fqn);
    return layout.has_several_ranks(plan::gather_group(placement, u.use.kind));
  });
}

// The segment is a chain of its own where only experts are recomputed.
bool is_alone(const Step& step, Recompute recompute) {
  return recompute == Recompute::experts && step.recomputed == architecture::Recomputed::experts;
}

// The segments of a chain, without the exchanges fused into it.
std::vector<const Step*> segments_of(const std::vector<Step>& steps, const Chain& c) {
  std::vector<const Step*> segments;
  for (auto k = c.first; k <= c.last; ++k)
    if (steps[static_cast<std::size_t>(k)].type == Step::Type::segment)
      segments.push_back(&steps[static_cast<std::size_t>(k)]);
  return segments;
}

// No other segment of their layer stands before `first` or behind `last`, both of `steps`.
bool is_whole_layer(const std::vector<Step>& steps, const Step& first, const Step& last) {
  const auto is_other = [&](const Step& step) { return step.layer != first.layer; };
  const auto is_segment = [](const Step& step) { return step.type == Step::Type::segment; };
  const auto before = std::make_reverse_iterator(steps.begin() + (&first - steps.data()));
  const auto behind = steps.begin() + (&last - steps.data()) + 1;
  return std::none_of(before, std::find_if(before, steps.rend(), is_other), is_segment) &&
         std::none_of(behind, std::find_if(behind, steps.end(), is_other), is_segment);
}

std::string chain_name(const std::vector<Step>& steps, const Chain& c) {
  const auto segments = segments_of(steps, c);
  const auto& first = *segments.front();
  const auto& last = *segments.back();
  if (segments.size() == 1) return first.name();
  if (first.layer < 0) return "embed";
  if (is_whole_layer(steps, first, last)) return fmt::format("layers.{}", first.layer);
  return first.name() + ".." + last.name();
}

using UnitNumbers = std::unordered_map<std::string_view, std::int32_t>;

UnitNumbers numbers_of(const std::vector<plan::Unit>& units) {
  UnitNumbers numbers;
  for (std::size_t u = 0; u < units.size(); ++u) numbers.emplace(units[u].name, static_cast<std::int32_t>(u));
  return numbers;
}

// Fills reads, writes, kept and units of a chain whose steps are known.
void complete(Chain& chain, const std::vector<Step>& steps, const UnitNumbers& units) {
  std::set<ValueId> made, read;
  const auto read_value = [&](ValueId v) {
    if (!made.contains(v) && read.insert(v).second) chain.reads.push_back(v);
  };
  const auto make = [&](ValueId v) {
    if (made.insert(v).second) chain.writes.push_back(v);
  };
  for (auto k = chain.first; k <= chain.last; ++k) {
    const auto& step = steps[static_cast<std::size_t>(k)];
    for (const auto& v : step.reads) read_value(v);
    for (const auto& [from, to] : step.moves) {
      read_value(from);
      make(to);
    }
    for (const auto& v : step.writes) {
      make(v);
      if (architecture::is_kept(v.kind)) chain.kept.push_back(v);
    }
    if (step.unit.empty()) continue;
    const auto unit = units.find(step.unit);
    base::expect(unit != units.end(), "step {} names no unit: {}", step.name(), step.unit);
    if (std::find(chain.units.begin(), chain.units.end(), unit->second) == chain.units.end())
      chain.units.push_back(unit->second);
  }
}

// Leaves in `writes` only what later steps and the sum of counts read, and what a recomputation is handed.
void drop_inner_writes(std::vector<Chain>& chains, const Architecture& a, Recompute recompute) {
  std::map<ValueId, std::int32_t> last_reader;  // the number of its step
  for (std::size_t k = 0; k < a.steps().size(); ++k) {
    const auto& step = a.steps()[k];
    for (const auto& v : step.reads) last_reader[v] = static_cast<std::int32_t>(k);
    for (const auto& move : step.moves) last_reader[move.first] = static_cast<std::int32_t>(k);
  }
  std::set<ValueId> summed;
  if (a.summed_counts().has_value())
    for (const auto& step : a.steps()) summed.insert(step.counts.begin(), step.counts.end());
  for (auto& chain : chains) {
    if (!is_recomputed(chain, a, recompute)) chain.kept.clear();
    const auto is_wanted = [&](const ValueId& v) {
      const auto reader = last_reader.find(v);
      return (reader != last_reader.end() && reader->second > chain.last) || summed.contains(v) ||
             std::find(chain.kept.begin(), chain.kept.end(), v) != chain.kept.end();
    };
    std::erase_if(chain.writes, [&](const ValueId& v) { return !is_wanted(v); });
  }
}

}  // namespace

bool is_recomputed(const Chain& chain, const Architecture& a, Recompute recompute) {
  using architecture::Recomputed;
  const auto segments = segments_of(a.steps(), chain);
  const auto first = segments.front()->recomputed;
  if (recompute == Recompute::none || first == Recomputed::never) return false;
  if (segments.size() > 1) return recompute == Recompute::full;
  return first == Recomputed::experts || (recompute == Recompute::full && first == Recomputed::with_layer);
}

ForwardOrder cut_into_chains(const Architecture& a, const plan::PlacementIndex& placements,
                             const layout::Layout& layout, Recompute recompute, Fusion fusion) {
  ForwardOrder forward;
  forward.exchange_groups = exchange_groups_of(a, placements, layout);
  const auto& steps = a.steps();
  std::string unit;                   // the last one that the open chain uses
  std::int32_t layer = -1;            // of the open chain
  bool open = false;                  // the next segment may join the last chain
  std::vector<std::int32_t> pending;  // identity exchanges since the last segment
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const auto& step = steps[k];
    const auto index = static_cast<std::int32_t>(k);
    if (step.type == Step::Type::exchange) {
      if (fusion == Fusion::none || !forward.exchange_groups[k].is_alone()) {
        forward.order.push_back({Node::Type::exchange, index});
        open = false;
      } else {
        pending.push_back(index);
      }
      continue;
    }
    const bool other_unit =
        !step.unit.empty() && !unit.empty() && step.unit != unit && is_gathered_over_ranks(placements, layout, step);
    if (!open || step.layer != layer || other_unit || is_alone(step, recompute)) {
      const auto first = pending.empty() ? index : pending.front();
      forward.chains.push_back({.name = {}, .first = first, .units = {}, .reads = {}, .writes = {}, .kept = {}});
      forward.order.push_back({Node::Type::chain, static_cast<std::int32_t>(forward.chains.size()) - 1});
      open = true;
      layer = step.layer;
      unit.clear();
    }
    pending.clear();
    forward.chains.back().last = index;
    if (!step.unit.empty()) unit = step.unit;
    if (is_alone(step, recompute)) open = false;
  }
  const auto units = numbers_of(a.units());
  for (auto& chain : forward.chains) {
    complete(chain, steps, units);
    chain.name = chain_name(steps, chain);
  }
  drop_inner_writes(forward.chains, a, recompute);
  return forward;
}

}  // namespace tessera::program
