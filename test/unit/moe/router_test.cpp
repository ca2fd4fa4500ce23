// If this failed, tokens would go to other experts than the most probable ones, or the router would learn from wrong
// gradients.
#include "moe/router.h"

#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <set>

#include "support/about.h"
#include "support/gradient_check.h"

using namespace tessera;
using moe::Renormalise;
using test::BoundWeight;
using test::distance;
using test::integers;
using test::varied;

namespace {

at::Tensor rows_of(const std::vector<std::vector<double>>& rows) {
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return at::tensor(flat, at::TensorOptions(at::kDouble))
      .view({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
}

std::vector<std::int64_t> integers_in(const at::Tensor& integers) {
  const auto* data = integers.const_data_ptr<std::int64_t>();
  return {data, data + integers.numel()};
}

using List = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("slots are sorted by expert, then token, and hold each token's k most probable experts") {
  const auto slots = moe::choose_top_k(rows_of({{.1, .6, .3}, {.5, .2, .3}, {.2, .3, .5}}), 2);
  CHECK(integers_in(slots.expert_count) == List{1, 2, 3});
  CHECK(integers_in(slots.token) == List{1, 0, 2, 0, 1, 2});
  CHECK(integers_in(slots.choice) == List{3, 1, 7, 2, 5, 8});
}

TEST_CASE("of equal probabilities the lower expert is chosen") {
  CHECK(integers_in(moe::choose_top_k(rows_of({{.25, .25, .25, .25}}), 2).expert_count) == List{1, 1, 0, 0});
  CHECK(integers_in(moe::choose_top_k(rows_of({{.1, .3, .3, .3}}), 2).expert_count) == List{0, 1, 1, 0});
}

TEST_CASE("every expert is chosen if k is their number, and one expert is fine") {
  CHECK(integers_in(moe::choose_top_k(varied({7, 3}, 1), 3).expert_count) == List{7, 7, 7});
  CHECK(integers_in(moe::choose_top_k(varied({7, 1}, 1), 1).expert_count) == List{7});
  CHECK_THROWS_AS(moe::choose_top_k(varied({7, 3}, 1), 4), std::logic_error);
  CHECK_THROWS_AS(moe::choose_top_k(varied({7, 3}, 1), 0), std::logic_error);
}

TEST_CASE("no tokens have no slots") {
  const auto slots = moe::choose_top_k(varied({0, 3}, 1), 2);
  CHECK(integers_in(slots.expert_count) == List{0, 0, 0});
  CHECK(slots.token.numel() == 0);
  CHECK(moe::slot_weight(varied({0, 3}, 1), slots, Renormalise::over_own_slots).numel() == 0);
}

TEST_CASE("NaN probabilities give legal slots, as many as ever (MOE-6)") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto slots =
      moe::choose_top_k(rows_of({{nan, nan, nan}, {.2, nan, .1}, {nan, .3, nan}, {-infinity, nan, infinity}}), 2);
  REQUIRE(slots.token.numel() == 8);
  std::set<std::int64_t> distinct;
  for (std::int64_t s = 0; s < 8; ++s) {
    const auto choice = integers_in(slots.choice)[static_cast<std::size_t>(s)];
    CHECK(choice >= 0);
    CHECK(choice < 12);
    CHECK(choice / 3 == integers_in(slots.token)[static_cast<std::size_t>(s)]);
    distinct.insert(choice);
  }
  CHECK(distinct.size() == 8);
  CHECK(slots.expert_count.sum().item<std::int64_t>() == 8);
  CHECK(integers_in(moe::choose_top_k(rows_of({{.2, nan, .1}}), 2).expert_count) == List{1, 0, 1});
}

TEST_CASE("probabilities and log-sum-exp follow the logits, with gradients by central differences") {
  auto normed = varied({7, 5}, 1);
  BoundWeight router(varied({3, 5}, 2));
  const auto output = moe::route(normed, router);
  const auto logits = at::matmul(normed, router.value().t());
  CHECK(distance(output.probability, at::softmax(logits, 1)) < 1e-15);
  CHECK(distance(output.logsumexp, at::logsumexp(logits, {1})) < 1e-15);
  const auto loss = [&] {
    const auto o = moe::route(normed, router);
    return test::probe(o.probability, 4).add(test::probe(o.logsumexp, 5));
  };
  test::check_gradients(loss, {normed}, {&router});
}

TEST_CASE("a bfloat16 router's logits are formed in float32") {
  BoundWeight router(varied({3, 513}, 2, at::kBFloat16));
  const auto normed = varied({7, 513}, 1, at::kBFloat16);
  const auto output = moe::route(normed, router);
  CHECK(output.probability.scalar_type() == at::kFloat);
  const auto exact = at::softmax(at::matmul(normed.to(at::kDouble), router.value().to(at::kDouble).t()), 1);
  CHECK(distance(output.probability, exact) < 1e-5);
}

TEST_CASE("slot weights are the probabilities, or these divided by their sum over the token's slots") {
  auto probability = at::softmax(varied({7, 5}, 1).mul(2), 1).contiguous();
  const auto slots = moe::choose_top_k(probability, 3);
  const auto plain = moe::slot_weight(probability, slots, Renormalise::no);
  const auto scaled = moe::slot_weight(probability, slots, Renormalise::over_own_slots);
  for (std::int64_t s = 0; s < plain.numel(); ++s) {
    const auto token = slots.token[s].item<std::int64_t>();
    CHECK(plain[s].item<double>() == probability.view({-1})[slots.choice[s]].item<double>());
    const double sum = std::get<0>(probability[token].topk(3)).sum().item<double>();
    CHECK(scaled[s].item<double>() == test::about(plain[s].item<double>() / sum).epsilon(1e-14));
  }
  for (const auto renormalise : {Renormalise::no, Renormalise::over_own_slots})
    test::check_gradients([&] { return test::probe(moe::slot_weight(probability, slots, renormalise)); }, {probability},
                          {});
}

TEST_CASE("slot weights work for tokens with any number of slots") {
  auto probability = at::softmax(varied({4, 3}, 1), 1).contiguous();
  // Token 0 has two slots, token 1 none, token 2 one, token 3 three.
  const moe::Slots slots{integers({0, 3, 2, 3, 0, 3}), integers({0, 9, 7, 10, 2, 11}), integers({2, 2, 2})};
  const auto weight = moe::slot_weight(probability, slots, Renormalise::over_own_slots);
  CHECK(weight[2].item<double>() == 1);
  CHECK(weight[1].add(weight[3]).add(weight[5]).item<double>() == test::about(1).epsilon(1e-14));
  test::check_gradients([&] { return test::probe(moe::slot_weight(probability, slots, Renormalise::over_own_slots)); },
                        {probability}, {});
}

TEST_CASE("one renormalised slot per token weighs 1 and gives the router no gradient at all (MOE-5)") {
  auto normed = varied({7, 5}, 1);
  BoundWeight router(varied({3, 5}, 2));
  const auto output = moe::route(normed, router);
  const auto slots = moe::choose_top_k(output.probability, 1);
  const auto weight = moe::slot_weight(output.probability, slots, Renormalise::over_own_slots);
  CHECK(distance(weight, at::full({7}, 1.0, at::TensorOptions(at::kDouble))) == 0);
  test::probe(weight).backward();
  CHECK(router.gradient().abs().max().item<double>() == 0);
}

TEST_CASE("statistics are counted per set, empty sets too, with gradients by central differences") {
  auto normed = varied({7, 5}, 1);
  BoundWeight router(varied({3, 5}, 2));
  const auto starts = integers({0, 4, 4, 7});
  const auto output = moe::route(normed, router);
  const auto slots = moe::choose_top_k(output.probability, 2);
  const auto statistics = moe::router_statistics(output, slots, starts);
  CHECK(distance(statistics.probability[0], output.probability.narrow(0, 0, 4).sum(0)) < 1e-15);
  CHECK(statistics.probability[1].abs().max().item<double>() == 0);
  CHECK(distance(statistics.probability[2], output.probability.narrow(0, 4, 3).sum(0)) < 1e-15);
  CHECK(integers_in(statistics.count.sum(1)) == List{8, 0, 6});
  CHECK(integers_in(statistics.count.sum(0)) == integers_in(slots.expert_count));
  CHECK(statistics.z.item<double>() == test::about(output.logsumexp.pow(2).sum().item<double>()).epsilon(1e-14));
  const auto loss = [&] {
    const auto s = moe::router_statistics(moe::route(normed, router), slots, starts);
    return test::probe(s.probability, 3).add(s.z.mul(0.3));
  };
  test::check_gradients(loss, {normed}, {&router});
}

TEST_CASE("sets that do not cover the tokens are refused") {
  const auto probability = at::softmax(varied({7, 3}, 1), 1);
  const auto slots = moe::choose_top_k(probability, 2);
  CHECK_THROWS_AS(moe::router_statistics({probability, probability.select(1, 0)}, slots, integers({0, 6})),
                  std::logic_error);
}
