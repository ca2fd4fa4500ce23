#include "program/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"

namespace tessera::program {

namespace {

// Counts how many buffers of each size are taken at once.
class BufferCounter {
 public:
  void take(std::int64_t bytes) {
    if (bytes == 0) return;
    auto& most = counts_[bytes];
    most = std::max(most, ++taken_[bytes]);
  }
  void give_back(std::int64_t bytes) {
    if (bytes > 0) --taken_[bytes];
  }
  [[nodiscard]] const BufferCounts& counts() const { return counts_; }

 private:
  BufferCounts counts_, taken_;
};

double bytes_of(const BufferCounts& buffers) {
  return std::accumulate(buffers.begin(), buffers.end(), 0.0, [](double sum, const auto& buffer) {
    return sum + static_cast<double>(buffer.first) * static_cast<double>(buffer.second);
  });
}

class Walk {
 public:
  Walk(const Program& program, const architecture::Architecture& architecture,
       const std::vector<plan::UnitStorage>& storages, const layout::Layout& layout, const MemoryFacts& facts)
      : program_(program), architecture_(architecture), storages_(storages), facts_(facts) {
    for (std::size_t k = 0; k < program.exchange_groups.size(); ++k)
      if (const auto& group = program.exchange_groups[k]; !group.is_alone())
        owners_.insert_or_assign(architecture.steps()[k].layer, layout.group_size(group));
    for (const auto& chain : program.chains) graph_bytes_.push_back(graph_bytes(chain));
  }

  void run() {
    for (const auto& r : program_.inputs) make(r);
    for (const auto& i : program_.instructions) {
      if (i.op == Op::gather) weights_.take(storage(i.target).value_bytes);
      for (const auto& r : i.writes) make(r);
      for (const auto& r : i.adds) make(r);
      peak_ = std::max(peak_, now_);
      for (const auto& r : i.frees) drop(r);
    }
  }
  [[nodiscard]] const BufferCounts& weight_buffers() const { return weights_.counts(); }
  [[nodiscard]] const BufferCounts& gradient_buffers() const { return gradients_.counts(); }
  [[nodiscard]] double peak() const { return peak_; }

 private:
  [[nodiscard]] const plan::UnitStorage& storage(std::int32_t unit) const {
    return storages_[static_cast<std::size_t>(unit)];
  }

  [[nodiscard]] double bytes(const Resource& r) const {
    const auto element = static_cast<double>(facts_.sizes.compute_bytes);
    if (r.kind == ResourceKind::value || r.kind == ResourceKind::gradient)
      return architecture::value_bytes(r.value.kind, architecture_.config(), sizes_of(r.value.layer), element);
    return r.kind == ResourceKind::graph ? graph_bytes_[static_cast<std::size_t>(r.index)] : 0;
  }

  [[nodiscard]] architecture::MicroBatchSizes sizes_of(std::int32_t layer) const {
    const auto owners = owners_.find(layer);
    return {
        .tokens = facts_.tokens, .sequences = facts_.sequences, .owners = owners == owners_.end() ? 1 : owners->second};
  }

  [[nodiscard]] double graph_bytes(const Chain& chain) const {
    double sum = 0;
    for (auto k = chain.first; k <= chain.last; ++k)
      sum +=
          architecture_.cost(architecture_.steps()[static_cast<std::size_t>(k)], {.tokens = facts_.tokens}).kept_bytes;
    return sum * static_cast<double>(facts_.sizes.compute_bytes) / 4;  // costs are stated for float32
  }

  void make(const Resource& r) {
    if (!live_.insert(r).second) return;
    if (r.kind == ResourceKind::weight_gradient) gradients_.take(storage(r.index).gradient_bytes);
    now_ += bytes(r);
  }
  void drop(const Resource& r) {
    if (r.kind == ResourceKind::weights) weights_.give_back(storage(r.index).value_bytes);
    if (live_.erase(r) == 0) return;
    if (r.kind == ResourceKind::weight_gradient) gradients_.give_back(storage(r.index).gradient_bytes);
    now_ -= bytes(r);
  }

  const Program& program_;
  const architecture::Architecture& architecture_;
  const std::vector<plan::UnitStorage>& storages_;
  const MemoryFacts& facts_;
  std::map<std::int32_t, std::int64_t> owners_;  // by layer, of exchanges that travel
  std::vector<double> graph_bytes_;              // by chain
  BufferCounter weights_, gradients_;
  std::set<Resource> live_;
  double now_ = 0, peak_ = 0;
};

}  // namespace

double MemoryPlan::total() const {
  return std::accumulate(purposes.begin(), purposes.end(), 0.0,
                         [](double sum, const Purpose& p) { return sum + p.bytes; });
}

MemoryPlan plan_memory(const Program& program, const architecture::Architecture& architecture,
                       const std::vector<plan::Placement>& placements, const layout::Layout& layout, std::int64_t rank,
                       const MemoryFacts& facts) {
  const plan::PlacementIndex index(placements);
  std::vector<plan::UnitStorage> storages;
  for (const auto& unit : architecture.units())
    storages.push_back(plan::unit_storage(unit, index, layout, rank, facts.sizes, facts.binding));
  Walk walk(program, architecture, storages, layout, facts);
  walk.run();

  double shards = 0;
  for (const auto& p : placements) shards += static_cast<double>(plan::shard_box(p, layout, rank).elements());
  const auto master = shards * static_cast<double>(facts.sizes.master_bytes);
  MemoryPlan plan{.purposes = {}, .weight_buffers = walk.weight_buffers(), .gradient_buffers = walk.gradient_buffers()};
  plan.purposes = {{"masters", master},
                   {"shard gradients", master},
                   {"optimizer state", master * static_cast<double>(facts.optimizer_states)},
                   {"gathered weights", bytes_of(plan.weight_buffers)},
                   {"gradient buffers", bytes_of(plan.gradient_buffers)},
                   {"activations (estimate)", walk.peak()}};
  return plan;
}

MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b) {
  base::expect(a.purposes.size() == b.purposes.size(), "memory plans of different purposes");
  auto larger = a;
  for (std::size_t k = 0; k < a.purposes.size(); ++k)
    larger.purposes[k].bytes = std::max(a.purposes[k].bytes, b.purposes[k].bytes);
  for (const auto& [bytes, count] : b.weight_buffers)
    larger.weight_buffers[bytes] = std::max(larger.weight_buffers[bytes], count);
  for (const auto& [bytes, count] : b.gradient_buffers)
    larger.gradient_buffers[bytes] = std::max(larger.gradient_buffers[bytes], count);
  return larger;
}

}  // namespace tessera::program
