#include "train/replica_check.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "comm/agreement.h"
#include "comm/communicator.h"

namespace tessera::train {
namespace {

std::uint64_t hash_of_tensor(const at::Tensor& tensor) {
  base::expect(tensor.is_contiguous(), "a shard is contiguous");
  const auto on_host = tensor.cpu();
  return base::xxh3(std::span(static_cast<const std::byte*>(on_host.const_data_ptr()), on_host.nbytes()));
}

// The hashes of one group's states on all ranks of it, while they are gathered.
struct GroupHashes {
  std::vector<std::size_t> states;
  // [rank of the group][states]; bits of the hashes. The gather under way holds them.
  std::shared_ptr<std::vector<std::int64_t>> hashes = std::make_shared<std::vector<std::int64_t>>();
  comm::Handle handle;
};

void start_gather(GroupHashes& group, const std::vector<StateHash>& states, comm::Communicator& communicator) {
  const auto count = std::ssize(group.states);
  group.hashes->resize(static_cast<std::size_t>(communicator.size() * count));
  comm::GatherBlock block{.type = comm::ElementType::int64, .pieces = {}};
  for (std::int64_t k = 0; k < communicator.size(); ++k)
    block.pieces.push_back(
        {.data = group.hashes->data() + k * count, .rows = 1, .row_elements = count, .stride_elements = count});
  auto* own = group.hashes->data() + communicator.rank() * count;
  for (const auto s : group.states) *own++ = static_cast<std::int64_t>(states[s].hash);
  group.handle = communicator.gather_blocks({std::move(block)}, group.hashes);
}

std::string ranks_text(const layout::Group& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

bool differs(const ReplicatedState& state) {
  return std::any_of(state.hashes.begin(), state.hashes.end(),
                     [&](std::uint64_t hash) { return hash != state.hashes.front(); });
}

}  // namespace

std::vector<StateHash> hash_states(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer) {
  std::vector<StateHash> states;
  std::map<std::string, layout::GroupId> group_of;
  for (const auto& p : store.parameters()) {
    const auto& fqn = p.placement.parameter.fqn;
    group_of[fqn] = p.placement.replicate_group;
    states.push_back({fqn, checkpoint::master_state, p.placement.replicate_group, hash_of_tensor(p.master)});
  }
  for (const auto& moment : optimizer.state())
    states.push_back({moment.fqn, moment.name, group_of.at(moment.fqn), hash_of_tensor(moment.tensor)});
  return states;
}

std::optional<std::string> describe_difference(const std::vector<ReplicatedState>& states) {
  const auto first = std::find_if(states.begin(), states.end(), differs);
  if (first == states.end()) return std::nullopt;
  std::vector<std::pair<std::uint64_t, layout::Group>> holders;  // in the order of their first ranks
  for (std::size_t k = 0; k < first->ranks.size(); ++k) {
    auto found =
        std::find_if(holders.begin(), holders.end(), [&](const auto& h) { return h.first == first->hashes[k]; });
    if (found == holders.end()) found = holders.insert(holders.end(), {first->hashes[k], {}});
    found->second.push_back(first->ranks[k]);
  }
  std::vector<std::string> texts;
  for (const auto& [hash, ranks] : holders)
    texts.push_back(fmt::format("{} {} {}", ranks_text(ranks), ranks.size() == 1 ? "holds" : "hold", base::hex(hash)));
  const auto more = std::count_if(first + 1, states.end(), differs);
  return fmt::format("replicas of {} differ in {}: {}{}", first->fqn, first->state, fmt::join(texts, ", "),
                     more == 0 ? "" : fmt::format("; {} more masters or moments differ", more));
}

ReplicaCount check_replicas(const fsdp::ParameterStore& store, const optim::Optimizer& optimizer,
                            const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t step) {
  const auto states = hash_states(store, optimizer);
  std::map<layout::GroupId, GroupHashes> groups;
  for (std::size_t s = 0; s < states.size(); ++s) groups[states[s].replicate_group].states.push_back(s);
  for (auto& [id, group] : groups) start_gather(group, states, *mesh.host(id));

  const auto rank = mesh.host(layout::GroupId::world())->rank();
  std::vector<ReplicatedState> replicated(states.size());
  ReplicaCount count{.states = states.size()};
  for (auto& [id, group] : groups) {
    group.handle->wait();
    const auto ranks = layout.group(rank, id);
    if (ranks.size() > 1) count.replicated += group.states.size();
    for (std::size_t k = 0; k < group.states.size(); ++k) {
      const auto& state = states[group.states[k]];
      auto& r = replicated[group.states[k]] = {state.fqn, state.state, ranks, {}};
      for (std::size_t member = 0; member < ranks.size(); ++member)
        r.hashes.push_back(static_cast<std::uint64_t>((*group.hashes)[member * group.states.size() + k]));
    }
  }
  std::optional<comm::Failure> failure;
  if (const auto difference = describe_difference(replicated))
    failure = {
        base::ExitCode::rank_failed,
        fmt::format("after step {} {}; do not trust the steps since the last check that passed", step, *difference)};
  comm::agree(*mesh.host(layout::GroupId::world()), failure);
  return count;
}

}  // namespace tessera::train
