// What a step needs in memory, by purpose: exact for shards, pools and optimizer state, an estimate for activations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "layout/layout.h"
#include "plan/placement.h"
#include "plan/unit_storage.h"
#include "program/program.h"

namespace tessera::program {

struct MemoryFacts {
  plan::ElementSizes sizes;
  plan::BindPolicy binding = plan::BindPolicy::bind_where_possible;
  std::int64_t optimizer_states = 2;  // state tensors a parameter, in master precision: AdamW 2, SGD 0 or 1
  std::int64_t tokens = 0;            // of one micro-batch on this rank
  std::int64_t sequences = 0;
};

// Buffers of a pool: bytes of a buffer -> how many.
using BufferCounts = std::map<std::int64_t, std::int64_t>;

struct MemoryPlan {
  struct Purpose {
    std::string name;
    double bytes = 0;
  };
  std::vector<Purpose> purposes;
  BufferCounts weight_buffers;
  BufferCounts gradient_buffers;
  [[nodiscard]] double total() const;
};

// Walks `program`: the largest number of units of each size that are gathered, or have a gradient buffer, at once, and
// the largest sum of values, gradients and graphs alive.
[[nodiscard]] MemoryPlan plan_memory(const Program& program, const architecture::Architecture& architecture,
                                     const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                     std::int64_t rank, const MemoryFacts& facts);

// The larger buffer counts and purposes of both: a run of several programs needs each.
[[nodiscard]] MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b);

}  // namespace tessera::program
