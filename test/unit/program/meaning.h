// What a program computes, in symbols: two programs of equal meaning train the same model, whatever their order.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "program/program.h"

namespace tessera::test {

struct Meaning {
  // Whatever lives after the last instruction: the results, and what would be found there by the next step.
  std::map<program::Resource, std::uint64_t> left;
  // What lives when *open* ends, where the step may end for all ranks.
  std::map<program::Resource, std::uint64_t> left_by_open;
  // Something was read, written or freed that was not there, or at a time at which it may be one thing or another.
  bool is_uncertain = false;
  friend bool operator==(const Meaning&, const Meaning&) = default;
};

// Runs `program` on numbers that stand for tensors. It trusts what an instruction lists, but knows nothing of the order
// checks: a chain's outputs are a hash of all that it read; gradients add up; a reduction is linear, so that two are as
// good as one of the sum; a sum over replicas multiplies a shard; what an operation under way reads or writes is
// uncertain until its wait.
[[nodiscard]] Meaning meaning_of(const program::Program& program);

}  // namespace tessera::test
