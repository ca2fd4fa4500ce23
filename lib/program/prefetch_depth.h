// Finds how far ahead a training step can gather units for a small part of its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "architecture/architecture.h"
#include "layout/layout.h"
#include "plan/placement.h"
#include "program/builder.h"
#include "program/memory_plan.h"

namespace tessera::program {

// Returns the largest prefetch depth whose buffers, beyond those of depth 1, take at most a tenth of the memory that
// rank 0 needs with depth 1. It is at most the number of chains, and 1 if no unit is gathered over several ranks. Every
// rank gets the same depth, because it computes it for rank 0, which has the largest blocks. Ignores
// options.prefetch_depth.
[[nodiscard]] std::int32_t affordable_prefetch_depth(const architecture::Architecture& architecture,
                                                     const std::vector<plan::Placement>& placements,
                                                     const layout::Layout& layout, const BuilderOptions& options,
                                                     const MemoryFacts& facts);

}  // namespace tessera::program
