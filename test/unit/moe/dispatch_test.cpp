// If this failed, rows would be sent twice, to the wrong owner, or matched to the wrong slots on arrival.
#include "moe/expand.h"
#include "moe/pack.h"

#include <ATen/ops/softmax.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::integers;
using test::varied;

namespace {

using List = std::vector<std::int64_t>;

List list(const at::Tensor& integers) {
  const auto* data = integers.const_data_ptr<std::int64_t>();
  return {data, data + integers.numel()};
}

}  // namespace

TEST_CASE("each token is sent once to each owner of at least one of its experts") {
  // 3 tokens, 4 experts: token 0 -> 0, 1; token 1 -> 1, 3; token 2 -> 2, 3. Owner 0 has experts 0 and 1, owner 1 the
  // others.
  const moe::Slots slots{integers({0, 0, 1, 2, 1, 2}), integers({0, 1, 5, 10, 7, 11}), integers({1, 2, 1, 2})};
  const auto plan = moe::plan_send(slots, 3, List{0, 2, 4});
  CHECK(list(plan.row_token) == List{0, 1, 1, 2});
  CHECK(list(plan.row_count) == List{2, 2});
  CHECK(list(plan.send_slot) == List{0, 0, 1, 1, 0, 1});
}

TEST_CASE("owners without experts and owners without slots get no rows") {
  const moe::Slots slots{integers({0, 1}), integers({0, 3}), integers({2, 0, 0})};
  const auto plan = moe::plan_send(slots, 2, List{0, 1, 1, 3, 3});
  CHECK(list(plan.row_count) == List{2, 0, 0, 0});
  CHECK(list(plan.row_token) == List{0, 1});
  CHECK_THROWS_AS(moe::plan_send(slots, 2, List{0, 4}), std::logic_error);
  CHECK_THROWS_AS(moe::plan_send(slots, 2, List{1, 3}), std::logic_error);
}

TEST_CASE("one owner of all experts gets all tokens in order, without a copy; a token without slots is not sent") {
  const auto slots = moe::choose_top_k(varied({7, 3}, 1), 2);
  const auto plan = moe::plan_send(slots, 7, List{0, 3});
  const auto normed = varied({7, 5}, 2);
  CHECK(moe::send_rows(normed, plan.row_token).data_ptr() == normed.data_ptr());
  CHECK(list(plan.send_slot) == list(slots.token));
  const moe::Slots dropped{integers({0, 2}), integers({0, 6}), integers({2, 0, 0})};
  const auto fewer = moe::plan_send(dropped, 3, List{0, 3});
  CHECK(list(fewer.row_token) == List{0, 2});
  CHECK(list(fewer.send_slot) == List{0, 1});
}

TEST_CASE("a row that is sent to two owners gets the gradients of both") {
  auto normed = varied({3, 5}, 2);
  const auto row_token = integers({0, 1, 1, 2});
  test::check_gradients([&] { return test::probe(moe::send_rows(normed, row_token)); }, {normed}, {});
  test::check_gradients([&] { return test::probe(moe::send_rows(normed, integers({0, 1, 2}))); }, {normed}, {});
}

TEST_CASE("slots of several sources are ordered by local expert, then source") {
  // Source 0: 2 rows; expert 0 slots rows 0, 1; expert 1 slot row 1. Source 1: nothing. Source 2: 3 rows; expert 1 rows
  // 0, 2.
  const auto order =
      moe::order_by_expert(integers({0, 1, 1, 0, 2}), integers({2, 0, 3}), integers({2, 1, 0, 0, 0, 2}).view({3, 2}));
  CHECK(list(order.count) == List{2, 3});
  CHECK(list(order.row) == List{0, 1, 1, 2, 4});
  CHECK(list(order.slot) == List{0, 1, 2, 3, 4});
  const auto mixed =
      moe::order_by_expert(integers({0, 1, 0, 1}), integers({2, 2}), integers({1, 1, 1, 1}).view({2, 2}));
  CHECK(list(mixed.row) == List{0, 2, 1, 3});
  CHECK(list(mixed.slot) == List{0, 2, 1, 3});
}

TEST_CASE("slots of one source are in expert order already") {
  const auto order = moe::order_by_expert(integers({0, 1, 1}), integers({2}), integers({2, 0, 1}).view({1, 3}));
  CHECK_FALSE(order.slot.defined());
  CHECK(list(order.row) == List{0, 1, 1});
  CHECK(list(order.count) == List{2, 0, 1});
}

TEST_CASE("counts that do not add up and rows that were not sent are refused") {
  CHECK_THROWS_AS(moe::order_by_expert(integers({0, 1}), integers({2}), integers({2, 1}).view({1, 2})),
                  std::logic_error);
  CHECK_THROWS_AS(moe::order_by_expert(integers({0, 2}), integers({2}), integers({1, 1}).view({1, 2})),
                  std::logic_error);
  CHECK_THROWS_AS(moe::order_by_expert(integers({0, -1}), integers({2}), integers({1, 1}).view({1, 2})),
                  std::logic_error);
  CHECK_THROWS_AS(moe::order_by_expert(integers({0, 1}), integers({2}), integers({3, -1}).view({1, 2})),
                  std::logic_error);
}

TEST_CASE("nothing sent and nothing received is fine") {
  const moe::Slots none{integers({}), integers({}), integers({0, 0})};
  const auto plan = moe::plan_send(none, 0, List{0, 1, 2});
  CHECK(plan.row_token.numel() == 0);
  CHECK(list(plan.row_count) == List{0, 0});
  const auto order =
      moe::order_by_expert(integers({}), integers({0, 0}), at::zeros({2, 3}, at::TensorOptions(at::kLong)));
  CHECK(list(order.count) == List{0, 0, 0});
}
