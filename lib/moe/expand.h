// Token dispatch, the receiving side: sorts the slots received from each source by local expert.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe {

// Slots sorted by local expert, then source, then as the source sent them.
struct ExpertOrder {
  at::Tensor row;    // [slots] int64: row of each slot among all rows
  at::Tensor slot;   // [slots] int64: its place in received order; undefined if that is the same order (one source)
  at::Tensor count;  // [local experts] int64, on the device of source_expert_count
};

// Sorts received slots by local expert. slot [slots] int64, by source, then expert: the slot's row, counted within its
// source's rows. source_row_count [sources] and source_expert_count [sources, local experts], both int64 on the CPU.
//
// Refuses counts that do not add up to the slots and rows outside their source's. If the slots are on a GPU, the host
// reads nothing from there: it checks neither, and the counts of a single source may be there too.
[[nodiscard]] ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                                          const at::Tensor& source_expert_count);

}  // namespace tessera::moe
