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

// What a rank keeps of one parameter. Both tensors are contiguous, of one shape and of one type (float32 or float64),
// perhaps empty; they share their storage with whoever made them, and the optimizer writes through them.
struct OptimizedShard {
  std::string fqn;
  at::Tensor master;
  at::Tensor gradient;
};

// A moment of a parameter: checkpointed and compared between replicas like the shard that it belongs to.
struct StateTensor {
  std::string fqn;
  std::string name;   // "exp_avg", "exp_avg_sq" (AdamW), "momentum_buffer" (SGD with momentum)
  at::Tensor tensor;  // shape and type of the master; shares storage with the optimizer
};

class Optimizer {
 public:
  // State exists for every shard from here on, zero, whether or not its parameter ever gets a gradient; SGD without
  // momentum has none. Throws std::logic_error unless the shards are those of the groups' parameters, each exactly
  // once.
  Optimizer(config::OptimizerSettings settings, const DecayGroups& groups, std::vector<OptimizedShard> shards);

  // One update of every master with `gradient_factor` times its gradient (the factor of clipping, finite). Afterwards
  // the gradients hold no defined values: a new step zeroes them. Communicates nothing.
  void step(double lr, double gradient_factor);
  // The next step calls `wait` before it writes anything, once: a thread that reads masters and moments until then has
  // its end there.
  void before_next_step(std::function<void()> wait) { wait_ = std::move(wait); }

  // Updates made; with the moments all that must be saved to go on bit-identically.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  // In the order of the shards.
  [[nodiscard]] std::vector<StateTensor> state() const;
  [[nodiscard]] const std::vector<OptimizedShard>& shards() const { return shards_; }

 private:
  // Shards with one weight decay, none of them empty, as the kernels take them.
  struct Group {
    double weight_decay = 0;
    std::vector<at::Tensor> masters, gradients, first_moments, second_moments;
  };

  void step_adamw(Group& group, double lr, const std::optional<at::Tensor>& divisor);
  void step_sgd(Group& group, double lr, const std::optional<at::Tensor>& divisor);

  config::OptimizerSettings settings_;
  std::vector<OptimizedShard> shards_;
  std::vector<at::Tensor> first_moments_, second_moments_;  // per shard; undefined where the type keeps none
  std::vector<Group> groups_;
  std::int64_t steps_ = 0;
  std::function<void()> wait_;
};

}  // namespace tessera::optim
