// If this failed, replicas that drift apart would go unnoticed, or the wrong parameter or ranks would be named.
#include "train/replica_check.h"

#include <set>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::train {
namespace {

ReplicatedState state(const std::string& fqn, const std::string& name, std::vector<std::uint64_t> hashes) {
  layout::Group ranks;
  for (std::size_t k = 0; k < hashes.size(); ++k) ranks.push_back(static_cast<std::int64_t>(2 * k + 1));
  return {fqn, name, std::move(ranks), std::move(hashes)};
}

TEST_CASE("equal replicas, single holders and no states at all differ in nothing") {
  CHECK_FALSE(describe_difference({}).has_value());
  CHECK_FALSE(describe_difference({state("a", "master", {7}), state("b", "exp_avg", {8, 8, 8})}).has_value());
}

TEST_CASE("the first state that differs is named with the ranks of each value, and the others are counted") {
  const auto text = describe_difference({state("a", "master", {7, 7, 7, 7}), state("b", "master", {1, 2, 1, 3}),
                                         state("c", "exp_avg", {5, 5, 5, 5}), state("c", "exp_avg_sq", {4, 5, 5, 5})});
  REQUIRE(text.has_value());
  CHECK(*text ==
        "replicas of b differ in master: ranks 1, 5 hold 0000000000000001, rank 3 holds 0000000000000002, rank 7 holds "
        "0000000000000003; 1 more masters or moments differ");
}

TEST_CASE("each master and each moment has a hash that changes with any bit of it") {
  const test::SmallRun files;
  for (const auto& [type, momentum, moments] : {std::tuple{"adamw", "0", 2}, {"sgd", "0.9", 1}, {"sgd", "0", 0}}) {
    INFO(type << " " << momentum);
    test::Start start(files.settings({"--train.optimizer.type", type, "--train.optimizer.momentum", momentum}));
    auto& store = start.assembly().store();
    auto& optimizer = start.assembly().optimizer();
    const auto before = hash_states(store, optimizer);
    CHECK(before.size() == store.parameters().size() * (1 + static_cast<std::size_t>(moments)));
    std::set<std::pair<std::string, std::string>> names;
    for (const auto& s : before) names.insert({s.fqn, s.state});
    CHECK(names.size() == before.size());

    auto& parameter = store.parameters().back();
    auto* bytes = static_cast<std::uint8_t*>(parameter.master.data_ptr());
    bytes[parameter.master.nbytes() - 4] ^= 1;  // the lowest bit of the last element
    const auto after = hash_states(store, optimizer);
    for (std::size_t s = 0; s < before.size(); ++s) {
      const bool is_flipped = before[s].fqn == parameter.placement.parameter.fqn && before[s].state == "master";
      CHECK((before[s].hash != after[s].hash) == is_flipped);
    }
  }
}

TEST_CASE("one rank has no replicas and passes its check") {
  const test::SmallRun files;
  test::Start start(files.settings());
  auto& assembly = start.assembly();
  const auto count =
      check_replicas(assembly.store(), assembly.optimizer(), assembly.blueprint().layout, assembly.mesh(), 0);
  CHECK(count.states == 3 * assembly.store().parameters().size());
  CHECK(count.replicated == 0);
}

}  // namespace
}  // namespace tessera::train
