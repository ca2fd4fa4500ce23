#include "executor/exchange_rows.h"

#include "base/error.h"

namespace tessera::executor {

using architecture::ValueKind;
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

Counts experts_of_owners(const Counts& first_expert, std::int64_t experts) {
  Counts counts;
  for (std::size_t owner = 0; owner < first_expert.size(); ++owner)
    counts.push_back((owner + 1 < first_expert.size() ? first_expert[owner + 1] : experts) - first_expert[owner]);
  return counts;
}

// Slots for each owner: of its experts together.
Counts slots_of_owners(const at::Tensor& expert_count, const Counts& experts) {
  const auto* count = expert_count.const_data_ptr<std::int64_t>();
  Counts slots;
  for (const auto owned : experts) {
    slots.push_back(0);
    for (std::int64_t e = 0; e < owned; ++e) slots.back() += *count++;
  }
  return slots;
}

}  // namespace

ExchangeRows exchange_rows(const architecture::Step& step, ValueKind from, const architecture::ModelConfig& config,
                           const model::Owners& owners, const device::Numbers& numbers, std::int64_t rank,
                           std::int64_t ranks, const ValueOf& value_of) {
  const auto counts = [&](ValueKind kind) { return counts_of(value_of({kind, step.layer})); };
  const Counts one_each(static_cast<std::size_t>(ranks), 1);
  const auto experts = [&] { return experts_of_owners(owners.first_expert_of(step.layer), config.num_experts); };
  switch (from) {
    case ValueKind::unique_count:
    case ValueKind::row_count: return {one_each, one_each, {}, at::kLong};
    case ValueKind::expert_count: {
      const auto owned = experts();
      return {owned, Counts(one_each.size(), owned.at(static_cast<std::size_t>(rank))), {}, at::kLong};
    }
    case ValueKind::unique_ids:
      return {counts(ValueKind::unique_count), counts(ValueKind::wanted_count), {}, at::kLong};
    case ValueKind::found_rows:
      return {counts(ValueKind::wanted_count), counts(ValueKind::unique_count), {config.hidden_size}, numbers.compute};
    case ValueKind::send_rows:
      return {counts(ValueKind::row_count), counts(ValueKind::source_row_count), {config.hidden_size}, numbers.compute};
    case ValueKind::expert_rows:
      return {counts(ValueKind::source_row_count), counts(ValueKind::row_count), {config.hidden_size}, numbers.compute};
    case ValueKind::send_weight:
    case ValueKind::send_slot:
      return {slots_of_owners(value_of({ValueKind::expert_count, step.layer}), experts()),
              counts(ValueKind::source_expert_count),
              {},
              from == ValueKind::send_slot ? at::kLong : numbers.wide};
    default: break;
  }
  base::expect(false, "{} does not move {}", step.name(), architecture::name(from));
  return {};
}

}  // namespace tessera::executor
