// AdamW and SGD over the master shards of one rank.
//
// AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, as torch.optim.AdamW; SGD with momentum
// as torch.optim.SGD (weight decay added to the gradient). Both are ATen's fused kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "optim/weight_decay.h"

namespace tessera::optim {

// A rank's shard of one parameter. Both tensors are contiguous and have the same shape and type (float32 or float64);
// they may be empty. They share their storage with the caller's tensors, and the optimizer writes through them.
struct OptimizedShard {
  std::string fqn;
  at::Tensor master;
  at::Tensor gradient;
};

// A moment of a parameter, which is checkpointed and compared between replicas like the shard that it belongs to.
struct StateTensor {
  std::string fqn;
  std::string name;   // "exp_avg", "exp_avg_sq" (AdamW), "momentum_buffer" (SGD with momentum)
  at::Tensor tensor;  // has the master's shape and type; shares storage with the optimizer
};

class Optimizer {
 public:
  // Makes zeroed moments for every shard, even if its parameter never gets a gradient; SGD without momentum has none.
  // Throws std::logic_error unless `shards` holds each parameter of `groups` exactly once, and no other.
  Optimizer(config::OptimizerSettings settings, const DecayGroups& groups, std::vector<OptimizedShard> shards);

  // Updates every master once with `gradient_factor` times its gradient. `gradient_factor` is clip_factor's and must be
  // finite. The gradients are undefined afterwards; the caller zeroes them for the next step. Does not communicate.
  void step(double lr, double gradient_factor);
  // Registers a callback that runs once, before the next step writes anything; use it to wait for a thread that reads
  // masters and moments. Null removes it.
  void before_next_step(std::function<void()> wait) { wait_ = std::move(wait); }

  // Returns the number of updates made. With the moments it is all the state that a bit-identical resume needs.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  // Returns the moments in the order of the shards.
  [[nodiscard]] std::vector<StateTensor> state() const;
  [[nodiscard]] const std::vector<OptimizedShard>& shards() const { return shards_; }

 private:
  // The non-empty shards with the same weight decay, in the lists that the kernels take.
  struct Group {
    double weight_decay = 0;
    std::vector<at::Tensor> masters, gradients, first_moments, second_moments;
  };

  void step_adamw(Group& group, double lr, const std::optional<at::Tensor>& divisor);
  void step_sgd(Group& group, double lr, const std::optional<at::Tensor>& divisor);

  config::OptimizerSettings settings_;
  std::vector<OptimizedShard> shards_;
  std::vector<at::Tensor> first_moments_, second_moments_;  // one per shard; undefined if the optimizer type has none
  std::vector<Group> groups_;
  std::int64_t steps_ = 0;
  std::function<void()> wait_;
};

}  // namespace tessera::optim
