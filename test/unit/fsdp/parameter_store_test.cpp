// If this failed, weights would be read from the wrong place, or gradients would be lost, doubled or left over.
#include "fsdp/parameter_store.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "comm/communicator.h"
#include "layout/layout.h"
#include "plan/parallel_plan.h"
#include "support/catch.h"

namespace tessera::fsdp {
namespace {

constexpr const char* shared = "model.embed_tokens.weight";
constexpr const char* norm = "model.norm.weight";

// Two units that both use one parameter, as a tied head does.
struct Small {
  layout::Layout layout{layout::LayoutSizes{}};
  mesh::Mesh mesh{layout, comm::solo_communicator()};
  std::vector<plan::Placement> placements;
  std::vector<plan::Unit> units{
      {"embed", {{shared, plan::UseKind::owned}}},
      {"head", {{norm, plan::UseKind::whole}, {shared, plan::UseKind::whole}}},
  };

  Small() {
    base::Problems problems;
    placements = plan::place({{shared, {7, 5}}, {norm, {5}}}, plan::ParallelPlan{}, layout,
                             plan::MasterSharding::sharded, problems);
    problems.throw_if_any("placements");
  }

  [[nodiscard]] ParameterStore store(plan::BindPolicy binding, device::Numbers numbers = {}) const {
    StoreOptions options{.numbers = numbers, .binding = binding, .poison = device::Poison::fill_with_nan};
    const plan::ElementSizes sizes{.compute_bytes = static_cast<std::int64_t>(at::elementSize(numbers.compute)),
                                   .master_bytes = static_cast<std::int64_t>(at::elementSize(numbers.master)),
                                   .same_type = numbers.compute == numbers.master};
    for (const auto& unit : units) {
      const auto storage = plan::unit_storage(unit, plan::PlacementIndex(placements), layout, 0, sizes, binding);
      if (storage.value_bytes > 0) ++options.weight_buffers[storage.value_bytes];
      if (storage.gradient_bytes > 0) ++options.gradient_buffers[storage.gradient_bytes];
    }
    return {units, placements, layout, mesh, 0, std::move(options)};
  }
};

void fill(ParameterStore& store) {
  for (auto& p : store.parameters())
    p.master.copy_(at::arange(p.master.numel(), p.master.options()).view(p.master.sizes()).add_(1));
}

void gather(ParameterStore& store, std::size_t unit) {
  for (auto& travelling : store.start_gather(unit)) travelling.handle->wait();
}

void reduce(ParameterStore& store, std::size_t unit) {
  for (auto& travelling : store.start_reduce(unit)) travelling.handle->wait();
  store.give_back_gradient(unit);
}

const std::vector<plan::BindPolicy> policies{plan::BindPolicy::bind_where_possible, plan::BindPolicy::always_copy};

TEST_CASE("a gathered weight has its master's values, bound or copied") {
  const Small small;
  for (const auto policy : policies) {
    auto store = small.store(policy);
    fill(store);
    gather(store, 1);
    CHECK(at::equal(store.weight(1, 0).value(), store.parameter(norm).master));
    CHECK(at::equal(store.weight(1, 1).value(), store.parameter(shared).master));
    const bool is_bound = store.weight(1, 1).value().data_ptr() == store.parameter(shared).master.data_ptr();
    CHECK(is_bound == (policy == plan::BindPolicy::bind_where_possible));
  }
}

TEST_CASE("a freed weight is unbound, or NaN where buffers are poisoned, and can be gathered again") {
  const Small small;
  for (const auto policy : policies) {
    auto store = small.store(policy);
    fill(store);
    for (int round = 0; round < 3; ++round) {
      gather(store, 0);
      CHECK(at::equal(store.weight(0, 0).value(), store.parameter(shared).master));
      store.free(0);
      if (policy == plan::BindPolicy::always_copy)
        CHECK(store.weight(0, 0).value().isnan().all().item<bool>());
      else
        CHECK(store.weight(0, 0).value().data_ptr() == nullptr);
    }
  }
}

TEST_CASE("a narrower compute type is a rounded copy, while gradients stay in the master's type") {
  const Small small;
  auto store = small.store(plan::BindPolicy::bind_where_possible, {.compute = at::kBFloat16});
  fill(store);
  store.parameter(shared).master.mul_(1.001);
  gather(store, 0);
  CHECK(at::equal(store.weight(0, 0).value(), store.parameter(shared).master.to(at::kBFloat16)));
  store.take_gradient(0);
  CHECK(store.weight(0, 0).gradient().scalar_type() == at::kFloat);
  CHECK(store.weight(0, 0).gradient().data_ptr() == store.parameter(shared).gradient.data_ptr());
}

TEST_CASE("gradients of all uses and micro-steps add up in the one shard gradient, until it is zeroed") {
  const Small small;
  for (const auto policy : policies) {
    auto store = small.store(policy);
    fill(store);
    for (int micro = 0; micro < 2; ++micro) {
      for (const std::size_t unit : {1U, 0U}) {
        store.take_gradient(unit);
        store.take_gradient(unit);                                   // a second chain of the same unit
        const auto& gradient = store.weight(unit, unit).gradient();  // use 0 of embed, use 1 of head
        if (policy == plan::BindPolicy::always_copy) CHECK(gradient.eq(0).all().item<bool>());
        gradient.add_(unit == 1 ? 10 : 1);
        reduce(store, unit);
      }
    }
    CHECK(store.parameter(shared).gradient.eq(22).all().item<bool>());
    CHECK(store.parameter(norm).gradient.eq(0).all().item<bool>());
    store.zero_gradients();
    CHECK(store.parameter(shared).gradient.eq(0).all().item<bool>());
  }
}

TEST_CASE("gathering twice, freeing what is not gathered and reducing without a gradient are refused") {
  const Small small;
  auto store = small.store(plan::BindPolicy::always_copy);
  fill(store);
  CHECK_THROWS_WITH(store.free(0), Catch::Matchers::ContainsSubstring("unit embed is not gathered"));
  CHECK_THROWS_WITH(store.start_reduce(0), Catch::Matchers::ContainsSubstring("unit embed has no gradient"));
  gather(store, 0);
  CHECK_THROWS_WITH(store.start_gather(0), Catch::Matchers::ContainsSubstring("unit embed is gathered already"));
}

}  // namespace
}  // namespace tessera::fsdp
