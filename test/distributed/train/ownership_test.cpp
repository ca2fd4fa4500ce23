// If this failed, ranks would route with different routers, or several owners would train the same experts.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "gathered.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

constexpr std::int64_t expert_total = 5;

// A layout with `ep` owners of experts in blocks of ceil(5 / ep).
struct Owned {
  Words words;
  std::int64_t ep = 2;
  enum class Owners { side_by_side, apart } owners = Owners::side_by_side;

  // The ranks that own expert `e`, of all replicas.
  [[nodiscard]] layout::Group owners_of(std::int64_t e) const {
    const auto owner = e / ((expert_total + ep - 1) / ep);
    layout::Group ranks;
    for (std::int64_t r = 0; r < world().size(); ++r)
      if ((owners == Owners::side_by_side ? r % ep : r / (world().size() / ep)) == owner) ranks.push_back(r);
    return ranks;
  }
};

std::vector<Owned> layouts_with_owners() {
  if (world().size() == 2) return {{groups({{"ep", 2}})}, {groups({{"ep", 2}, {"emb", 2}})}};
  return {{groups({{"ep", 2}})},
          {groups({{"ep", 4}, {"emb", 2}}), 4},
          {joined(groups({{"ep", 2}}), {"--train.accelerator.extra_parallel_placement_innermost", "false"}), 2,
           Owned::Owners::apart},
          {joined(groups({{"ep", 2}}), {"--train.accelerator.dp_replicate_size", "2"})},
          {joined(groups({{"ep", 2}}), {"--train.accelerator.fsdp_config.fsdp_mode", "ddp"})}};
}

std::uint64_t hash_of(const at::Tensor& tensor) {
  const auto bytes = tensor.contiguous();
  return base::xxh3(std::span(static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()));
}

// What this rank computes with: gathered as its segments get it.
at::Tensor as_used(train::Assembly& assembly, const std::string& fqn) {
  const auto& units = assembly.blueprint().architecture.units();
  const auto unit = plan::home_units(units).at(fqn);
  const auto& uses = units[unit].uses;
  const auto use = std::find_if(uses.begin(), uses.end(), [&](const plan::Use& u) { return u.fqn == fqn; });
  for (auto& travelling : assembly.store().start_gather(unit)) travelling.handle->wait();
  auto value = assembly.store().weight(unit, static_cast<std::size_t>(use - uses.begin())).value().clone();
  assembly.store().free(unit);
  return value;
}

// "experts 1 (ranks 0, 2) and 4 (ranks 1, 3) of model.layers.1.mlp.experts.up_proj are equal" for each pair that is, or
// nothing.
std::string equal_experts(const Owned& layout, const TensorsByName& whole) {
  std::string found;
  for (const auto& [fqn, stack] : whole) {
    if (fqn.find(".mlp.experts.") == std::string::npos) continue;
    for (std::int64_t a = 0; a < stack.size(0); ++a)
      for (std::int64_t b = a + 1; b < stack.size(0); ++b)
        if (at::equal(stack.select(0, a), stack.select(0, b)))
          found += fmt::format("experts {} (ranks {}) and {} (ranks {}) of {} are equal\n", a,
                               fmt::join(layout.owners_of(a), ", "), b, fmt::join(layout.owners_of(b), ", "), fqn);
  }
  return found;
}

TEST_CASE("initial values are the single rank's, bit for bit, and no two experts are equal") {
  const SmallRun files;
  Start alone(files.settings());
  for (const auto& layout : layouts_with_owners()) {
    CAPTURE(layout.words);
    Start start(files.settings(layout.words), world().communicator());
    const auto whole = gathered_masters(start.assembly());
    std::size_t compared = 0;
    for (const auto& p : alone.assembly().store().parameters()) {
      CHECK(at::equal(whole.at(p.placement.parameter.fqn), p.master));
      ++compared;
    }
    CHECK(compared == whole.size());
    CHECK(equal_experts(layout, whole).empty());
  }
}

TEST_CASE("after five steps every rank routes with the same router, and no two experts are equal") {
  const SmallRun files;
  for (const auto& layout : layouts_with_owners()) {
    CAPTURE(layout.words);
    Start start(files.settings(layout.words), world().communicator());
    auto& assembly = start.assembly();
    const auto initial = gathered_masters(assembly);
    for (const auto& step : start.steps(5)) train_step(assembly, step);
    const auto whole = gathered_masters(assembly);
    for (const std::int64_t layer : {1, 2}) {
      const auto router = architecture::layer_fqn(layer, "mlp.gate.weight");
      CHECK_FALSE(at::equal(whole.at(router), initial.at(router)));
      const auto used = as_used(assembly, router);
      CHECK(at::equal(used, whole.at(router)));
      const auto hashes = hashes_of_ranks(hash_of(used));
      CHECK(hashes == std::vector<std::uint64_t>(hashes.size(), hashes.front()));

      // An owner computes with its own experts alone.
      const auto stack = architecture::layer_fqn(layer, "mlp.experts.up_proj");
      const auto own = as_used(assembly, stack);
      std::int64_t next = 0;
      for (std::int64_t e = 0; e < expert_total; ++e) {
        const auto ranks = layout.owners_of(e);
        if (std::find(ranks.begin(), ranks.end(), world().rank()) == ranks.end()) continue;
        CHECK(at::equal(own.select(0, next++), whole.at(stack).select(0, e)));
      }
      CHECK(own.size(0) == next);
    }
    CHECK(equal_experts(layout, whole).empty());
  }
}

TEST_CASE("two experts of different owners that are made equal are named with their parameters and ranks") {
  const SmallRun files;
  const std::string up = "model.layers.2.mlp.experts.up_proj";
  for (const auto& layout : layouts_with_owners()) {
    CAPTURE(layout.words);
    Start start(files.settings(layout.words), world().communicator());
    auto& assembly = start.assembly();
    auto whole = gathered_masters(assembly);
    whole.at(up).select(0, 4).copy_(whole.at(up).select(0, 1));
    for (auto& p : assembly.store().parameters()) {
      if (p.placement.parameter.fqn == up) p.master.copy_(part_of(whole.at(up), p.box));
    }
    const auto first = layout.owners_of(1), other = layout.owners_of(4);
    CHECK(first.front() == 0);
    CHECK(std::find(first.begin(), first.end(), other.front()) == first.end());
    CHECK(equal_experts(layout, gathered_masters(assembly)) ==
          fmt::format("experts 1 (ranks {}) and 4 (ranks {}) of {} are equal\n", fmt::join(first, ", "),
                      fmt::join(other, ", "), up));
  }
}

TEST_CASE("a router that differs on one rank is seen there") {
  const SmallRun files;
  Start start(files.settings({"--train.accelerator.fsdp_config.fsdp_mode", "ddp"}), world().communicator());
  auto& assembly = start.assembly();
  const auto router = architecture::layer_fqn(1, "mlp.gate.weight");
  const auto last = static_cast<std::size_t>(world().size() - 1);
  if (world().rank() == static_cast<std::int64_t>(last)) assembly.store().parameter(router).master.mul_(1.5);
  const auto hashes = hashes_of_ranks(hash_of(as_used(assembly, router)));
  for (std::size_t r = 0; r < last; ++r) CHECK(hashes[r] == hashes[0]);
  CHECK(hashes[last] != hashes[0]);
}

}  // namespace
}  // namespace tessera::test
