#include "checkpoint/restore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/states.h"

namespace tessera::checkpoint {

void require_same_parameters(const StoredCheckpoint& stored, const std::vector<base::ParameterSpec>& parameters) {
  base::Problems problems;
  std::set<std::string> names;
  for (const auto& parameter : parameters) {
    names.insert(parameter.fqn);
    const auto* found = stored.find(parameter.fqn);
    if (found == nullptr)
      problems.add("it has no {}", parameter.fqn);
    else if (found->parameter.shape != parameter.shape)
      problems.add("{} is [{}] in it, and [{}] in the model", parameter.fqn, fmt::join(found->parameter.shape, ", "),
                   fmt::join(parameter.shape, ", "));
    else if (std::ranges::find(found->states, master_state) == found->states.end())
      problems.add("it has no weights of {}", parameter.fqn);
  }
  for (const auto& tensor : stored.manifest().tensors)
    if (!names.contains(tensor.parameter.fqn)) problems.add("the model has no {}", tensor.parameter.fqn);
  if (!problems.empty())
    base::fail("the checkpoint {} is of another model:\n  {}", stored.folder().string(),
               fmt::join(problems.list(), "\n  "));
}

Restored restore(StoredCheckpoint& stored, fsdp::ParameterStore& store, optim::Optimizer& optimizer, std::int64_t rank,
                 std::int64_t ranks) {
  Restored restored{.bytes_verified = stored.verify(rank, ranks)};
  const auto states = shard_states(store, optimizer);
  std::set<std::string> absent;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = store.parameters()[k];
    const auto& fqn = p.placement.parameter.fqn;
    const auto* tensor = stored.find(fqn);
    base::expect(tensor != nullptr, "no {} in a checkpoint that was checked", fqn);
    for (const auto& state : states[k]) {
      if (std::ranges::find(tensor->states, state.name) == tensor->states.end()) {
        absent.insert(state.name);
        continue;
      }
      const auto element_bytes = bits(tensor->type) / 8;
      restored.bytes_needed += static_cast<std::uint64_t>(p.box.elements()) * element_bytes;
      if (p.box.elements() == 0) continue;
      const auto parts = stored.parts(fqn, state.name, p.box);
      restored.bytes_read += static_cast<std::uint64_t>(read_box(parts, p.box, state.tensor)) * element_bytes;
    }
  }
  restored.absent.assign(absent.begin(), absent.end());
  optimizer.set_steps(absent.empty() ? stored.manifest().progress.optimizer_steps : 0);
  return restored;
}

}  // namespace tessera::checkpoint
