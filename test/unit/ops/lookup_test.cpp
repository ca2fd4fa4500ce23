// If this failed, tokens would get other tokens' embeddings, or the gradients of a repeated token would overwrite each
// other.
#include "ops/lookup.h"

#include "support/gradient_check.h"

using namespace tessera;
using test::BoundWeight;

TEST_CASE("a lookup gives the rows of the ids; a repeated id's gradients add up") {
  const auto ids = test::integers({3, 0, 3, 3, 6});
  BoundWeight weight(test::varied({7, 5}, 1));
  const auto rows = ops::lookup(ids, weight);
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(test::distance(rows.select(0, i), weight.value().select(0, ids[i].item<std::int64_t>())) == 0);
  test::check_gradients([&] { return test::probe(ops::lookup(ids, weight)); }, {}, {&weight});
}

TEST_CASE("no ids give no rows, and bfloat16 gradients are summed in float32") {
  BoundWeight weight(test::varied({7, 5}, 1, at::kBFloat16));
  CHECK(ops::lookup(test::integers({}), weight).sizes() == at::IntArrayRef({0, 5}));
  // 1 + 1/512 is no bfloat16: a sum in bfloat16 would lose the small part.
  const auto rows = ops::lookup(test::integers({2, 2}), weight);
  const auto d = at::full({2, 5}, 1.0, at::TensorOptions(at::kBFloat16));
  d.select(0, 1).fill_(1.0 / 512);
  rows.mul(d).sum().backward();
  CHECK(weight.gradient()[2][0].item<float>() == 1.0F + 1.0F / 512);
}

TEST_CASE("an id outside the rows is refused before memory is touched") {
  BoundWeight weight(test::varied({7, 5}, 1));
  CHECK_THROWS(ops::lookup(test::integers({7}), weight));
}

TEST_CASE("an embedding that was freed between forward and backward still receives its gradient") {
  BoundWeight weight(test::varied({7, 5}, 1));
  const auto loss = ops::lookup(test::integers({4, 1}), weight).sum();
  weight.free();
  loss.backward();
  CHECK(weight.gradient().sum().item<double>() == 10);
}
