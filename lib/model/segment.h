// What a segment is given, and what the head gives back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "device/weight.h"
#include "model/values.h"

namespace tessera::model {

// The weights of one segment, in the order of its step's uses.
using Weights = std::vector<device::Weight*>;

// Numbers of the whole training step that the head needs; known after *open*.
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

}  // namespace tessera::model
