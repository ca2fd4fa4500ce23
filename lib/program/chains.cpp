#include "program/chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace tessera::program {

using architecture::Architecture;
using architecture::ExchangeKind;
using architecture::SegmentKind;
using architecture::Step;
using architecture::ValueId;

namespace {

// By layer (-1: the embedding): the extra parallel that cuts the parameters of the experts, or of the embedding.
std::unordered_map<std::int32_t, std::string> owners_of(const Architecture& a, const plan::PlacementIndex& placements) {
  std::unordered_map<std::int32_t, std::string> owners;
  for (const auto& s : a.steps()) {
    if (s.type != Step::Type::segment) continue;
    if (s.segment == SegmentKind::experts || s.segment == SegmentKind::lookup)
      owners.try_emplace(s.layer, placements.of(s.uses.front().use.fqn).extra);
  }
  return owners;
}

std::string group_of(ExchangeKind exchange, const std::string& owners) {
  switch (exchange) {
    case ExchangeKind::sequence_to_heads:
    case ExchangeKind::heads_to_sequence: return "ulysses";
    case ExchangeKind::sum_tensor_parallel: return "tp";
    case ExchangeKind::id_counts:
    case ExchangeKind::ids_to_owners:
    case ExchangeKind::rows_from_owners:
    case ExchangeKind::row_counts:
    case ExchangeKind::dispatch:
    case ExchangeKind::combine: break;
  }
  return owners;
}

std::vector<std::string> exchange_groups_of(const Architecture& a, const plan::PlacementIndex& placements,
                                            const layout::Layout& layout) {
  auto owners = owners_of(a, placements);
  std::vector<std::string> groups;
  for (const auto& step : a.steps()) {
    auto& group = groups.emplace_back();
    if (step.type != Step::Type::exchange) continue;
    auto name = group_of(step.exchange, owners[step.layer]);
    if (plan::has_several_ranks(layout, name)) group = std::move(name);
  }
  return groups;
}

bool is_gathered_over_ranks(const plan::PlacementIndex& placements, const layout::Layout& layout, const Step& step) {
  return std::any_of(step.uses.begin(), step.uses.end(), [&](const architecture::ParameterUse& u) {
    const auto& placement = placements.of(u.use.fqn);
    return plan::has_several_ranks(layout, plan::gather_group(placement, u.use.kind));
  });
}

bool is_experts(const Step& step) { return step.type == Step::Type::segment && step.segment == SegmentKind::experts; }

// The segments of a chain, without the exchanges fused into it.
std::vector<const Step*> segments_of(const std::vector<Step>& steps, const Chain& c) {
  std::vector<const Step*> segments;
  for (auto k = c.first; k <= c.last; ++k)
    if (steps[static_cast<std::size_t>(k)].type == Step::Type::segment)
      segments.push_back(&steps[static_cast<std::size_t>(k)]);
  return segments;
}

std::string chain_name(const std::vector<Step>& steps, const Chain& c) {
  const auto segments = segments_of(steps, c);
  const auto& first = *segments.front();
  const auto& last = *segments.back();
  if (segments.size() == 1) return first.name();
  if (first.layer < 0) return "embed";
  const bool starts = first.segment == SegmentKind::project;
  const bool ends = last.segment == SegmentKind::merge || last.segment == SegmentKind::dense;
  if (starts && ends) return fmt::format("layers.{}", first.layer);
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
  const bool sums_counts = a.balance() != config::BalanceLoss::sequence;
  for (auto& chain : chains) {
    if (!is_recomputed(chain, a, recompute)) chain.kept.clear();
    const auto is_wanted = [&](const ValueId& v) {
      const auto reader = last_reader.find(v);
      return (reader != last_reader.end() && reader->second > chain.last) ||
             (sums_counts && v.kind == architecture::ValueKind::router_count) ||
             std::find(chain.kept.begin(), chain.kept.end(), v) != chain.kept.end();
    };
    std::erase_if(chain.writes, [&](const ValueId& v) { return !is_wanted(v); });
  }
}

}  // namespace

bool is_recomputed(const Chain& chain, const Architecture& a, Recompute recompute) {
  const auto segments = segments_of(a.steps(), chain);
  if (recompute == Recompute::none || segments.front()->layer < 0) return false;
  if (segments.size() > 1) return recompute == Recompute::full;
  return is_experts(*segments.front()) ||
         (recompute == Recompute::full && segments.front()->segment != SegmentKind::merge);
}

Stages cut_into_stages(const Architecture& a, const plan::PlacementIndex& placements, const layout::Layout& layout,
                       Recompute recompute, Fusion fusion) {
  Stages stages;
  stages.exchange_groups = exchange_groups_of(a, placements, layout);
  const auto& steps = a.steps();
  std::string unit;                   // the last one that the open chain uses
  std::int32_t layer = -1;            // of the open chain
  bool open = false;                  // the next segment may join the last chain
  std::vector<std::int32_t> pending;  // identity exchanges since the last segment
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const auto& step = steps[k];
    const auto index = static_cast<std::int32_t>(k);
    if (step.type == Step::Type::exchange) {
      if (fusion == Fusion::none || !stages.exchange_groups[k].empty()) {
        stages.order.push_back({Stage::Type::exchange, index});
        open = false;
      } else {
        pending.push_back(index);
        if (recompute == Recompute::experts && step.exchange == ExchangeKind::combine) open = false;
      }
      continue;
    }
    const bool other_unit =
        !step.unit.empty() && !unit.empty() && step.unit != unit && is_gathered_over_ranks(placements, layout, step);
    const bool alone = recompute == Recompute::experts && is_experts(step);
    if (!open || step.layer != layer || other_unit || alone) {
      const auto first = pending.empty() ? index : pending.front();
      stages.chains.push_back({.name = {}, .first = first, .units = {}, .reads = {}, .writes = {}, .kept = {}});
      stages.order.push_back({Stage::Type::chain, static_cast<std::int32_t>(stages.chains.size()) - 1});
      open = true;
      layer = step.layer;
      unit.clear();
    }
    pending.clear();
    stages.chains.back().last = index;
    if (!step.unit.empty()) unit = step.unit;
  }
  const auto units = numbers_of(a.units());
  for (auto& chain : stages.chains) {
    complete(chain, steps, units);
    chain.name = chain_name(steps, chain);
  }
  drop_inner_writes(stages.chains, a, recompute);
  return stages;
}

}  // namespace tessera::program
