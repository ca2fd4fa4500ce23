// Says how an executor runs programs.
#pragma once

#include <cstdint>

#include "config/settings.h"
#include "device/numbers.h"

namespace tessera::executor {

// together: communication is under way while the rank computes. In the other modes compute and communication wait for
// each other, all ranks of a group start a communication at the same time, and the seconds of one of the two are
// counted.
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
