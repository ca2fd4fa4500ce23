// What the builder of programs is asked for.
#pragma once

#include <cstdint>

#include "config/settings.h"
#include "program/chains.h"
#include "program/program.h"

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

// The options that the settings ask for, but for kind and micro_steps. Precondition: prefetch_depth is a number.
[[nodiscard]] BuilderOptions builder_options(const config::Settings& settings);

}  // namespace tessera::program
