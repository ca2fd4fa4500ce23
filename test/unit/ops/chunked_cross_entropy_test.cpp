// If this failed, the loss or its gradient would be that of other tokens, or of a part of them.
#include "ops/chunked_cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "support/about.h"
#include "support/gradient_check.h"

using namespace tessera;
using test::BoundWeight;
using test::distance;
using test::integers;
using test::varied;

namespace {

at::Tensor reference(const at::Tensor& hidden, const at::Tensor& labels, const at::Tensor& head) {
  return at::cross_entropy_loss(at::matmul(hidden, head.t()), labels, {}, at::Reduction::Sum);
}

void check_against_reference(const std::vector<std::int64_t>& labels, std::int64_t chunk) {
  const auto tokens = static_cast<std::int64_t>(labels.size());
  auto hidden = varied({tokens, 5}, 1).mul_(3).set_requires_grad(true);
  BoundWeight head(varied({11, 5}, 2));
  const double scale = 0.37;
  const auto result = ops::chunked_cross_entropy(hidden, integers(labels), head, scale, chunk);
  auto plain_hidden = hidden.detach().clone().set_requires_grad(true);
  auto plain_head = head.value().clone().set_requires_grad(true);
  const auto expected = reference(plain_hidden, integers(labels), plain_head);
  CHECK(result.sum.item<double>() == test::about(expected.item<double>()).epsilon(1e-13));
  CHECK(result.loss.item<double>() == test::about(scale * expected.item<double>()).epsilon(1e-13));
  result.loss.backward();
  expected.mul(scale).backward();
  CHECK(distance(hidden.grad(), plain_hidden.grad()) < 1e-13);
  CHECK(distance(head.gradient(), plain_head.grad()) < 1e-13);
}

}  // namespace

TEST_CASE("loss and gradients equal those of whole logits, for chunks that divide the tokens and for others") {
  const std::vector<std::int64_t> labels{3, 0, 10, 10, 1, 7, 2};
  for (const std::int64_t chunk : {1, 3, 7, 100}) check_against_reference(labels, chunk);
}

TEST_CASE("labels of -100 count in nothing, wherever they stand") {
  for (const std::int64_t chunk : {1, 2, 3, 100}) {
    check_against_reference({-100, 0, 10, -100, 1, 7, -100}, chunk);
    check_against_reference({-100, -100, -100, 4, 5, 6, 7}, chunk);
  }
}

TEST_CASE("no target at all, or no tokens, gives a loss of zero and zero gradients") {
  for (const auto& labels : {std::vector<std::int64_t>{-100, -100}, std::vector<std::int64_t>{}}) {
    auto hidden = varied({static_cast<std::int64_t>(labels.size()), 5}, 1).set_requires_grad(true);
    BoundWeight head(varied({11, 5}, 2));
    const auto result = ops::chunked_cross_entropy(hidden, integers(labels), head, 1);
    CHECK(result.sum.item<double>() == 0);
    result.loss.backward();
    CHECK(hidden.grad().sizes() == hidden.sizes());
    CHECK(hidden.grad().abs().sum().item<double>() == 0);
    CHECK(head.gradient().abs().max().item<double>() == 0);
  }
}

TEST_CASE("without autograd only the loss is formed") {
  const at::NoGradGuard no_graph;
  BoundWeight head(varied({11, 5}, 2));
  const auto hidden = varied({3, 5}, 1);
  const auto result = ops::chunked_cross_entropy(hidden, integers({1, 2, 3}), head, 1);
  CHECK_FALSE(result.loss.requires_grad());
  CHECK(head.gradient().abs().max().item<double>() == 0);
  CHECK(result.sum.item<double>() ==
        test::about(reference(hidden, integers({1, 2, 3}), head.value()).item<double>()).epsilon(1e-13));
}

TEST_CASE("an incoming gradient other than 1 is refused, because the head's gradient is already added") {
  auto hidden = varied({3, 5}, 1).set_requires_grad(true);
  BoundWeight head(varied({11, 5}, 2));
  CHECK_THROWS(ops::chunked_cross_entropy(hidden, integers({1, 2, 3}), head, 1).loss.mul(2).backward());
}

TEST_CASE("a label outside the vocabulary is refused") {
  BoundWeight head(varied({11, 5}, 2));
  for (const std::int64_t label : {11, -1, -99})
    CHECK_THROWS_AS(ops::chunked_cross_entropy(varied({1, 5}, 1), integers({label}), head, 1), std::logic_error);
}

TEST_CASE("the head may be freed before backward") {
  auto hidden = varied({3, 5}, 1).set_requires_grad(true);
  BoundWeight head(varied({11, 5}, 2));
  const auto result = ops::chunked_cross_entropy(hidden, integers({1, 2, 3}), head, 1);
  head.free();
  result.loss.backward();
  CHECK(std::isfinite(hidden.grad().sum().item<double>()));
}

TEST_CASE("float32 and bfloat16 follow float64, with a vocabulary of more than one block of sums") {
  const std::int64_t tokens = 7, width = 13, vocabulary = 4099;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    auto hidden = varied({tokens, width}, 1, type).set_requires_grad(true);
    BoundWeight head(varied({vocabulary, width}, 2, type));
    const auto labels = integers({0, 4098, -100, 17, 2048, 2047, 5});
    const auto result = ops::chunked_cross_entropy(hidden, labels, head, 0.5, 3);
    auto exact_hidden = hidden.detach().to(at::kDouble).set_requires_grad(true);
    auto exact_head = head.value().to(at::kDouble).set_requires_grad(true);
    const auto exact = reference(exact_hidden, labels, exact_head);
    CHECK(result.loss.scalar_type() == at::kFloat);
    CHECK(result.sum.item<double>() == test::about(exact.item<double>()).epsilon(1e-6));
    result.loss.backward();
    exact.mul(0.5).backward();
    CHECK(distance(head.gradient(), exact_head.grad()) < 1e-6);
    // Each element is a sum over the vocabulary, whose order follows the processor: its rounding grows with the root of
    // the number of terms.
    const double of_sums = std::sqrt(static_cast<double>(vocabulary)) * 0x1p-24;
    CHECK(test::relative_distance(hidden.grad(), exact_hidden.grad()) < (type == at::kFloat ? of_sums : 0x1p-8));
  }
}
