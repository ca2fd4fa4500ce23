// The learning rate as a function of the step.
//
// Warm-up and the styles constant and cosine are VeOmni's (0.1.12, veomni/optim/lr_scheduler.py). VeOmni's linear falls
// to 0 at the last step and is cut off at 1e-7; here it falls to lr_min at the step that lr_decay_ratio gives. wsd
// (warm-up, stable, decay) follows Hu et al., "MiniCPM", 2024.
#pragma once

#include <cstdint>

#include "config/settings.h"

namespace tessera::optim {

// Returns the rate of optimizer step `step` (from 0) of `total_steps`; n = total_steps, floor = min(lr_min, lr).
//   warm-up   first w = int(n * lr_warmup_ratio) steps: lr_start + (lr - lr_start) * step / w; the first has lr_start
//   constant  lr
//   linear    from lr at w to the floor at e by a straight line, then the floor; e = int(n * lr_decay_ratio)
//   cosine    as linear, by half a cosine
//   wsd       lr, then over the last d = int(n * lr_decay_ratio) steps (at most those after the warm-up)
//             floor + (lr - floor) * (n - step) / d
// Steps beyond n have the rate at n (constant: lr). Precondition: 0 <= step.
[[nodiscard]] double learning_rate(const config::OptimizerSettings& settings, std::int64_t step,
                                   std::int64_t total_steps);

}  // namespace tessera::optim
