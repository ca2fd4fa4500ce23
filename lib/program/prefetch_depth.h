// How far ahead a step can gather for a small part of its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "architecture/architecture.h"
#include "layout/layout.h"
#include "plan/placement.h"
#include "program/builder.h"
#include "program/memory_plan.h"

namespace tessera::program {

// The largest prefetch depth whose buffers, beyond those of depth 1, take at most a tenth of the memory that rank 0
// needs with depth 1; no more than there are chains, and 1 where nothing is gathered over several ranks. A pure
// function of what all ranks know, so that they agree: rank 0 has the largest blocks of everything.
// `options.prefetch_depth` counts not.
[[nodiscard]] std::int32_t affordable_prefetch_depth(const architecture::Architecture& architecture,
                                                     const std::vector<plan::Placement>& placements,
                                                     const layout::Layout& layout, const BuilderOptions& options,
                                                     const MemoryFacts& facts);

}  // namespace tessera::program
