// If this failed, dense layers would compute a wrong activation.
#include "ops/swiglu.h"

#include <ATen/ops/silu.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::varied;

TEST_CASE("swiglu is silu(gate) * up, with gradients by central differences") {
  auto gate = varied({7, 5}, 1).mul_(4), up = varied({7, 5}, 2);
  CHECK(test::distance(ops::swiglu(gate, up), at::silu(gate).mul(up)) < 1e-15);
  test::check_gradients([&] { return test::probe(ops::swiglu(gate, up)); }, {gate, up}, {});
}

TEST_CASE("swiglu in float32 and bfloat16 follows float64 to their rounding, also where the sigmoid saturates") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    auto gate = varied({211, 101}, 1, type).mul_(120).set_requires_grad(true);
    auto up = varied({211, 101}, 2, type).set_requires_grad(true);
    const auto result = ops::swiglu(gate, up);
    const auto exact = at::silu(gate.detach().to(at::kDouble)).mul(up.detach().to(at::kDouble));
    const double bound = type == at::kFloat ? 0x1p-23 : 0x1p-8;
    CHECK(test::relative_distance(result, exact) < bound);
    result.sum().backward();
    CHECK(test::relative_distance(up.grad(), at::silu(gate.detach().to(at::kDouble))) < bound);
  }
}

TEST_CASE("zero rows give zero rows") {
  CHECK(ops::swiglu(varied({0, 5}, 1), varied({0, 5}, 1)).sizes() == at::IntArrayRef({0, 5}));
}
