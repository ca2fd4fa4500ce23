#include "executor/exchange_rows.h"

#include <algorithm>

#include "base/error.h"
#include "executor/value_checks.h"

namespace tessera::executor {

using architecture::Dim;
using architecture::SplitBy;
using architecture::ValueId;
using architecture::ValueTraits;
using Counts = std::vector<std::int64_t>;

namespace {

// Each rank's number; the sum of its row where a rank has several.
Counts counts_of(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  const auto columns = tensor.dim() == 2 ? tensor.size(1) : 1;
  Counts counts(static_cast<std::size_t>(tensor.size(0)), 0);
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    for (std::int64_t k = 0; k < columns; ++k) counts[rank] += *data++;
  return counts;
}

Counts lengths_of(const Counts& bounds) {
  Counts counts;
  for (std::size_t owner = 0; owner + 1 < bounds.size(); ++owner) counts.push_back(bounds[owner + 1] - bounds[owner]);
  return counts;
}

Counts sums_of_owners(const at::Tensor& expert_count, const Counts& experts) {
  const auto* count = expert_count.const_data_ptr<std::int64_t>();
  Counts sums;
  for (const auto owned : experts) {
    sums.push_back(0);
    for (std::int64_t e = 0; e < owned; ++e) sums.back() += *count++;
  }
  return sums;
}

}  // namespace

ExchangeRows exchange_rows(const std::pair<ValueId, ValueId>& move, const architecture::ModelConfig& config,
                           const model::OwnedBlocks& blocks, const device::Numbers& numbers, const ValueOf& value_of) {
  const auto layer = move.first.layer;  // that of the counts too
  const auto owned = lengths_of(blocks.bounds);
  const auto entries = [&](const ValueTraits& value) -> Counts {
    const auto split = architecture::split_of(value.dims.front());
    switch (split.by) {
      case SplitBy::one_each: {
        const bool of_each_expert = std::ranges::find(value.dims, Dim::own_experts) != value.dims.end();
        return Counts(owned.size(), of_each_expert ? owned.at(static_cast<std::size_t>(blocks.own)) : 1);
      }
      case SplitBy::experts: return owned;
      case SplitBy::counts: return counts_of(value_of({split.counts, layer}));
      case SplitBy::counts_of_experts: return sums_of_owners(value_of({split.counts, layer}), owned);
    }
    base::expect(false, "split {}", static_cast<int>(split.by));
    return {};
  };
  const auto& from = architecture::traits_of(move.first.kind);
  ExchangeRows rows{
      entries(from), entries(architecture::traits_of(move.second.kind)), {}, scalar_type(from.type, numbers)};
  for (const auto* dim = from.dims.begin() + 1; dim < from.dims.end(); ++dim)
    rows.row_shape.push_back(architecture::size_of(*dim, config).value());
  return rows;
}

}  // namespace tessera::executor
