#include "moe/pack.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "moe/identity_rows.h"
#include "moe/pack_gpu.h"
#include "ops/rows.h"

namespace tessera::moe {
namespace {

// Appends the distinct tokens of slots [first, end) in ascending order to `rows`, writes each slot's place among them
// and returns their number.
std::int64_t add_owner(const std::int64_t* token, std::int64_t first, std::int64_t end, std::int64_t tokens,
                       std::vector<std::int64_t>& rows, std::int64_t* send_slot) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(tokens), -1);
  for (auto s = first; s < end; ++s) place[static_cast<std::size_t>(token[s])] = 0;
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (place[static_cast<std::size_t>(t)] < 0) continue;
    place[static_cast<std::size_t>(t)] = count++;
    rows.push_back(t);
  }
  for (auto s = first; s < end; ++s) send_slot[s] = place[static_cast<std::size_t>(token[s])];
  return count;
}

}  // namespace

SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds, Routed routed) {
  const auto experts = slots.expert_count.numel();
  base::expect(bounds.size() > 1 && bounds.front() == 0 && bounds.back() == experts &&
                   std::is_sorted(bounds.begin(), bounds.end()),
               "plan_send: the bounds of the owners do not ascend from 0 to {}", experts);
  if (!slots.token.is_cpu()) return gpu::plan_send(slots, tokens, bounds, routed);
  const auto owners = std::ssize(bounds) - 1;
  SendPlan plan{{}, at::zeros({owners}, at::TensorOptions(at::kLong)), at::empty_like(slots.token), slots.expert_count};
  const auto *count = slots.expert_count.const_data_ptr<std::int64_t>(),
             *token = slots.token.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> rows;
  std::int64_t slot = 0;
  for (std::int64_t owner = 0; owner < owners; ++owner) {
    const auto o = static_cast<std::size_t>(owner);
    auto end = slot;
    for (auto e = bounds[o]; e < bounds[o + 1]; ++e) end += count[e];
    plan.row_count.mutable_data_ptr<std::int64_t>()[owner] =
        add_owner(token, slot, end, tokens, rows, plan.send_slot.mutable_data_ptr<std::int64_t>());
    slot = end;
  }
  plan.row_token = at::empty({static_cast<std::int64_t>(rows.size())}, slots.token.options());
  std::copy(rows.begin(), rows.end(), plan.row_token.mutable_data_ptr<std::int64_t>());
  return plan;
}

at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token, Rows rows) {
  if (rows == Rows::all_tokens || is_identity(row_token, normed.size(0))) return normed.view(normed.sizes());
  return normed.is_cpu() ? ops::take_rows(normed, row_token) : gpu::send_rows(normed, row_token);
}

}  // namespace tessera::moe
