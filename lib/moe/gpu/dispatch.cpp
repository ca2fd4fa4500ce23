#include "moe/gpu/dispatch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "base/error.h"
#include "ops/upload.h"

namespace tessera::moe::gpu {
namespace {

// Returns counts[0] zeros, counts[1] ones, ...: `total` numbers, which the host knows without asking the GPU.
at::Tensor number_by_count(const at::Tensor& counts, std::int64_t total) {
  return at::repeat_interleave(counts, std::optional<std::int64_t>(total));
}

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

SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds, Routed routed) {
  const auto owners = std::ssize(bounds) - 1;
  const auto& integers = slots.token.options();
  if (owners == 1 && routed == Routed::every_token)
    return {at::arange(tokens, integers), at::full({1}, tokens, at::TensorOptions(at::kLong)), slots.token,
            slots.expert_count};
  // A slot's owner is the last one whose first expert is not above the slot's: owners without experts are passed over.
  const auto experts = slots.expert_count.numel();
  const auto first = ops::upload(bounds.first(bounds.size() - 1), slots.token.device());
  const auto expert = number_by_count(slots.expert_count, slots.token.numel());
  const auto owner = at::searchsorted(first, expert, /*out_int32=*/false, /*right=*/true).sub_(1);
  const auto of_slot = owner.mul(tokens).add_(slots.token);
  // [owners, tokens] bool: the owner has an expert of the token.
  const auto wanted =
      at::zeros({owners * tokens}, integers.dtype(at::kBool)).index_fill_(0, of_slot, true).view({owners, tokens});
  const auto row_count = wanted.sum(1), first_row = row_count.cumsum(0).sub_(row_count);
  // Rows in the order (owner, token). Only the GPU knows yet how many there are, so there is room for all pairs, and
  // one place more for the unwanted ones.
  const auto row = wanted.flatten().cumsum(0).sub_(1);
  const auto place = at::where(wanted.flatten(), row, at::full({}, owners * tokens, row.options()));
  const auto row_token =
      at::empty({owners * tokens + 1}, integers).scatter_(0, place, at::arange(tokens, integers).repeat({owners}));
  auto send_slot = at::index_select(row, 0, of_slot).sub_(at::index_select(first_row, 0, owner));
  const auto counts = at::cat({row_count, slots.expert_count}).cpu();  // the host waits, after all else was launched
  SendPlan plan{{}, counts.narrow(0, 0, owners), std::move(send_slot), counts.narrow(0, owners, experts)};
  plan.row_token = row_token.narrow(0, 0, plan.row_count.sum().item<std::int64_t>());
  return plan;
}

ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                            const at::Tensor& source_expert_count) {
  if (source_expert_count.size(0) == 1) return {slot, {}, source_expert_count.flatten()};
  base::expect(source_expert_count.is_cpu() && source_row_count.is_cpu() && source_expert_count.is_contiguous(),
               "order_by_expert: the counts of several sources are on the host");
  const auto blocks = blocks_of(source_row_count, source_expert_count);
  const auto total = slot.numel();
  const auto block = number_by_count(ops::upload(blocks.sizes, slot.device()), total);
  const auto of_slot = [&](const std::vector<std::int64_t>& of_block) {
    return at::index_select(ops::upload(of_block, slot.device()), 0, block);
  };
  auto place = of_slot(blocks.shift).add_(at::arange(total, slot.options()));
  auto row = at::index_select(slot, 0, place).add_(of_slot(blocks.first_row));
  return {std::move(row), std::move(place), source_expert_count.sum(0)};
}

}  // namespace tessera::moe::gpu
