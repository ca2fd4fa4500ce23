// How an executor runs programs.
#pragma once

#include <cstdint>

#include "config/settings.h"
#include "device/numbers.h"

namespace tessera::executor {

// together: communication is under way while the rank computes. The others run each to its end before the other goes
// on, all ranks of a group starting it at the same time, and count the seconds of one of them alone.
enum class Measured : std::uint8_t { together, compute_alone, communication_alone };

struct ExecutorOptions {
  double max_grad_norm = 1;
  double norm_type = 2;
  config::BalanceLoss balance = config::BalanceLoss::pooled;
  double balance_coef = 0;  // of the balance loss, only to tell whether the total is finite
  double z_coef = 0;
  std::int32_t most_micro_steps = 1;  // of any step or evaluation: the length of *open* follows from it
  bool counts_sequences = true;       // this rank adds the tokens of its sequences to *open* (layout::counts_sequences)
  device::Numbers numbers;
  Measured measured = Measured::together;
  bool checks_values = false;  // each value that a step stores is compared with its row in the table of values
};

}  // namespace tessera::executor
