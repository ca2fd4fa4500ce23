// Token dispatch, the receiving side: slots by source -> slots by local expert.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe {

// Slots sorted by local expert, then source, then as the source sent them.
struct ExpertOrder {
  at::Tensor row;    // [slots] int64: row of each slot among all rows
  at::Tensor slot;   // [slots] int64: its place in received order; undefined if that is the same order (one source)
  at::Tensor count;  // [local experts] int64; where source_expert_count was
};

// slot [slots] int64: by source, then expert; row within its source's rows. source_row_count [sources],
// source_expert_count [sources, local experts], both int64 on the CPU. Counts that do not add up to the slots, or a row
// outside its source's, are refused. For slots on a GPU nothing is looked at that is there: rows are not checked, and
// the counts of a single source may be there too.
[[nodiscard]] ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                                          const at::Tensor& source_expert_count);

}  // namespace tessera::moe
