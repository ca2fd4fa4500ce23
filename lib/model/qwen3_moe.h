// The segments of Qwen3-MoE as computations on named values. No communication, no module objects.
//
// Source of the maths: transformers, models/qwen3_moe/modeling_qwen3_moe.py (5.24), checked against fixtures in
// test/oracle.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "architecture/architecture.h"
#include "device/numbers.h"
#include "device/weight.h"
#include "ops/grouped_product.h"

namespace tessera::model {

// Values of one micro-batch by name.
using Values = std::map<architecture::ValueId, at::Tensor>;

// The batch of a micro-step by the names that the segments read it by. attention_starts and sequence_starts: bounds.
[[nodiscard]] Values batch_values(at::Tensor ids, at::Tensor labels, at::Tensor positions,
                                  const std::vector<std::int64_t>& attention_starts,
                                  const std::vector<std::int64_t>& sequence_starts);

// What a step counts of a batch.
struct BatchCounts {
  std::int64_t valid_tokens = 0;  // those with a target
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
};
[[nodiscard]] BatchCounts counts_of(const Values& batch);

// The weights of one segment by role; null where the segment has none.
using Weights = std::array<device::Weight*, static_cast<std::size_t>(architecture::Role::count_)>;

// Numbers of the whole step that the head needs; known after *open*.
struct StepFacts {
  double loss_scale = 1;     // 1 / valid tokens of the global batch
  double balance_scale = 0;  // pooled, per_layer: 1 / micro-steps; sequence: 1 / sequences of the global batch
  double routed_tokens = 0;  // tokens of this micro-step over all its ranks
  double z_scale = 0;        // 1 / (routed tokens of the global batch x MoE layers)
};

// What the head measured on this rank's micro-batch: [] float64, where the run computes (on a GPU it need not be known
// yet). Sums over ranks and micro-steps give the step's values.
struct HeadSums {
  at::Tensor loss;           // what backward starts from: scaled, in the wide type, with its graph
  at::Tensor cross_entropy;  // sum over valid tokens, not yet divided
  at::Tensor balance;        // share of the balance loss, without its coefficient
  at::Tensor z;              // share of the router z-loss, without its coefficient
};

// The blocks of dim 0 of a parameter that its owners have: experts, or rows of the embedding.
struct OwnedBlocks {
  std::vector<std::int64_t> bounds;  // [owners + 1], ascending: owner o has [bounds[o], bounds[o + 1]), maybe nothing
  std::int64_t own = 0;              // this rank's place among the owners
};

// By the FQN that a step names as `owned`. One owner has the whole of a parameter that is not listed.
using Owners = std::map<std::string, OwnedBlocks, std::less<>>;

// What `sources` ranks have sent of a move (from, to) of an exchange, in the shape of `to`: counts that travel flat are
// [sources, own experts] there.
[[nodiscard]] at::Tensor delivered(architecture::ValueKind to, const at::Tensor& sent, std::int64_t sources);

class Qwen3Moe {
 public:
  Qwen3Moe(const architecture::Architecture& architecture, device::Numbers numbers, double router_z_loss_coef,
           Owners owners);
  ~Qwen3Moe();
  Qwen3Moe(Qwen3Moe&&) noexcept;

  // Computes `step` (a segment other than the head; one at a time), reading its reads from `values` and adding its
  // writes. Kept values (slots, counts) that are already there are used instead of being computed again
  // (recomputation). `positions` is held until another comes: not to be changed in place. Under autograd the outputs
  // carry a graph to the differentiable inputs and, through the weights' products, into the weights' gradient buffers.
  void run(const architecture::Step& step, Values& values, const Weights& weights) const;

  // The head: adds `loss` to `values` and returns it (to call backward on, with gradient 1) with the sums.
  // Under autograd the gradient of the head's weights is added to their buffers and that of hidden kept for backward,
  // in one pass over chunks of tokens. A balance or z share is formed, and its values read, only if its scale is not
  // zero.
  HeadSums run_head(const architecture::Step& step, Values& values, const Weights& weights,
                    const StepFacts& facts) const;

  // Those given, and one owner for each other parameter that a step names as `owned`.
  [[nodiscard]] const Owners& owners() const;
  // Which way the experts' products take, for the log.
  [[nodiscard]] ops::GroupedPath expert_path() const;

  // Logits of all tokens, in the wide type, for tests and tools that need them whole. // [tokens, vocabulary]
  at::Tensor logits(const architecture::Step& head, const Values& values, const Weights& weights) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::model
