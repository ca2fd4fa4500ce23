#include "moe/expand_gpu.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "moe/number_by_count.h"
#include "ops/upload.h"

namespace tessera::moe::gpu {
namespace {

// The blocks of slots of one source and one local expert, in the order of the result: by expert, then source.
struct Blocks {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> shift;      // from a slot's place in the result to where it was received
  std::vector<std::int64_t> first_row;  // of its source
};

Blocks blocks_of(const at::Tensor& row_count, const at::Tensor& expert_count) {
  const auto sources = expert_count.size(0), experts = expert_count.size(1);
  const auto *rows = row_count.const_data_ptr<std::int64_t>(), *counts = expert_count.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> received(static_cast<std::size_t>(sources * experts) + 1, 0), first_row(1, 0);
  for (std::size_t k = 0; k + 1 < received.size(); ++k) {
    base::expect(counts[k] >= 0, "order_by_expert: a source sent {} slots for a local expert", counts[k]);
    received[k + 1] = received[k] + counts[k];
  }
  for (std::int64_t p = 0; p < sources; ++p) first_row.push_back(first_row.back() + rows[p]);
  Blocks blocks;
  std::int64_t placed = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t p = 0; p < sources; ++p) {
      const auto k = static_cast<std::size_t>(p * experts + e);
      blocks.sizes.push_back(counts[k]);
      blocks.shift.push_back(received[k] - placed);
      blocks.first_row.push_back(first_row[static_cast<std::size_t>(p)]);
      placed += counts[k];
    }
  }
  return blocks;
}

}  // namespace

ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                            const at::Tensor& source_expert_count) {
  if (source_expert_count.size(0) == 1) return {slot, {}, source_expert_count.flatten()};
  base::expect(source_expert_count.is_cpu() && source_row_count.is_cpu() && source_expert_count.is_contiguous(),
               "order_by_expert: the counts of several sources are on the host");
  const auto blocks = blocks_of(source_row_count, source_expert_count);
  const auto total = slot.numel();
  const auto counted = std::accumulate(blocks.sizes.begin(), blocks.sizes.end(), std::int64_t{0});
  base::expect(counted == total, "order_by_expert: the sources count {} slots, but {} came", counted, total);
  const auto block = number_by_count(ops::upload(blocks.sizes, slot.device()), total);
  const auto of_slot = [&](const std::vector<std::int64_t>& of_block) {
    return at::index_select(ops::upload(of_block, slot.device()), 0, block);
  };
  auto place = of_slot(blocks.shift).add_(at::arange(total, slot.options()));
  auto row = at::index_select(slot, 0, place).add_(of_slot(blocks.first_row));
  return {std::move(row), std::move(place), source_expert_count.sum(0)};
}

}  // namespace tessera::moe::gpu
