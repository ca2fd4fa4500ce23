// The division of a global batch: the sequences that each rank processes in each micro-step.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/block.h"

namespace tessera::layout {

// Returns for each micro-step the range of positions in the global batch that `data_rank` processes; it may be empty.
// The ranks process the `global_batch` sequences in order, in micro-steps of micro_batch_size * data_ranks sequences;
// the last micro-step may be short. Each micro-step is divided into consecutive blocks whose sizes differ by at most
// one, larger ones first: 10 sequences on 3 ranks give [4, 3, 3].
[[nodiscard]] std::vector<Block> sequences_of_rank(std::int64_t global_batch, std::int64_t micro_batch_size,
                                                   std::int64_t data_ranks, std::int64_t data_rank);

// Returns the number of micro-steps of that global batch: ceil(global_batch / (micro_batch_size * data_ranks)).
[[nodiscard]] std::int64_t micro_steps(std::int64_t global_batch, std::int64_t micro_batch_size,
                                       std::int64_t data_ranks);

}  // namespace tessera::layout
