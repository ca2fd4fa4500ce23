// If this failed, every projection of the model would be wrong, or its gradient would miss the parameter's buffer.
#include "ops/linear.h"

#include <ATen/ops/matmul.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::BoundWeight;
using test::distance;
using test::varied;

TEST_CASE("a product equals input times the transposed weight plus bias, with gradients by central differences") {
  auto input = varied({7, 5}, 1);
  BoundWeight weight(varied({11, 5}, 2)), bias(varied({11}, 3));
  CHECK(distance(ops::linear(input, weight, bias.pointer()), at::matmul(input, weight.value().t()).add(bias.value())) <
        1e-14);
  test::check_gradients([&] { return test::probe(ops::linear(input, weight, bias.pointer())); }, {input},
                        {&weight, &bias});
}

TEST_CASE("several products of one input share its gradient") {
  auto input = varied({7, 5}, 1);
  BoundWeight a(varied({11, 5}, 2)), b(varied({3, 5}, 3)), bias(varied({3}, 4));
  const auto loss = [&] {
    const auto results = ops::linear(input, {{a.pointer(), nullptr}, {b.pointer(), bias.pointer()}});
    REQUIRE(results.size() == 2);
    return test::probe(results[0], 5).add(test::probe(results[1], 6));
  };
  test::check_gradients(loss, {input}, {&a, &b, &bias});
}

TEST_CASE("a result that backward does not reach leaves its weight's gradient alone") {
  auto input = varied({7, 5}, 1);
  BoundWeight a(varied({11, 5}, 2)), b(varied({3, 5}, 3));
  test::probe(ops::linear(input, {{a.pointer(), nullptr}, {b.pointer(), nullptr}})[1]).backward();
  CHECK(a.gradient().abs().max().item<double>() == 0);
  CHECK(b.gradient().abs().max().item<double>() > 0);
}

TEST_CASE("the weight's gradient arrives although the input needs none, and adds to what the buffer holds") {
  const auto input = varied({7, 5}, 1);
  BoundWeight weight(varied({11, 5}, 2));
  ops::linear(input, weight).sum().backward();
  const auto once = weight.gradient().clone();
  ops::linear(input, weight).sum().backward();
  CHECK(distance(weight.gradient(), once.mul(2)) < 1e-13);
}

TEST_CASE("a weight that was freed and gathered elsewhere between forward and backward gives the same gradients") {
  auto input = varied({7, 5}, 1).set_requires_grad(true);
  BoundWeight weight(varied({11, 5}, 2));
  test::probe(ops::linear(input, weight)).backward();
  const auto expected = input.grad().clone(), expected_weight = weight.gradient().clone();
  input.mutable_grad().reset();
  weight.zero_gradient();
  const auto loss = test::probe(ops::linear(input, weight));
  weight.free();
  weight.gather();
  loss.backward();
  CHECK(distance(input.grad(), expected) == 0);
  CHECK(distance(weight.gradient(), expected_weight) == 0);
}

TEST_CASE("a freed weight is refused, in forward and in backward") {
  auto input = varied({7, 5}, 1).set_requires_grad(true);
  BoundWeight weight(varied({11, 5}, 2));
  const auto loss = test::probe(ops::linear(input, weight));
  weight.free();
  CHECK_THROWS_AS(ops::linear(input, weight), std::logic_error);
  CHECK_THROWS(loss.backward());
}

TEST_CASE("zero tokens give no rows and no gradient") {
  auto input = at::zeros({0, 5}, at::TensorOptions(at::kDouble)).set_requires_grad(true);
  BoundWeight weight(varied({11, 5}, 2)), bias(varied({11}, 3));
  const auto result = ops::linear(input, weight, bias.pointer());
  CHECK(result.sizes() == at::IntArrayRef({0, 11}));
  result.sum().backward();
  CHECK(input.grad().sizes() == at::IntArrayRef({0, 5}));
  CHECK(weight.gradient().abs().max().item<double>() == 0);
}

TEST_CASE("without autograd nothing requires a gradient") {
  const at::NoGradGuard no_graph;
  BoundWeight weight(varied({11, 5}, 2));
  CHECK_FALSE(ops::linear(varied({7, 5}, 1), weight).requires_grad());
}

TEST_CASE("bfloat16 operands are multiplied and summed in float32, their gradients kept in the buffer's float32") {
  // More outputs than one widened block holds, so that blocks are joined.
  const std::int64_t in = 1021, out = 521;
  auto input = varied({3, in}, 1, at::kBFloat16).set_requires_grad(true);
  BoundWeight weight(varied({out, in}, 2, at::kBFloat16));
  REQUIRE(weight.gradient().scalar_type() == at::kFloat);
  const auto wide = input.detach().to(at::kFloat), wide_weight = weight.value().to(at::kFloat);
  const auto result = ops::linear(input, weight, nullptr, at::kFloat);
  CHECK(result.scalar_type() == at::kFloat);
  CHECK(distance(result, at::matmul(wide, wide_weight.t())) < 1e-4);
  CHECK(ops::linear(input, weight).scalar_type() == at::kBFloat16);
  const auto d = varied({3, out}, 4, at::kFloat);
  result.mul(d).sum().backward();
  CHECK(distance(weight.gradient(), at::matmul(d.t(), wide)) < 1e-5);
  CHECK(input.grad().scalar_type() == at::kBFloat16);
  CHECK(test::relative_distance(input.grad(), at::matmul(d, wide_weight)) < 0x1p-8);
}
