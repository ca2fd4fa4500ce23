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
  // Says when a unit is gathered and when its gradients are reduced.
  //   fsdp2, zero3  gathered for each pass and freed after it; reduced in each micro-step
  //   zero2         gathered once a step; reduced in each micro-step
  //   zero1, ddp    gathered once a step; reduced once a step (ddp differs by its placements)
  config::FsdpMode mode = config::FsdpMode::fsdp2;
  bool reshard_after_forward = true;  // false: under fsdp2, a unit stays gathered from its forward to its backward
  // Number of chains whose units are gathered ahead of the chain that runs. As many reductions, but at least one, may
  // be under way.
  std::int32_t prefetch_depth = 1;
  Recompute recompute = Recompute::none;
  Fusion fusion = Fusion::neighbours;
  // Lets two micro-steps take turns at every exchange of rows, so that one computes while the other's rows travel.
  bool overlap_exchange = false;
};

// Returns the options that the settings ask for; kind and micro_steps keep their defaults. Precondition: prefetch_depth
// is a number.
[[nodiscard]] BuilderOptions builder_options(const config::Settings& settings);

}  // namespace tessera::program
