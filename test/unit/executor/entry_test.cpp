// If this failed, recomputation would keep the activations that it should free, or a gradient would be lost between two
// chains.
#include "executor/entry.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/catch.h"

namespace tessera::executor {
namespace {

TEST_CASE("the gradients of all uses of an input arrive as one sum") {
  const at::AutoGradMode mode(true);
  const auto arrival = std::make_shared<Arrival>();
  const auto x = enter(at::full({3}, 2.0), arrival);
  CHECK(x.requires_grad());
  torch::autograd::backward({at::add(at::mul(x, 5.0), x)}, {at::full({3}, 7.0)});
  REQUIRE(arrival->gradient.defined());
  CHECK(at::equal(arrival->gradient, at::full({3}, 42.0)));
}

TEST_CASE("an input that no path leads to has no gradient") {
  const at::AutoGradMode mode(true);
  const auto used = std::make_shared<Arrival>(), unused = std::make_shared<Arrival>();
  const auto x = enter(at::full({2}, 1.0), used), y = enter(at::full({2}, 1.0), unused);
  torch::autograd::backward({at::mul(x, 3.0)}, {at::full({2}, 1.0)});
  CHECK(used->gradient.defined());
  CHECK_FALSE(unused->gradient.defined());
}

TEST_CASE("a graph keeps the memory of its input only if an operation saved it") {
  const at::AutoGradMode mode(true);
  const auto value = at::full({5}, 2.0);
  const auto users = [&] { return value.storage().use_count(); };
  const auto alone = users();
  {
    const auto sum = at::add(enter(value, std::make_shared<Arrival>()), 1.0);
    CHECK(users() == alone);
  }
  const auto square = [&] {
    const auto x = enter(value, std::make_shared<Arrival>());
    return at::mul(x, x);
  }();
  CHECK(users() > alone);
}

}  // namespace
}  // namespace tessera::executor
