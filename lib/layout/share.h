// Which sequences of a global batch each rank processes, micro-step by micro-step.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/block.h"

namespace tessera::layout {

// A global batch of `global_batch` sequences is processed in micro-steps of micro_batch_size * data_ranks sequences, in
// order; the last micro-step may be short. Within a micro-step the sequences are dealt in consecutive blocks as evenly
// as possible (sizes differ by at most one, the larger ones first), so that 10 sequences on 3 ranks give [4, 3, 3].
// Returned: per micro-step the half-open range of positions in the global batch that `data_rank` processes, perhaps
// empty.
[[nodiscard]] std::vector<Block> sequences_of_rank(std::int64_t global_batch, std::int64_t micro_batch_size,
                                                   std::int64_t data_ranks, std::int64_t data_rank);

// Number of micro-steps of that global batch: ceil(global_batch / (micro_batch_size * data_ranks)).
[[nodiscard]] std::int64_t micro_steps(std::int64_t global_batch, std::int64_t micro_batch_size,
                                       std::int64_t data_ranks);

}  // namespace tessera::layout
