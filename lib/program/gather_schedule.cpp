#include "program/gather_schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::program {

namespace {

// One stay of a unit in gathered form: first and last instruction that use it, and where its gather starts.
struct Interval {
  std::int32_t unit = 0;
  std::size_t first = 0, last = 0, start = 0;
};

using Key = std::tuple<std::int32_t, std::int32_t, int>;  // unit, micro-step, pass

// Micro-steps that take turns share a stay.
Key key_of(std::int32_t unit, const Instruction& i, const BuilderOptions& options, std::int32_t together) {
  const bool fully_sharded = options.mode == config::FsdpMode::fsdp2 || options.mode == config::FsdpMode::zero3;
  if (!fully_sharded) return {unit, 0, 0};
  const auto turn = i.micro / together;
  if (!options.reshard_after_forward) return {unit, turn, 0};
  return {unit, turn, i.op == Op::backward || i.op == Op::recompute ? 1 : 0};
}

// Stays of one unit that touch become one: micro-steps that take turns may be in different passes.
std::vector<Interval> joined(const std::vector<Interval>& intervals) {
  std::vector<Interval> result;
  std::map<std::int32_t, std::size_t> last_of_unit;
  for (const auto& interval : intervals) {
    const auto [at, is_first] = last_of_unit.try_emplace(interval.unit, result.size());
    if (!is_first && interval.first <= result[at->second].last) {
      result[at->second].last = std::max(result[at->second].last, interval.last);
      continue;
    }
    at->second = result.size();
    result.push_back(interval);
  }
  return result;
}

std::vector<Interval> find_intervals(const Program& program, const BuilderOptions& options) {
  std::vector<Interval> intervals;  // ascending by first
  const auto together = micro_steps_together(program, options);
  std::map<Key, std::size_t> index;
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const auto& i = program.instructions[k];
    for (const auto& r : i.reads) {
      if (r.kind != ResourceKind::weights) continue;
      const auto [at, is_new] = index.try_emplace(key_of(r.index, i, options, together), intervals.size());
      if (is_new) intervals.push_back({.unit = r.index, .first = k});
      intervals[at->second].last = k;
    }
  }
  return joined(intervals);
}

// Ahead counts places where the step waits for units, so that depth 1 brings all units of the next chain.
void choose_starts(std::vector<Interval>& intervals, std::int32_t depth) {
  std::vector<std::size_t> places;
  std::map<std::int32_t, std::size_t> free_from;  // unit -> first instruction after its last stay
  for (auto& interval : intervals) {
    if (places.empty() || places.back() != interval.first) places.push_back(interval.first);
    const auto here = places.size() - 1;
    const auto ahead = here - std::min(here, static_cast<std::size_t>(depth));
    interval.start = std::min(interval.first, std::max(places[ahead], free_from[interval.unit]));
    free_from[interval.unit] = interval.last + 1;
  }
}

// What surrounds one instruction: intervals by their numbers, ascending.
struct Place {
  std::vector<std::size_t> gathers_before, waits_before, gathers_ahead, frees_after;
};

std::vector<Place> places_of(const std::vector<Interval>& intervals, std::size_t instructions) {
  std::vector<Place> places(instructions);
  for (std::size_t k = 0; k < intervals.size(); ++k) {
    const auto& interval = intervals[k];
    auto& start = places[interval.start];
    (interval.start == interval.first ? start.gathers_before : start.gathers_ahead).push_back(k);
    places[interval.first].waits_before.push_back(k);
    places[interval.last].frees_after.push_back(k);
  }
  return places;
}

Instruction unit_instruction(Op op, std::int32_t unit) {
  Instruction i{.op = op};
  i.target = unit;
  return i;
}

}  // namespace

void schedule_gathers(Program& program, const BuilderOptions& options) {
  auto intervals = find_intervals(program, options);
  choose_starts(intervals, options.prefetch_depth);
  std::int32_t next_ticket = 0;
  for (const auto& i : program.instructions) next_ticket = std::max(next_ticket, i.ticket + 1);

  std::vector<Instruction> scheduled;
  const auto gather = [&](std::size_t k) {
    auto i = unit_instruction(Op::gather, intervals[k].unit);
    i.ticket = next_ticket + static_cast<std::int32_t>(k);
    scheduled.push_back(std::move(i));
  };
  const auto wait = [&](std::size_t k) {
    auto i = unit_instruction(Op::wait, intervals[k].unit);
    i.waits_for = Op::gather;
    i.ticket = next_ticket + static_cast<std::int32_t>(k);
    i.writes.push_back({.kind = ResourceKind::weights, .micro = -1, .index = intervals[k].unit, .value = {}});
    scheduled.push_back(std::move(i));
  };
  const auto free = [&](std::size_t k) {
    auto i = unit_instruction(Op::free, intervals[k].unit);
    i.frees.push_back({.kind = ResourceKind::weights, .micro = -1, .index = intervals[k].unit, .value = {}});
    scheduled.push_back(std::move(i));
  };
  const auto places = places_of(intervals, program.instructions.size());
  for (std::size_t p = 0; p < places.size(); ++p) {
    std::for_each(places[p].gathers_before.begin(), places[p].gathers_before.end(), gather);
    std::for_each(places[p].waits_before.begin(), places[p].waits_before.end(), wait);
    std::for_each(places[p].gathers_ahead.begin(), places[p].gathers_ahead.end(), gather);
    scheduled.push_back(std::move(program.instructions[p]));
    std::for_each(places[p].frees_after.begin(), places[p].frees_after.end(), free);
  }
  program.instructions = std::move(scheduled);
}

}  // namespace tessera::program
