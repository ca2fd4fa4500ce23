// Token dispatch, the sending side: a token's row goes once to each owner of at least one of its experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "moe/router.h"

namespace tessera::moe {

struct SendPlan {
  at::Tensor row_token;  // [rows] int64: by owner, then token; a token at most once per owner
  at::Tensor row_count;  // [owners] int64 on the CPU
  at::Tensor send_slot;  // [slots] int64: the slot's row, counted within its owner's rows
};

// first_expert: per owner, ascending from 0; owner o has the experts from first_expert[o] to first_expert[o + 1] (maybe
// none). Slots are sorted by expert, hence by owner: slot weights are sent as they are.
[[nodiscard]] SendPlan plan_send(const Slots& slots, std::int64_t tokens,
                                 const std::vector<std::int64_t>& first_expert);

// The rows to send: normed [tokens, hidden] -> [rows, hidden], differentiable. Where the plan's rows are all tokens in
// order, the result shares memory with `normed`.
[[nodiscard]] at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token);

}  // namespace tessera::moe
