// Builds the program of a step: a pure function of architecture, placements, layout and options.
#pragma once

#include <cstdint>
#include <vector>

#include "architecture/architecture.h"
#include "config/settings.h"
#include "layout/layout.h"
#include "plan/placement.h"
#include "program/chains.h"
#include "program/program.h"
#include "program/schedule.h"

namespace tessera::program {

struct BuilderOptions {
  StepKind kind = StepKind::train;
  std::int32_t micro_steps = 1;
  // fsdp2 = zero3: gathered for each pass and freed after it. zero2: gathered once a step, reduced each micro-step.
  // zero1, ddp: gathered once a step, reduced once (ddp differs by its placements).
  config::FsdpMode mode = config::FsdpMode::fsdp2;
  bool reshard_after_forward = true;  // fsdp2: false keeps a unit gathered from its forward to its backward
  // Chains whose units are gathered ahead of the one that runs, and (at least one) whose reductions are under way.
  std::int32_t prefetch_depth = 1;
  Recompute recompute = Recompute::none;
  Fusion fusion = Fusion::neighbours;
  // Two micro-steps at a time take turns at every exchange of rows, so that one computes while the other's rows travel.
  bool overlap_exchange = false;
};

// Builds the program of a step whose passes follow each other as `schedule` says, which must be legal (expect_legal).
[[nodiscard]] Program build_program(const architecture::Architecture& architecture,
                                    const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                    const BuilderOptions& options, const Schedule& schedule);

// The same by the schedule that the options ask for: two micro-steps at a time take turns with overlap_exchange, if the
// step trains and there are rows to exchange; else one micro-step follows the other.
[[nodiscard]] Program build_program(const architecture::Architecture& architecture,
                                    const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                    const BuilderOptions& options);

// The options that the settings ask for, but for kind and micro_steps. Precondition: prefetch_depth is a number.
[[nodiscard]] BuilderOptions builder_options(const config::Settings& settings);

}  // namespace tessera::program
