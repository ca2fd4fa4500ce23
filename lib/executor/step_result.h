// The inputs and the result of one training step or one step of an evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/values.h"

namespace tessera::executor {

// The signal that asks a run to stop, so that every rank learns of it.
enum class Stop : std::uint8_t { none, interrupt, terminate, hang_up, user };

// The inputs of this rank. *open* tells all ranks of its stop signal and its failed data.
struct StepInputs {
  std::vector<model::Values> batches;  // by micro-step: the batch values (ids ... sequence_starts)
  double lr = 0;                       // the learning rate
  Stop stop = Stop::none;              // a signal arrived on this rank
  bool data_failed = false;            // the loader of this rank failed
};

enum class Outcome : std::uint8_t {
  done,         // trained, or evaluated
  skipped,      // the global batch has no valid token; only *open* ran
  stopped,      // some rank asked to stop; only *open* ran
  data_failed,  // some rank has no data; only *open* ran
  non_finite,   // the loss or the gradient norm is not finite; the step made no update
};

struct StepResult {
  Outcome outcome = Outcome::done;
  Stop stop = Stop::none;         // the signal that stopped it, on whatever rank it arrived
  std::int64_t valid_tokens = 0;  // this count and those below are of the global batch
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  double cross_entropy = 0;  // mean over valid tokens
  double balance_loss = 0;   // without its coefficient
  double z_loss = 0;         // without its coefficient
  double grad_norm = 0;      // before clipping
  double clip_factor = 1;
  std::map<std::string, double> group_norms;
  std::vector<std::vector<std::int64_t>> expert_load;  // [MoE layer][expert] slots
  double measured_s = 0;         // seconds of this rank in the instructions that ExecutorOptions::measured selects
  std::string non_finite_where;  // "the output of layer 3 on rank 2", "the loss", "the gradient of model.norm.weight"
};

}  // namespace tessera::executor
