// If this failed, the model would see tokens, labels or borders of one sequence in another.
#include "data/batch.h"

#include "support/catch.h"

using namespace tessera;
using Ids = std::vector<std::int64_t>;

namespace {

Ids values(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

}  // namespace

TEST_CASE("windows are laid end to end with their borders moved") {
  const data::Window a{{1, 2, 3}, {2, 3, -100}, {0, 1, 0}, {0, 2, 3}, 2};
  const data::Window b{{4, 5}, {5, 6}, {0, 1}, {0, 2}, 2};
  const data::Batch batch = data::make_batch(std::vector<data::Window>{a, b});
  CHECK(values(batch.ids) == Ids{1, 2, 3, 4, 5});
  CHECK(values(batch.labels) == Ids{2, 3, -100, 5, 6});
  CHECK(values(batch.positions) == Ids{0, 1, 0, 0, 1});
  CHECK(batch.attention_starts == Ids{0, 2, 3, 5});
  CHECK(batch.sequence_starts == Ids{0, 3, 5});
  CHECK(batch.valid_tokens == 4);
  CHECK(batch.tokens() == 5);
  CHECK(batch.sequences() == 2);
  CHECK(batch.ids.scalar_type() == at::kLong);
}

TEST_CASE("no window gives a batch of zero tokens") {
  const data::Batch batch = data::make_batch({});
  CHECK(batch.ids.numel() == 0);
  CHECK(batch.ids.dim() == 1);
  CHECK(batch.attention_starts == Ids{0});
  CHECK(batch.sequence_starts == Ids{0});
  CHECK(batch.sequences() == 0);
  CHECK(batch.valid_tokens == 0);
}
