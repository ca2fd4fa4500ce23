// If this failed, a GPU would choose other experts than the CPU, or send, sort or add rows differently.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <limits>
#include <vector>

#include "moe/expand.h"
#include "moe/pack.h"
#include "moe/router.h"
#include "moe/token_merge.h"
#include "support/catch.h"
#include "support/gradient_check.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test {
namespace {

using torch_double::to_device;

bool same(const at::Tensor& on_gpu, const at::Tensor& expected) {
  return on_gpu.sizes() == expected.sizes() && at::equal(on_gpu.cpu(), expected);
}

// [tokens, experts] with many equal probabilities, zeros, and a NaN.
at::Tensor probabilities(std::int64_t tokens, std::int64_t experts) {
  auto p = varied({tokens, experts}, 3, at::kFloat).mul(4).round().abs().div(8);
  if (tokens > 2) {
    p[1].zero_();
    p[2][experts - 1].fill_(std::numeric_limits<float>::quiet_NaN());
  }
  return p;
}

TEST_CASE("a GPU chooses the CPU's slots: ties go to the lower expert, a NaN comes last") {
  for (const std::int64_t tokens : {0, 1, 7, 61}) {
    for (const std::int64_t k : {1, 3, 5}) {
      CAPTURE(tokens, k);
      const auto p = probabilities(tokens, 5);
      const auto expected = moe::choose_top_k(p, k), found = moe::choose_top_k(to_device(p), k);
      CHECK(same(found.token, expected.token));
      CHECK(same(found.choice, expected.choice));
      CHECK(same(found.expert_count, expected.expert_count));
    }
  }
}

TEST_CASE("a GPU plans the CPU's rows for every number of owners, some without experts") {
  for (const auto& bounds :
       std::vector<std::vector<std::int64_t>>{{0, 5}, {0, 2, 5}, {0, 2, 2, 4, 5}, {0, 3, 5, 5}, {0, 0, 5, 5}}) {
    for (const std::int64_t tokens : {0, 1, 13}) {
      CAPTURE(bounds, tokens);
      const auto slots = moe::choose_top_k(probabilities(tokens, 5), 2);
      const moe::Slots there{to_device(slots.token), to_device(slots.choice), to_device(slots.expert_count)};
      const auto expected = moe::plan_send(slots, tokens, bounds);
      for (const auto routed : {moe::Routed::some_tokens, moe::Routed::every_token}) {
        const auto found = moe::plan_send(there, tokens, bounds, routed);
        CHECK(same(found.row_token, expected.row_token));
        CHECK(found.row_count.is_cpu());
        CHECK(at::equal(found.row_count, expected.row_count));
        CHECK(same(found.send_slot, expected.send_slot));
        if (bounds.size() > 2) CHECK(found.expert_count.is_cpu());
        CHECK(same(found.expert_count, slots.expert_count));
      }
    }
  }
}

TEST_CASE("a GPU orders received slots by expert as the CPU does") {
  const auto slot = integers({0, 2, 1, 0, 1, 0, 2, 1});  // of sources with 3, 0 and 3 rows
  const auto rows = integers({3, 0, 3}), counts = integers({2, 1, 0, 0, 1, 4}).view({3, 2});
  const auto expected = moe::order_by_expert(slot, rows, counts);
  const auto found = moe::order_by_expert(to_device(slot), rows, counts);
  CHECK(same(found.row, expected.row));
  CHECK(same(found.slot, expected.slot));
  CHECK(same(found.count, expected.count));

  const auto one = moe::order_by_expert(to_device(slot), integers({3}), to_device(integers({5, 3})).unsqueeze(0));
  CHECK_FALSE(one.slot.defined());
  CHECK(same(one.row, slot));
}

TEST_CASE("rows that a GPU merges are the CPU's, with gradients") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto residual = varied({5, 3}, 1, type), rows = varied({7, 3}, 2, type), d = varied({5, 3}, 4, type);
    const auto token = integers({0, 3, 4, 0, 1, 3, 4});
    const auto gradients = [&](const auto& place) {
      auto r = place(residual).requires_grad_(true), x = place(rows).requires_grad_(true);
      const auto merged = moe::merge(r, x, place(token));
      merged.backward(place(d));
      return at::cat({merged.detach().cpu(), r.grad().cpu(), x.grad().cpu()});
    };
    CHECK(at::equal(gradients(to_device), gradients([](const at::Tensor& t) { return t.clone(); })));
  }
}

TEST_CASE("rows that a GPU sends are the CPU's, with gradients, of tokens that are sent twice or never") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto normed = varied({6, 11}, 1, type), d = varied({7, 11}, 4, type);
    const auto token = integers({0, 3, 4, 0, 1, 3, 4});
    const auto sent = [&](const auto& place) {
      auto x = place(normed).requires_grad_(true);
      const auto rows = moe::send_rows(x, place(token));
      rows.backward(place(d));
      return at::cat({rows.detach().cpu(), x.grad().cpu()});
    };
    CHECK(at::equal(sent(to_device), sent([](const at::Tensor& t) { return t.clone(); })));
  }
}

}  // namespace
}  // namespace tessera::test
