// The router: probabilities, the choice of experts as slots, slot weights, and the statistics that balance losses need.
//
// A routing is arrays over slots (token, expert), sorted by expert, then token; nothing assumes tokens x k of them.
// Logits, softmax and weights are in the wide type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/weight.h"

namespace tessera::moe {

struct RouterOutput {
  at::Tensor probability;  // [tokens, experts], softmax of the logits
  at::Tensor logsumexp;    // [tokens], of the logits
};

// normed [tokens, hidden], router [experts, hidden]; differentiable in both outputs.
[[nodiscard]] RouterOutput route(const at::Tensor& normed, device::Weight& router);

// All three where the probabilities are.
struct Slots {
  at::Tensor token;         // [slots] int64
  at::Tensor choice;        // [slots] int64: token * experts + expert, an index into the flat probabilities
  at::Tensor expert_count;  // [experts] int64
};

// The k most probable experts of each token; of equal ones the lower index; 0 < k <= experts. A NaN counts as least
// probable, so there are always exactly tokens x k legal slots.
[[nodiscard]] Slots choose_top_k(const at::Tensor& probability, std::int64_t k);

enum class Renormalise : std::uint8_t { no, over_own_slots };

// probability [tokens, experts] -> [slots], differentiable; `over_own_slots` divides by the sum over the token's slots.
[[nodiscard]] at::Tensor slot_weight(const at::Tensor& probability, const Slots& slots, Renormalise renormalise);

struct RouterStatistics {
  at::Tensor probability;  // [sets, experts]: sum over the set's tokens; differentiable
  at::Tensor count;        // [sets, experts] int64: slots
  at::Tensor z;            // []: sum of logsumexp^2 over all tokens; differentiable
};

// set_starts [sets + 1] int64 on the CPU, ascending from 0 to tokens: the sets are ranges of tokens. For one set: {0,
// tokens}.
[[nodiscard]] RouterStatistics router_statistics(const RouterOutput& output, const Slots& slots,
                                                 const at::Tensor& set_starts);

}  // namespace tessera::moe
