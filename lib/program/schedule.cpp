#include "program/schedule.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tessera::program {

Schedule one_after_other(std::int32_t micro_steps, StepKind kind) { return in_turns(micro_steps, 1, kind); }

Schedule in_turns(std::int32_t micro_steps, std::int32_t together, StepKind kind) {
  base::expect(together >= 1, "turns of {} micro-steps", together);
  Schedule schedule;
  if (kind == StepKind::skipped) return schedule;
  for (std::int32_t first = 0; first < micro_steps; first += together) {
    auto& turns = schedule.emplace_back();
    for (auto micro = first; micro < std::min(first + together, micro_steps); ++micro) {
      auto& lane = turns.lanes.emplace_back();
      lane.push_back({micro, Direction::forward});
      if (kind == StepKind::train) lane.push_back({micro, Direction::backward});
    }
  }
  return schedule;
}

void expect_legal(const Schedule& schedule, std::int32_t micro_steps, StepKind kind) {
  const bool trains = kind == StepKind::train;
  std::set<std::int32_t> forward, backward;  // micro-steps whose pass is behind the one that is looked at
  for (const auto& turns : schedule) {
    std::set<std::int32_t> of_other_lanes;
    for (const auto& lane : turns.lanes) {
      std::set<std::int32_t> of_lane;
      for (const auto& pass : lane) {
        base::expect(pass.micro >= 0 && pass.micro < micro_steps, "the schedule has micro-step {}, of {}", pass.micro,
                     micro_steps);
        if (pass.direction == Direction::forward) {
          const bool is_new = !forward.contains(pass.micro) && !of_other_lanes.contains(pass.micro) &&
                              of_lane.insert(pass.micro).second;
          base::expect(is_new, "the schedule runs micro-step {} forward twice", pass.micro);
        } else {
          base::expect(trains, "the schedule of a step that does not train runs micro-step {} backward", pass.micro);
          base::expect(forward.contains(pass.micro) || of_lane.contains(pass.micro),
                       "the schedule runs micro-step {} backward before it has run forward", pass.micro);
          base::expect(backward.insert(pass.micro).second, "the schedule runs micro-step {} backward twice",
                       pass.micro);
        }
      }
      of_other_lanes.merge(of_lane);
    }
    forward.merge(of_other_lanes);
  }
  for (std::int32_t micro = 0; kind != StepKind::skipped && micro < micro_steps; ++micro) {
    base::expect(forward.contains(micro), "the schedule does not run micro-step {} forward", micro);
    base::expect(!trains || backward.contains(micro), "the schedule does not run micro-step {} backward", micro);
  }
}

}  // namespace tessera::program
