// What goes into a step and what comes out of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/values.h"

namespace tessera::executor {

// The signal that asks a run to stop, so that every rank learns of it.
enum class Stop : std::uint8_t { none, interrupt, terminate, hang_up, user };

// What this rank brings to *open*.
struct StepInputs {
  std::vector<model::Values> batches;  // per micro-step: the batch values (ids ... sequence_starts)
  double lr = 0;
  Stop stop = Stop::none;    // a signal arrived on this rank
  bool data_failed = false;  // the loader of this rank failed
};

enum class Outcome : std::uint8_t {
  done,         // trained, or evaluated
  skipped,      // no valid token in the global batch: nothing but *open* ran
  stopped,      // some rank asked to stop: nothing but *open* ran
  data_failed,  // some rank has no data: nothing but *open* ran
  non_finite,   // ran, but the loss or the gradient norm is not finite: no update was made
};

struct StepResult {
  Outcome outcome = Outcome::done;
  Stop stop = Stop::none;         // why it was stopped, on whatever rank the signal arrived
  std::int64_t valid_tokens = 0;  // of the global batch, as all counts below
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  double cross_entropy = 0;  // mean over valid tokens
  double balance_loss = 0;   // without its coefficient
  double z_loss = 0;         // without its coefficient
  double grad_norm = 0;      // before clipping
  double clip_factor = 1;
  std::map<std::string, double> group_norms;
  std::vector<std::vector<std::int64_t>> expert_load;  // [MoE layer][expert] slots
  double measured_s = 0;                               // of this rank, of what ExecutorOptions::measured asks for alone
  std::string non_finite_where;  // "the output of layer 3 on rank 2", "the loss", "the gradient of model.norm.weight"
};

}  // namespace tessera::executor
