// If this failed, a token would attend to tokens after it or outside of its range, or miss some before it.
#include "ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::integers;
using test::varied;

namespace {

// All scores at once, in the tensors' type, differentiable.
at::Tensor reference(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::vector<std::int64_t>& starts) {
  const auto group = query.size(1) / key.size(1);
  const auto scale = 1 / std::sqrt(static_cast<double>(query.size(2)));
  std::vector<at::Tensor> ranges;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto n = starts[i + 1] - starts[i];
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, starts[i], n).transpose(0, 1); };
    const auto k = part(key).repeat_interleave(group, 0), v = part(value).repeat_interleave(group, 0);
    const auto hidden = at::ones({n, n}, at::TensorOptions(at::kBool)).triu(1);
    const auto scores = at::matmul(part(query), k.transpose(1, 2)).mul(scale).masked_fill(hidden, -1e300);
    ranges.push_back(at::matmul(at::softmax(scores, -1), v).transpose(0, 1));
  }
  return at::cat(ranges);
}

struct Inputs {
  at::Tensor query, key, value;
};

Inputs inputs(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
              at::ScalarType type = at::kDouble) {
  return {varied({tokens, heads, dim}, 1, type).mul_(2).set_requires_grad(true),
          varied({tokens, kv_heads, dim}, 2, type).mul_(2).set_requires_grad(true),
          varied({tokens, kv_heads, dim}, 3, type).set_requires_grad(true)};
}

Inputs gradients_of(const at::Tensor& loss, Inputs in) {
  for (auto* x : {&in.query, &in.key, &in.value}) x->mutable_grad().reset();
  loss.backward();
  return {in.query.grad().clone(), in.key.grad().clone(), in.value.grad().clone()};
}

void check_against_reference(const Inputs& in, const std::vector<std::int64_t>& starts, double tolerance) {
  const auto result = ops::causal_attention(in.query, in.key, in.value, integers(starts));
  const Inputs wide{in.query.detach().to(at::kDouble).set_requires_grad(true),
                    in.key.detach().to(at::kDouble).set_requires_grad(true),
                    in.value.detach().to(at::kDouble).set_requires_grad(true)};
  const auto expected = reference(wide.query, wide.key, wide.value, starts);
  CHECK(distance(result, expected) < tolerance);
  const auto got = gradients_of(test::probe(result), in), want = gradients_of(test::probe(expected), wide);
  CHECK(distance(got.query, want.query) < tolerance * std::max(1.0, want.query.abs().max().item<double>()));
  CHECK(distance(got.key, want.key) < tolerance * std::max(1.0, want.key.abs().max().item<double>()));
  CHECK(distance(got.value, want.value) < tolerance * std::max(1.0, want.value.abs().max().item<double>()));
  if (result.scalar_type() != at::kBFloat16) return;
  for (const auto& [a, b] :
       {std::pair{result, expected}, {got.query, want.query}, {got.key, want.key}, {got.value, want.value}})
    CHECK(test::relative_distance(a, b) < 0x1p-7);
}

}  // namespace

TEST_CASE("attention equals the naive formula and its gradients to 1e-12 in float64") {
  check_against_reference(inputs(13, 6, 2, 5), {0, 13}, 1e-12);
  check_against_reference(inputs(13, 3, 3, 8), {0, 13}, 1e-12);
  check_against_reference(inputs(13, 5, 1, 7), {0, 13}, 1e-12);
}

TEST_CASE("ranges of any length, empty ones too, do not see each other") {
  check_against_reference(inputs(23, 4, 2, 3), {0, 1, 1, 9, 20, 23}, 1e-12);
  check_against_reference(inputs(21, 4, 2, 3), {0, 7, 14, 21}, 1e-12);
}

TEST_CASE("ranges longer than a block of queries and a block of keys are joined exactly") {
  check_against_reference(inputs(673, 2, 1, 3), {0, 601, 673}, 1e-12);
}

TEST_CASE("float32 follows float64 to 1e-5, bfloat16 to its own rounding") {
  check_against_reference(inputs(157, 4, 2, 16, at::kFloat), {0, 100, 157}, 1e-5);
  check_against_reference(inputs(157, 4, 2, 16, at::kBFloat16), {0, 100, 157}, 2.0 / 128);
}

TEST_CASE("large scores do not overflow") {
  const auto in = inputs(11, 2, 1, 4, at::kFloat);
  const at::NoGradGuard no_graph;
  const auto query = in.query.mul(1e4), key = in.key.mul(1e4);
  const auto result = ops::causal_attention(query, key, in.value, integers({0, 11}));
  CHECK(distance(result, reference(query.to(at::kDouble), key.to(at::kDouble), in.value.to(at::kDouble), {0, 11})) <
        1e-5);
  CHECK_FALSE(result.requires_grad());
}

TEST_CASE("no tokens are fine; starts that do not cover the tokens are refused") {
  const auto none = inputs(0, 4, 2, 3);
  const auto result = ops::causal_attention(none.query, none.key, none.value, integers({0}));
  CHECK(result.sizes() == at::IntArrayRef({0, 4, 3}));
  result.sum().backward();
  const auto in = inputs(5, 4, 2, 3);
  for (const auto& starts : {integers({0, 4}), integers({1, 5}), integers({0, 3, 2, 5}), integers({})})
    CHECK_THROWS_AS(ops::causal_attention(in.query, in.key, in.value, starts), std::logic_error);
}

TEST_CASE("attention gives the same bits twice, with one thread and with several") {
  const auto in = inputs(301, 4, 2, 16, at::kFloat);
  const auto run = [&] {
    const auto result = ops::causal_attention(in.query, in.key, in.value, integers({0, 150, 301}));
    auto gradients = gradients_of(test::probe(result), in);
    return std::vector<at::Tensor>{result.detach(), gradients.query, gradients.key, gradients.value};
  };
  const auto threads = at::get_num_threads();
  const auto first = run(), second = run();
  at::set_num_threads(1);
  const auto third = run();
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(distance(first[i], second[i]) == 0);
    CHECK(distance(first[i], third[i]) == 0);
  }
}
