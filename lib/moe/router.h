// The router: probabilities, the choice of experts as slots, slot weights, and the statistics that balance losses need.
//
// A routing consists of arrays over slots (token, expert), sorted by expert, then token; their number need not be
// tokens x k. Logits, softmax and weights are in the wide type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/weight.h"

namespace tessera::moe {

struct RouterOutput {
  at::Tensor probability;  // [tokens, experts], softmax of the logits
  at::Tensor logsumexp;    // [tokens], log-sum-exp of the logits
};

// Routes normed [tokens, hidden] by router [experts, hidden]; both outputs are differentiable.
[[nodiscard]] RouterOutput route(const at::Tensor& normed, device::Weight& router);

// All three are on the device of the probabilities.
struct Slots {
  at::Tensor token;         // [slots] int64
  at::Tensor choice;        // [slots] int64: token * experts + expert, an index into the flat probabilities
  at::Tensor expert_count;  // [experts] int64
};

// Chooses the k most probable experts of each token, 0 < k <= experts; of equally probable ones the lower index. A NaN
// counts as least probable, so there are always exactly tokens x k legal slots.
[[nodiscard]] Slots choose_top_k(const at::Tensor& probability, std::int64_t k);

enum class Renormalise : std::uint8_t { no, over_own_slots };

// Returns the probability of each slot: probability [tokens, experts] -> [slots], differentiable. `over_own_slots`
// divides it by the sum over its token's slots.
[[nodiscard]] at::Tensor slot_weight(const at::Tensor& probability, const Slots& slots, Renormalise renormalise);

struct RouterStatistics {
  at::Tensor probability;  // [sets, experts]: sum over the set's tokens; differentiable
  at::Tensor count;        // [sets, experts] int64: slots
  at::Tensor z;            // []: sum of logsumexp^2 over all tokens; differentiable
};

// Returns the statistics of each set of tokens. set_starts [sets + 1] int64 on the CPU, ascending from 0 to tokens: the
// sets are ranges of tokens; {0, tokens} makes one set.
[[nodiscard]] RouterStatistics router_statistics(const RouterOutput& output, const Slots& slots,
                                                 const at::Tensor& set_starts);

}  // namespace tessera::moe
