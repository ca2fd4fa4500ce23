// Computes the meaning of a program symbolically: two programs of equal meaning train the same model, whatever their
// order.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "program/program.h"

namespace tessera::test {

struct Meaning {
  // All values that live after the last instruction: the results, and those that the next step would find.
  std::map<program::Resource, std::uint64_t> left;
  // The values that live when *open* ends, where the step may end for all ranks.
  std::map<program::Resource, std::uint64_t> left_by_open;
  // The program read, wrote or freed a value that was not there, or at a time at which its value is not determined.
  bool is_uncertain = false;
  friend bool operator==(const Meaning&, const Meaning&) = default;
};

// Runs `program` on numbers that stand for tensors. It trusts what an instruction lists, but is independent of the
// order checks: a chain's outputs are a hash of all that it read; gradients add up; a reduction is linear, so two
// reductions equal one of the sum; a sum over replicas multiplies a shard; a value that a running operation reads or
// writes is uncertain until its wait.
[[nodiscard]] Meaning meaning_of(const program::Program& program);

}  // namespace tessera::test
