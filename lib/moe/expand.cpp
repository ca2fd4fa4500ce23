#include "moe/expand.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>

#include <vector>

#include "base/error.h"
#include "moe/expand_gpu.h"

namespace tessera::moe {
namespace {

struct Source {
  std::int64_t first_row = 0, rows = 0, next_slot = 0;
};

std::vector<Source> read_sources(const at::Tensor& slot, const at::Tensor& row_count, const at::Tensor& expert_count) {
  const auto experts = expert_count.size(1);
  const auto *rows = row_count.const_data_ptr<std::int64_t>(), *counts = expert_count.const_data_ptr<std::int64_t>();
  std::vector<Source> sources(static_cast<std::size_t>(row_count.numel()));
  std::int64_t first_row = 0, first_slot = 0;
  for (std::size_t p = 0; p < sources.size(); ++p) {
    sources[p] = {first_row, rows[p], first_slot};
    first_row += rows[p];
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto count = counts[static_cast<std::int64_t>(p) * experts + e];
      base::expect(count >= 0, "order_by_expert: source {} sent {} slots for local expert {}", p, count, e);
      first_slot += count;
    }
  }
  base::expect(first_slot == slot.numel(), "order_by_expert: counts add up to {} slots, {} arrived", first_slot,
               slot.numel());
  return sources;
}

}  // namespace

ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                            const at::Tensor& source_expert_count) {
  if (!slot.is_cpu()) return gpu::order_by_expert(slot, source_row_count, source_expert_count);
  base::expect(source_expert_count.dim() == 2 && source_expert_count.size(0) == source_row_count.numel() &&
                   source_expert_count.is_cpu() && source_row_count.is_cpu() && source_expert_count.is_contiguous(),
               "order_by_expert: source_row_count [sources] and source_expert_count [sources, experts] do not fit");
  auto sources = read_sources(slot, source_row_count, source_expert_count);
  const auto experts = source_expert_count.size(1);
  ExpertOrder order{at::empty_like(slot), at::empty_like(slot), source_expert_count.sum(0)};
  const auto *received = slot.const_data_ptr<std::int64_t>(),
             *counts = source_expert_count.const_data_ptr<std::int64_t>();
  auto *row = order.row.mutable_data_ptr<std::int64_t>(), *place = order.slot.mutable_data_ptr<std::int64_t>();
  std::int64_t written = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::size_t p = 0; p < sources.size(); ++p) {
      auto& source = sources[p];
      for (auto left = counts[static_cast<std::int64_t>(p) * experts + e]; left > 0; --left, ++written) {
        const auto of_source = received[source.next_slot];
        base::expect(of_source >= 0 && of_source < source.rows,
                     "order_by_expert: source {} sent {} rows, a slot names row {}", p, source.rows, of_source);
        row[written] = source.first_row + of_source;
        place[written] = source.next_slot++;
      }
    }
  }
  if (sources.size() == 1) order.slot.reset();
  return order;
}

}  // namespace tessera::moe
