#include "program/gather_schedule.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace tessera::program {

namespace {

// One stay of a unit in gathered form: first and last instruction that use it, and where its gather starts.
struct Interval {
  std::int32_t unit = 0;
  std::size_t first = 0, last = 0, start = 0;
};

using Key = std::tuple<std::int32_t, std::int32_t, int>;  // unit, number of the Turns, pass

// By micro-step, for each direction: the number of the Turns that its pass is in.
using NumbersOfTurns = std::map<std::pair<std::int32_t, Direction>, std::int32_t>;

NumbersOfTurns numbers_of(const Schedule& schedule) {
  NumbersOfTurns numbers;
  for (std::size_t k = 0; k < schedule.size(); ++k)
    for (const auto& lane : schedule[k].lanes)
      for (const auto& pass : lane) numbers[{pass.micro, pass.direction}] = static_cast<std::int32_t>(k);
  return numbers;
}

// Passes of one direction in one Turns share a stay, and both directions do without reshard_after_forward.
Key key_of(std::int32_t unit, const Instruction& i, const BuilderOptions& options, const NumbersOfTurns& turns) {
  const bool fully_sharded = options.mode == config::FsdpMode::fsdp2 || options.mode == config::FsdpMode::zero3;
  if (!fully_sharded) return {unit, 0, 0};
  const bool is_backward = i.op == Op::backward || i.op == Op::recompute;
  if (!options.reshard_after_forward) return {unit, turns.at({i.micro, Direction::forward}), 0};
  return {unit, turns.at({i.micro, is_backward ? Direction::backward : Direction::forward}), is_backward ? 1 : 0};
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

std::vector<Interval> find_intervals(const Program& program, const Schedule& schedule, const BuilderOptions& options) {
  std::vector<Interval> intervals;  // ascending by first
  const auto turns = numbers_of(schedule);
  std::map<Key, std::size_t> index;
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const auto& i = program.instructions[k];
    for (const auto& r : i.reads) {
      if (r.kind != ResourceKind::weights) continue;
      const auto [at, is_new] = index.try_emplace(key_of(r.index, i, options, turns), intervals.size());
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

// Something to put before or after an instruction, in the order of the members.
struct Insertion {
  enum class What : std::uint8_t { gather_needed, wait, gather_ahead, the_instruction, free };
  std::size_t at = 0;  // the instruction
  What what{};
  std::size_t interval = 0;
  friend auto operator<=>(const Insertion&, const Insertion&) = default;
};

std::vector<Insertion> insertions_of(const std::vector<Interval>& intervals) {
  using What = Insertion::What;
  std::vector<Insertion> insertions;
  insertions.reserve(3 * intervals.size());
  for (std::size_t k = 0; k < intervals.size(); ++k) {
    const auto& interval = intervals[k];
    insertions.push_back(
        {interval.start, interval.start == interval.first ? What::gather_needed : What::gather_ahead, k});
    insertions.push_back({interval.first, What::wait, k});
    insertions.push_back({interval.last, What::free, k});
  }
  std::sort(insertions.begin(), insertions.end());
  return insertions;
}

Instruction inserted(const Insertion& insertion, const Interval& interval, std::int32_t first_ticket) {
  const auto weights = resource(ResourceKind::weights, interval.unit);
  Instruction i;
  i.target = interval.unit;
  if (insertion.what == Insertion::What::free) {
    i.op = Op::free;
    i.frees.push_back(weights);
    return i;
  }
  i.ticket = first_ticket + static_cast<std::int32_t>(insertion.interval);
  i.op = Op::gather;
  if (insertion.what != Insertion::What::wait) return i;
  i.op = Op::wait;
  i.waits_for = Op::gather;
  i.writes.push_back(weights);
  return i;
}

}  // namespace

void schedule_gathers(Program& program, const Schedule& schedule, const BuilderOptions& options) {
  auto intervals = find_intervals(program, schedule, options);
  choose_starts(intervals, options.prefetch_depth);
  std::int32_t next_ticket = 0;
  for (const auto& i : program.instructions) next_ticket = std::max(next_ticket, i.ticket + 1);

  const auto insertions = insertions_of(intervals);
  std::vector<Instruction> scheduled;
  scheduled.reserve(program.instructions.size() + insertions.size());
  auto next = insertions.begin();
  for (std::size_t p = 0; p < program.instructions.size(); ++p) {
    const Insertion here{.at = p, .what = Insertion::What::the_instruction};
    for (; next != insertions.end() && *next < here; ++next)
      scheduled.push_back(inserted(*next, intervals[next->interval], next_ticket));
    scheduled.push_back(std::move(program.instructions[p]));
    for (; next != insertions.end() && next->at == p; ++next)
      scheduled.push_back(inserted(*next, intervals[next->interval], next_ticket));
  }
  program.instructions = std::move(scheduled);
}

}  // namespace tessera::program
