#include "checkpoint/states.h"

#include <map>

#include "checkpoint/manifest.h"

namespace tessera::checkpoint {
namespace {

// Returns the dim along which `ranks` ranks divide `shape` most evenly.
std::size_t most_even_dim(const std::vector<std::int64_t>& shape, std::int64_t ranks) {
  const auto largest = [&](std::size_t dim) {
    std::int64_t elements = layout::block_of(shape[dim], ranks, 0).size();
    for (std::size_t d = 0; d < shape.size(); ++d) elements *= d == dim ? 1 : shape[d];
    return elements;
  };
  std::size_t best = 0;
  for (std::size_t dim = 1; dim < shape.size(); ++dim)
    if (largest(dim) < largest(best)) best = dim;
  return best;
}

}  // namespace

std::vector<std::vector<ShardState>> shard_states(const fsdp::ParameterStore& store,
                                                  const optim::Optimizer& optimizer) {
  std::map<std::string, std::vector<ShardState>> moments;
  for (auto& moment : optimizer.state()) moments[moment.fqn].push_back({moment.name, moment.tensor});
  std::vector<std::vector<ShardState>> states;
  for (const auto& p : store.parameters()) {
    auto& list = states.emplace_back();
    list.push_back({master_state, p.master});
    for (auto& moment : moments[p.placement.parameter.fqn]) list.push_back(std::move(moment));
  }
  return states;
}

layout::Box written_box(const plan::Placement& placement, std::size_t index, const layout::Layout& layout,
                        std::int64_t rank) {
  auto box = plan::shard_box(placement, layout, rank);
  const auto& group = placement.replicate_group;
  const auto ranks = layout.group_size(group);
  if (ranks == 1) return box;
  const auto turn = (layout.position(rank, group) + static_cast<std::int64_t>(index)) % ranks;
  auto& dim = box.dims[most_even_dim(box.shape(), ranks)];
  const auto block = layout::block_of(dim.size(), ranks, turn);
  dim = {dim.begin + block.begin, dim.begin + block.end};
  return box;
}

}  // namespace tessera::checkpoint
