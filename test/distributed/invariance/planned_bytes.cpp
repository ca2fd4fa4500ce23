// Bytes of a step by arithmetic: from the shards' sizes, and from where a one-process model sends its tokens.
#include "planned_bytes.h"

#include <algorithm>
#include <set>
#include <vector>

#include "comm/traffic.h"
#include "plan/unit_storage.h"
#include "support/composed_model.h"

namespace tessera::test {

using architecture::ValueKind;

namespace {

constexpr std::int64_t bytes_of_float = 8, bytes_of_index = 8;  // float64 and int64

void add_unit(const train::Blueprint& b, const plan::Unit& unit, program::Op op, std::int64_t rank, Bytes& bytes) {
  for (const auto& use : unit.uses) {
    const auto& placement = plan::PlacementIndex(b.placements).of(use.fqn);
    const auto group = plan::gather_group(placement, use.kind);
    if (group.is_alone()) continue;
    for (const auto member : b.layout.group(rank, group)) {
      if (member == rank) continue;
      // A gather sends what this rank keeps to each other; a reduction sends each other what it keeps.
      const auto box = plan::shard_box(placement, b.layout, op == program::Op::gather ? rank : member);
      bytes[group.name()] += box.elements() * bytes_of_float;
    }
  }
}

void add_replicas(const train::Blueprint& b, const plan::Unit& unit, std::size_t index, std::int64_t rank,
                  Bytes& bytes) {
  for (const auto& use : unit.uses) {
    if (plan::home_units(b.architecture.units()).at(use.fqn) != index) continue;
    const auto& placement = plan::PlacementIndex(b.placements).of(use.fqn);
    const auto& group = placement.replicate_group;
    const auto ranks = b.layout.group_size(group);
    if (ranks > 1)
      bytes[group.name()] +=
          comm::all_reduce_bytes_sent(plan::shard_box(placement, b.layout, rank).elements(), comm::ElementType::float64,
                                      b.layout.position(rank, group), ranks);
  }
}

// Returns, for each of `count` indices of dim 0, the rank of `group` that owns it.
std::vector<std::int64_t> owner_of_each(const train::Blueprint& b, const layout::GroupId& group, std::int64_t count) {
  std::vector<std::int64_t> owner;
  const auto ranks = b.layout.group_size(group);
  const auto block = (count + ranks - 1) / ranks;
  for (std::int64_t k = 0; k < count; ++k) owner.push_back(k / block);
  return owner;
}

struct Rows {
  std::int64_t rows = 0, slots = 0;
};

// Distinct (token, owner) pairs, and slots, of the owners that are not this rank.
Rows rows_for_others(const at::Tensor& slot_token, const at::Tensor& expert_count,
                     const std::vector<std::int64_t>& owner_of_expert, std::int64_t self) {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  Rows sent;
  std::int64_t slot = 0;
  for (std::int64_t e = 0; e < expert_count.numel(); ++e)
    for (std::int64_t k = 0; k < expert_count.const_data_ptr<std::int64_t>()[e]; ++k, ++slot) {
      const auto owner = owner_of_expert[static_cast<std::size_t>(e)];
      if (owner == self) continue;
      ++sent.slots;
      pairs.emplace(slot_token.const_data_ptr<std::int64_t>()[slot], owner);
    }
  sent.rows = static_cast<std::int64_t>(pairs.size());
  return sent;
}

class ExchangePlan {
 public:
  ExchangePlan(const train::Blueprint& blueprint, std::int64_t rank)
      : blueprint_(blueprint), rank_(rank), composed_(blueprint.architecture, all_float64) {
    fill_initial_values(blueprint.architecture, composed_, blueprint.settings.train.seed);
  }

  void add(const model::Values& values, Bytes& bytes) {
    static_cast<void>(composed_.evaluate(batch_of(values), {}));
    const auto& config = blueprint_.architecture.config();
    add_ids(config, bytes);
    for (std::int32_t layer = 0; layer < config.num_hidden_layers; ++layer)
      if (config.is_moe_layer(layer)) add_tokens(config, layer, bytes);
  }

 private:
  [[nodiscard]] layout::GroupId owners_of(const std::string& fqn) const {
    return plan::PlacementIndex(blueprint_.placements).of(fqn).owners();
  }

  // Counts, ids; rows there and their gradients back.
  void add_ids(const architecture::ModelConfig& config, Bytes& bytes) {
    const auto group = owners_of("model.embed_tokens.weight");
    if (group.is_alone()) return;
    const auto owner = owner_of_each(blueprint_, group, config.vocab_size);
    const auto self = blueprint_.layout.position(rank_, group);
    std::int64_t others = 0;
    const auto& ids = composed_.value(ValueKind::unique_ids);
    for (std::int64_t k = 0; k < ids.numel(); ++k)
      if (owner[static_cast<std::size_t>(ids.const_data_ptr<std::int64_t>()[k])] != self) ++others;
    bytes[group.name()] += (blueprint_.layout.group_size(group) - 1) * bytes_of_index +
                           others * (bytes_of_index + 2 * config.hidden_size * bytes_of_float);
  }

  // Counts; rows to their owners, partial sums back, and the gradients of both; weights and their gradients, places.
  void add_tokens(const architecture::ModelConfig& config, std::int32_t layer, Bytes& bytes) {
    const auto group = owners_of(architecture::layer_fqn(layer, "mlp.experts.gate_proj"));
    if (group.is_alone()) return;
    const auto owner = owner_of_each(blueprint_, group, config.num_experts);
    const auto self = blueprint_.layout.position(rank_, group);
    const auto sent = rows_for_others(composed_.value(ValueKind::slot_token, layer),
                                      composed_.value(ValueKind::expert_count, layer), owner, self);
    const auto foreign = std::count_if(owner.begin(), owner.end(), [&](std::int64_t o) { return o != self; });
    bytes[group.name()] += (blueprint_.layout.group_size(group) - 1 + foreign) * bytes_of_index +
                           sent.rows * 4 * config.hidden_size * bytes_of_float +
                           sent.slots * (2 * bytes_of_float + bytes_of_index);
  }

  const train::Blueprint& blueprint_;
  std::int64_t rank_;
  ComposedModel composed_;
};

}  // namespace

Bytes planned_bytes(const train::Blueprint& blueprint, const program::Program& program,
                    const executor::StepInputs& inputs, std::int64_t rank) {
  Bytes bytes;
  const auto& units = blueprint.architecture.units();
  for (const auto& i : program.instructions) {
    const auto target = static_cast<std::size_t>(i.target);
    if (i.op == program::Op::gather || i.op == program::Op::reduce)
      add_unit(blueprint, units[target], i.op, rank, bytes);
    if (i.op == program::Op::sum && i.sum == program::SumKind::replicas)
      add_replicas(blueprint, units[target], target, rank, bytes);
  }
  ExchangePlan exchanges(blueprint, rank);
  for (const auto& batch : inputs.batches) exchanges.add(batch, bytes);
  return bytes;
}

}  // namespace tessera::test
