#include "architecture/blocks/embedding.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <utility>

#include "model/kernel.h"
#include "ops/lookup.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "ops/upload.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

// Ids ascend, and so do their owners: counts alone say which ids go where.
// What is counted stays on the host, where ids are.
void find_distinct_ids(const SegmentView& s, const Context& c) {
  if (s.has(ValueKind::unique_ids)) return;
  const auto& blocks = c.owners_of(s.step());
  auto [unique, inverse, counts] = at::_unique2(s.model(ValueKind::ids), /*sorted=*/true, /*return_inverse=*/true);
  const std::int64_t* const begin = unique.const_data_ptr<std::int64_t>();
  const std::int64_t* const end = begin + unique.numel();
  const auto owners = blocks.bounds.size() - 1;
  at::Tensor count = at::empty({static_cast<std::int64_t>(owners)}, at::TensorOptions(at::kLong));
  const std::int64_t* first = begin;
  for (std::size_t owner = 0; owner < owners; ++owner) {
    const auto* next = std::lower_bound(first, end, blocks.bounds[owner + 1]);
    count.mutable_data_ptr<std::int64_t>()[owner] = next - first;
    first = next;
  }
  s.set({ValueKind::unique_ids}, std::move(unique));
  s.set({ValueKind::unique_inverse}, ops::upload(inverse, c.device));
  s.set({ValueKind::unique_count}, std::move(count));
}

void look_up(const SegmentView& s, const Context& c) {
  const auto& blocks = c.owners_of(s.step());
  const at::Tensor& ids = s.model(ValueKind::wanted_ids);
  const auto first_id = blocks.bounds[static_cast<std::size_t>(blocks.own)];
  const at::Tensor rows = ops::upload(first_id == 0 ? ids : at::sub(ids, first_id), c.device);
  s.set({ValueKind::found_rows}, ops::lookup(rows, s.weight(architecture::embedding::weight)));
}

void expand_ids(const SegmentView& s, const Context& c) {
  s.set({ValueKind::hidden, 0}, ops::take_rows(s.model(ValueKind::unique_rows), s.model(ValueKind::unique_inverse)));
  if (s.has(ValueKind::rotary_cosine)) return;
  auto tables = ops::rotary_tables(ops::upload(s.model(ValueKind::positions), c.device), c.config.rope_theta,
                                   c.config.head_dim, c.numbers.wide);
  s.set({ValueKind::rotary_cosine}, std::move(tables.cosine));
  s.set({ValueKind::rotary_sine}, std::move(tables.sine));
}

}  // namespace

std::span<const Kernel> embedding_kernels() {
  namespace block = architecture::embedding;
  static constexpr Kernel kernels[]{
      {block::distinct_ids, find_distinct_ids}, {block::lookup, look_up}, {block::expand, expand_ids}};
  return kernels;
}

}  // namespace tessera::model
