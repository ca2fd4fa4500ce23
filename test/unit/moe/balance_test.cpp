// If this failed, the balance coefficient would multiply another quantity than HuggingFace's.
#include "moe/balance.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "moe/router.h"
#include "support/about.h"
#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::integers;
using test::varied;

namespace {

at::Tensor doubles(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::TensorOptions(at::kDouble)).view(shape);
}

// Router statistics of random logits, [sets, experts] per layer, and counts [layers, sets, experts].
struct Statistics {
  std::vector<at::Tensor> probability;
  at::Tensor count;
};

Statistics statistics(std::int64_t layers, const std::vector<std::int64_t>& starts, std::int64_t experts,
                      std::int64_t k) {
  Statistics result;
  std::vector<at::Tensor> counts;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto probability = at::softmax(varied({starts.back(), experts}, layer + 1).mul(3), 1);
    const auto s = moe::router_statistics({probability, probability.select(1, 0)}, moe::choose_top_k(probability, k),
                                          integers(starts));
    result.probability.push_back(s.probability.contiguous());
    counts.push_back(s.count);
  }
  result.count = at::stack(counts);
  return result;
}

}  // namespace

TEST_CASE("two certain layers that favour different experts: pooled 1, per layer 2 (MOE-3 a)") {
  const std::vector<at::Tensor> probability{doubles({10, 0}, {1, 2}), doubles({0, 10}, {1, 2})};
  const auto count = integers({10, 0, 0, 10}).view({2, 1, 2});
  CHECK(moe::pooled_balance(probability, count, 10).item<double>() == test::about(1.0).epsilon(1e-14));
  CHECK(moe::per_layer_balance(probability, count, 10).item<double>() == test::about(2.0).epsilon(1e-14));
}

TEST_CASE("a uniform router with 4 experts and top-2 gives 2 (MOE-3 b)") {
  const std::vector<at::Tensor> probability{doubles({2.5, 2.5, 2.5, 2.5}, {1, 4})};
  const auto count = integers({5, 5, 5, 5}).view({1, 1, 4});
  CHECK(moe::pooled_balance(probability, count, 10).item<double>() == test::about(2.0).epsilon(1e-14));
  CHECK(moe::per_layer_balance(probability, count, 10).item<double>() == test::about(2.0).epsilon(1e-14));
  CHECK(moe::sequence_balance(probability, count, integers({0, 10})).item<double>() == test::about(2.0).epsilon(1e-14));
}

TEST_CASE("shares of ranks add up to the loss of all tokens") {
  const auto all = statistics(3, {0, 13}, 5, 2);
  // Two ranks with 6 and 7 of the 13 tokens; counts are those of both.
  double sum = 0;
  for (const auto& [first, end] : {std::pair<std::int64_t, std::int64_t>{0, 6}, {6, 13}}) {
    std::vector<at::Tensor> local;
    for (std::int64_t layer = 0; layer < 3; ++layer)
      local.push_back(at::softmax(varied({13, 5}, layer + 1).mul(3), 1).narrow(0, first, end - first).sum(0, true));
    sum += moe::pooled_balance(local, all.count, 13).item<double>();
  }
  CHECK(sum == test::about(moe::pooled_balance(all.probability, all.count, 13).item<double>()).epsilon(1e-13));
}

TEST_CASE("the sequence form is the pooled form of each sequence alone, summed; one without tokens gives nothing") {
  const auto s = statistics(2, {0, 6, 6, 13}, 5, 2);
  const auto one = [&](std::int64_t set, double tokens) {
    std::vector<at::Tensor> probability;
    for (const auto& p : s.probability) probability.push_back(p.narrow(0, set, 1));
    return moe::pooled_balance(probability, s.count.narrow(1, set, 1), tokens).item<double>();
  };
  CHECK(moe::sequence_balance(s.probability, s.count, integers({0, 6, 6, 13})).item<double>() ==
        test::about(one(0, 6) + one(2, 7)).epsilon(1e-13));
}

TEST_CASE("per layer is the mean of the pooled form of each layer") {
  const auto s = statistics(3, {0, 13}, 5, 2);
  double sum = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    sum += moe::pooled_balance({s.probability[static_cast<std::size_t>(layer)]}, s.count.narrow(0, layer, 1), 13)
               .item<double>();
  CHECK(moe::per_layer_balance(s.probability, s.count, 13).item<double>() == test::about(sum / 3).epsilon(1e-13));
}

TEST_CASE("balance losses have gradients by central differences, and no tokens give zero") {
  const auto s = statistics(2, {0, 6, 13}, 5, 2);
  test::check_gradients([&] { return moe::pooled_balance(s.probability, s.count, 13); }, s.probability, {});
  test::check_gradients([&] { return moe::per_layer_balance(s.probability, s.count, 13); }, s.probability, {});
  test::check_gradients(
      [&] {
        return moe::sequence_balance(s.probability, s.count, integers({0, 6, 13}));
      },
      s.probability, {});
  const std::vector<at::Tensor> none{doubles({0, 0}, {1, 2})};
  const auto no_count = integers({0, 0}).view({1, 1, 2});
  CHECK(moe::pooled_balance(none, no_count, 0).item<double>() == 0);
  CHECK(moe::per_layer_balance(none, no_count, 0).item<double>() == 0);
  CHECK(moe::sequence_balance(none, no_count, integers({0, 0})).item<double>() == 0);
}

TEST_CASE("the z-loss is the sum over layers") {
  CHECK(moe::router_z_loss({doubles({3}, {}), doubles({4}, {})}).item<double>() == 7);
}
