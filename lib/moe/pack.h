// Token dispatch, the sending side: a token's row goes once to each owner of at least one of its experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "moe/router.h"

namespace tessera::moe {

struct SendPlan {
  at::Tensor row_token;     // [rows] int64: by owner, then token; a token at most once per owner
  at::Tensor row_count;     // [owners] int64 on the CPU
  at::Tensor send_slot;     // [slots] int64: the slot's row, counted within its owner's rows
  at::Tensor expert_count;  // Slots::expert_count; on the CPU if there are several owners, for the sender
};

// Whether the caller knows that every token has a slot.
enum class Routed : std::uint8_t { some_tokens, every_token };

// Whether the caller knows that the rows are all tokens in order; with `any` the CPU finds out by reading them.
enum class Rows : std::uint8_t { any, all_tokens };

// Plans which rows go to which owner. bounds [owners + 1] ascends from 0 to the number of experts; owner o has the
// experts from bounds[o] up to, but without, bounds[o + 1], perhaps none. Slots are sorted by expert, hence by owner,
// so slot weights are sent in the order they have. For slots on a GPU the host waits for the counts once, unless there
// is one owner and every token is routed.
[[nodiscard]] SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds,
                                 Routed routed = Routed::some_tokens);

// Returns the rows to send: normed [tokens, hidden] -> [rows, hidden], differentiable. If the rows are all tokens in
// order, the result shares memory with `normed`.
[[nodiscard]] at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token, Rows rows = Rows::any);

}  // namespace tessera::moe
