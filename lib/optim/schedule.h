// The learning rate as a function of the step.
//
// Warm-up and the styles constant and cosine are VeOmni's (0.1.12, veomni/optim/lr_scheduler.py). Its linear is a line
// to 0 at the last step that is cut off at 1e-7; here the line itself ends at lr_min, where lr_decay_ratio says. wsd
// (warm-up, stable, decay) follows Hu et al., "MiniCPM", 2024.
#pragma once

#include <cstdint>

#include "config/settings.h"

namespace tessera::optim {

// Rate of optimizer step `step` (the first is 0) of `total_steps`; n = total_steps, floor = min(lr_min, lr).
//   warm-up   first w = int(n * lr_warmup_ratio) steps: lr_start + (lr - lr_start) * step / w; the first has lr_start
//   constant  lr
//   linear    from lr at w to the floor at e by a straight line, then the floor; e = int(n * lr_decay_ratio)
//   cosine    as linear, by half a cosine
//   wsd       lr, then over the last d = int(n * lr_decay_ratio) steps (at most those after the warm-up)
//             floor + (lr - floor) * (n - step) / d
// Precondition: 0 <= step. Steps beyond n have the end's rate (constant: lr).
[[nodiscard]] double learning_rate(const config::OptimizerSettings& settings, std::int64_t step,
                                   std::int64_t total_steps);

}  // namespace tessera::optim
