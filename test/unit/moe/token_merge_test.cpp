// If this failed, the results of experts would be added to the wrong tokens.
#include "moe/token_merge.h"

#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::integers;
using test::varied;

TEST_CASE("each token gets its rows added to its residual, none if it has none") {
  auto residual = varied({4, 3}, 1), rows = varied({5, 3}, 2);
  const auto token = integers({0, 1, 3, 1, 3});
  const auto result = moe::merge(residual, rows, token);
  CHECK(distance(result[0], residual[0].add(rows[0])) == 0);
  CHECK(distance(result[1], residual[1].add(rows[1]).add(rows[3])) == 0);
  CHECK(distance(result[2], residual[2]) == 0);
  test::check_gradients([&] { return test::probe(moe::merge(residual, rows, token)); }, {residual, rows}, {});
}

TEST_CASE("one row for each token in order is a plain sum, and leaves the residual as it was") {
  auto residual = varied({4, 3}, 1), rows = varied({4, 3}, 2);
  const auto kept = residual.clone();
  const auto result = moe::merge(residual, rows, integers({0, 1, 2, 3}));
  CHECK(distance(result, residual.add(rows)) == 0);
  CHECK(distance(residual, kept) == 0);
  test::check_gradients(
      [&] {
        return test::probe(moe::merge(residual, rows, integers({0, 1, 2, 3})));
      },
      {residual, rows}, {});
  static_cast<void>(moe::merge(residual.detach(), rows.detach(), integers({3, 2, 1, 0})));
  CHECK(distance(residual, kept) == 0);
}

TEST_CASE("no tokens, no rows") {
  CHECK(moe::merge(varied({0, 3}, 1), varied({0, 3}, 2), integers({})).sizes() == at::IntArrayRef({0, 3}));
  CHECK(distance(moe::merge(varied({2, 3}, 1), varied({0, 3}, 2), integers({})), varied({2, 3}, 1)) == 0);
}

TEST_CASE("bfloat16 rows of one token are summed in float32") {
  const auto ones = [](std::int64_t n) { return at::full({n, 1}, 1.0, at::TensorOptions(at::kBFloat16)); };
  // 256 + 1 is 256 in bfloat16, so a sum in bfloat16 would stay there.
  const auto token = at::zeros({300}, at::TensorOptions(at::kLong));
  CHECK(moe::merge(ones(1).mul(212), ones(300), token).item<float>() == 512.F);
}
