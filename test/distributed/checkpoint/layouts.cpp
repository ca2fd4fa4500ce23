#include "layouts.h"

#include <numeric>

#include "support/ranks.h"

namespace tessera::test {
namespace {

const std::string accelerator = "--train.accelerator.";

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) list.push_back(d);
  return list;
}

void add_layouts_of(std::int64_t ranks, std::vector<CheckpointLayout>& list) {
  const std::vector<std::string> sharded{"fsdp2", "zero1", "zero2"};
  const auto add = [&](const Words& words) {
    list.push_back({ranks, joined(words, preset(sharded[list.size() / 2 % sharded.size()]))});
    list.push_back({ranks, joined(words, preset("ddp"))});
  };
  for (const auto count : divisors(ranks)) {
    add(replicas(count, ranks));
    for (const auto placed : {Placed::inner, Placed::outer})
      for (const auto ep : divisors(ranks / count))
        for (const auto emb : divisors(ranks / count))
          if (ep * emb > 1) add(joined(replicas(count, ranks), groups_of({{"ep", ep}, {"emb", emb}}, placed)));
  }
}

}  // namespace

std::string CheckpointLayout::describe() const {
  auto text = std::to_string(ranks) + " ranks";
  for (const auto& word : words)
    text += " " + word.substr(word.rfind('.') == std::string::npos ? 0 : word.rfind('.') + 1);
  return text;
}

Words groups_of(const std::vector<std::pair<std::string, std::int64_t>>& sizes, Placed placed) {
  Words names{accelerator + "extra_parallel_names"}, numbers{accelerator + "extra_parallel_sizes"};
  Words innermost{accelerator + "extra_parallel_placement_innermost"};
  for (const auto& [name, size] : sizes) {
    if (size == 1) continue;
    names.push_back(name);
    numbers.push_back(std::to_string(size));
    innermost.emplace_back(placed == Placed::inner ? "true" : "false");
  }
  return joined(joined(names, numbers), innermost);
}

Words replicas(std::int64_t count, std::int64_t ranks) {
  return {accelerator + "dp_replicate_size", std::to_string(count), accelerator + "dp_shard_size",
          std::to_string(ranks / count)};
}

Words preset(const std::string& mode) { return {accelerator + "fsdp_config.fsdp_mode", mode}; }

std::vector<CheckpointLayout> chosen_layouts() {
  return {{1, {}},
          {2, {}},
          {2, preset("ddp")},
          {2, joined(groups_of({{"ep", 2}}), preset("zero1"))},
          {2, groups_of({{"emb", 2}})},
          {2, joined(groups_of({{"ep", 2}, {"emb", 2}}), preset("ddp"))},
          {2, replicas(2, 2)},
          {3, preset("zero1")},
          {3, joined(groups_of({{"ep", 3}}), preset("ddp"))},
          {3, groups_of({{"ep", 3}, {"emb", 3}})},
          {3, replicas(3, 3)},
          {4, {}},
          {4, preset("ddp")},
          {4, preset("zero1")},
          {4, groups_of({{"ep", 2}})},
          {4, groups_of({{"ep", 2}}, Placed::outer)},
          {4, joined(groups_of({{"ep", 4}}), preset("zero1"))},
          {4, joined(groups_of({{"ep", 2}, {"emb", 4}}, Placed::outer), preset("ddp"))},
          {4, groups_of({{"ep", 2}, {"emb", 4}})},
          {4, groups_of({{"ep", 4}, {"emb", 2}}, Placed::outer)},
          {4, joined(replicas(2, 4), groups_of({{"ep", 2}}))},
          {4, joined(replicas(2, 4), groups_of({{"emb", 2}}, Placed::outer))},
          {4, joined(joined(replicas(2, 4), groups_of({{"ep", 2}, {"emb", 2}})), preset("ddp"))},
          {4, replicas(4, 4)}};
}

std::vector<CheckpointLayout> all_layouts(std::int64_t most) {
  std::vector<CheckpointLayout> list;
  for (std::int64_t ranks = 1; ranks <= most; ++ranks) add_layouts_of(ranks, list);
  return list;
}

std::shared_ptr<comm::Communicator> group_of_first(std::int64_t ranks) {
  const auto rank = world().rank();
  std::vector<std::int64_t> members{rank};
  if (rank < ranks) {
    members.resize(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
  }
  auto group = world().communicator()->make_group(members);
  return rank < ranks ? group : nullptr;
}

std::unique_ptr<Start> start_on(std::int64_t ranks, const config::Settings& settings) {
  const auto group = group_of_first(ranks);
  return group != nullptr ? std::make_unique<Start>(settings, group) : nullptr;
}

}  // namespace tessera::test
