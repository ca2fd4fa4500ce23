#include "layout/share.h"

#include "base/error.h"

#include <algorithm>

namespace tessera::layout {
namespace {

// Returns the number of sequences of a full micro-step.
std::int64_t full_step(std::int64_t global_batch, std::int64_t micro_batch_size, std::int64_t data_ranks) {
  base::expect(global_batch >= 0 && micro_batch_size >= 1 && data_ranks >= 1,
               "a global batch of {} in micro-batches of {} on {} data ranks", global_batch, micro_batch_size,
               data_ranks);
  // A micro-step never holds more than the global batch, so a larger product, which might overflow, is not formed.
  if (micro_batch_size > global_batch / data_ranks) return std::max<std::int64_t>(1, global_batch);
  return micro_batch_size * data_ranks;
}

}  // namespace

std::vector<Block> sequences_of_rank(std::int64_t global_batch, std::int64_t micro_batch_size, std::int64_t data_ranks,
                                     std::int64_t data_rank) {
  base::expect(data_rank >= 0 && data_rank < data_ranks, "data rank {} of {}", data_rank, data_ranks);
  const std::int64_t step = full_step(global_batch, micro_batch_size, data_ranks);
  std::vector<Block> shares;
  for (std::int64_t start = 0; start < global_batch; start += step) {
    const std::int64_t sequences = std::min(step, global_batch - start);
    const std::int64_t each = sequences / data_ranks;
    const std::int64_t longer = sequences % data_ranks;  // the number of ranks with one more
    const std::int64_t begin = start + data_rank * each + std::min(data_rank, longer);
    shares.push_back({begin, begin + each + (data_rank < longer ? 1 : 0)});
  }
  return shares;
}

std::int64_t micro_steps(std::int64_t global_batch, std::int64_t micro_batch_size, std::int64_t data_ranks) {
  const std::int64_t step = full_step(global_batch, micro_batch_size, data_ranks);
  return global_batch / step + (global_batch % step == 0 ? 0 : 1);
}

}  // namespace tessera::layout
