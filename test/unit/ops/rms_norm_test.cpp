// If this failed, every layer's input would be scaled wrongly.
#include "ops/rms_norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/rsqrt.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::BoundWeight;
using test::distance;
using test::varied;

namespace {

constexpr double epsilon = 1e-3;

at::Tensor reference(const at::Tensor& x, const at::Tensor& gain) {
  const auto wide = x.to(at::kDouble);
  return wide.mul(at::rsqrt(wide.mul(wide).mean(-1, true).add(epsilon))).mul(gain.to(at::kDouble));
}

}  // namespace

TEST_CASE("rms_norm follows its formula over the last dim, with gradients by central differences") {
  auto flat = varied({7, 13}, 1), heads = varied({5, 3, 13}, 2);
  BoundWeight gain(varied({13}, 3));
  CHECK(distance(ops::rms_norm(flat, gain, epsilon), reference(flat, gain.value())) < 1e-14);
  CHECK(distance(ops::rms_norm(heads, gain, epsilon), reference(heads, gain.value())) < 1e-14);
  test::check_gradients([&] { return test::probe(ops::rms_norm(flat, gain, epsilon)); }, {flat}, {&gain});
  test::check_gradients([&] { return test::probe(ops::rms_norm(heads, gain, epsilon)); }, {heads}, {&gain});
}

TEST_CASE("addition and norm in one pass give both results and add both gradients") {
  auto first = varied({7, 13}, 1), second = varied({7, 13}, 2);
  BoundWeight gain(varied({13}, 3));
  const auto result = ops::add_rms_norm(first, second, gain, epsilon);
  CHECK(distance(result.sum, first.add(second)) == 0);
  CHECK(distance(result.normed, reference(first.add(second), gain.value())) < 1e-14);
  const auto both = [&] {
    const auto r = ops::add_rms_norm(first, second, gain, epsilon);
    return test::probe(r.sum, 4).add(test::probe(r.normed, 5));
  };
  test::check_gradients(both, {first, second}, {&gain});
  test::check_gradients([&] { return test::probe(ops::add_rms_norm(first, second, gain, epsilon).normed); },
                        {first, second}, {&gain});
}

TEST_CASE("a sum whose norm is not used passes its gradient on") {
  auto first = varied({7, 13}, 1), second = varied({7, 13}, 2);
  BoundWeight gain(varied({13}, 3));
  test::check_gradients([&] { return test::probe(ops::add_rms_norm(first, second, gain, epsilon).sum); },
                        {first, second}, {});
  CHECK(gain.gradient().abs().max().item<double>() == 0);
}

TEST_CASE("the gain's gradient adds up over more rows than one piece, with the same bits twice") {
  const auto x = varied({1031, 5}, 1, at::kFloat);
  BoundWeight gain(varied({5}, 2, at::kFloat));
  test::probe(ops::rms_norm(x, gain, epsilon)).backward();
  const auto once = gain.gradient().clone();
  const auto wide = x.to(at::kDouble);
  const auto normed = wide.mul(at::rsqrt(wide.mul(wide).mean(-1, true).add(epsilon)));
  CHECK(distance(once, normed.mul(varied({1031, 5}, 77)).sum(0)) < 1e-4);
  gain.zero_gradient();
  test::probe(ops::rms_norm(x, gain, epsilon)).backward();
  CHECK(distance(gain.gradient(), once) == 0);
}

TEST_CASE("bfloat16 rows get their statistics in float32") {
  // The sum of squares of 4096 ones stops growing at 256 in bfloat16.
  BoundWeight gain(at::full({4096}, 1.0, at::TensorOptions(at::kBFloat16)));
  const auto x = at::full({1, 4096}, 1.0, at::TensorOptions(at::kBFloat16));
  CHECK(ops::rms_norm(x, gain, 0)[0][17].item<float>() == 1.0F);
}

TEST_CASE("zero rows, a freed gain, and no autograd") {
  BoundWeight gain(varied({13}, 3));
  CHECK(ops::rms_norm(varied({0, 13}, 1), gain, epsilon).sizes() == at::IntArrayRef({0, 13}));
  auto x = varied({7, 13}, 1).set_requires_grad(true);
  const auto loss = test::probe(ops::rms_norm(x, gain, epsilon));
  loss.backward();
  const auto expected = x.grad().clone();
  x.mutable_grad().reset();
  const auto again = test::probe(ops::rms_norm(x, gain, epsilon));
  gain.free();
  gain.gather();
  again.backward();
  CHECK(distance(x.grad(), expected) == 0);
  const at::NoGradGuard no_graph;
  CHECK_FALSE(ops::rms_norm(x, gain, epsilon).requires_grad());
}
