// If this failed, a step would mix two epochs, windows would be lost at an epoch's end, or a resumed run would continue
// at the wrong place.
#include "data/position.h"

#include <limits>

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using data::Position;

namespace {
constexpr auto most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t many_epochs = (std::int64_t{1} << 31) - 1;
}  // namespace

TEST_CASE("10 windows in global batches of 4 are steps of 4, 4 and 2") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({31})));
  const data::Dataset dataset(test::dataset_options(path, 3, config::Documents::joined));
  REQUIRE(dataset.windows(0) == 10);
  CHECK(data::steps_until(dataset, {}, 1, 4, most) == 3);
  CHECK(data::steps_until(dataset, {}, 1, 5, most) == 2);
  CHECK(data::steps_until(dataset, {}, 1, 100, most) == 1);
  Position at;
  std::vector<std::int64_t> counts;
  for (int step = 0; step < 6; ++step) {
    const data::StepWindows windows = data::step_at(dataset, at, 4);
    CHECK(windows.begin == at);
    counts.push_back(windows.count);
    at = windows.next;
  }
  CHECK(counts == std::vector<std::int64_t>{4, 4, 2, 4, 4, 2});
  CHECK(at == Position{2, 0});
  CHECK(data::step_at(dataset, {0, 6}, 4).next == Position{1, 0});
}

TEST_CASE("a position that does not exist in the data is refused") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({31})));
  const data::Dataset dataset(test::dataset_options(path, 3, config::Documents::joined));
  CHECK_THAT(test::error_of([&] { (void)data::step_at(dataset, {0, 10}, 4); }), ContainsSubstring("has 10 windows"));
  CHECK_THAT(test::error_of([&] { (void)data::step_at(dataset, {0, -1}, 4); }), ContainsSubstring("window -1"));
  CHECK_THAT(test::error_of([&] { (void)data::step_at(dataset, {-1, 0}, 4); }), ContainsSubstring("epoch -1"));
}

TEST_CASE("epochs that all have as many steps are not looked at one by one") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({31, 4, 5})));
  const data::Dataset joined(test::dataset_options(path, 3, config::Documents::joined));
  const auto windows = joined.windows(0);
  CHECK(data::steps_until(joined, {}, many_epochs, 1, most) == many_epochs * windows);
  CHECK(data::steps_until(joined, {5, 2}, many_epochs, 1, most) == (many_epochs - 5) * windows - 2);
  CHECK(data::steps_until(joined, {5, 2}, many_epochs, 1, 1000) == 1000);
  CHECK(data::steps_until(joined, {5, 2}, 5, 1, most) == 0);
  // Packed documents: as many windows in no two orders, but one step each; or more steps than are asked for.
  const data::Dataset separate(test::dataset_options(path, 8, config::Documents::separate));
  CHECK(data::steps_until(separate, {}, many_epochs, 1000, most) == many_epochs);
  CHECK(data::steps_until(separate, {}, many_epochs, 1, 1'000'000'000) == 1'000'000'000);
}

TEST_CASE("the steps of packed epochs are those of their windows") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({7, 2, 5, 1, 9, 3, 4, 4, 6, 2, 8})));
  const data::Dataset dataset(test::dataset_options(path, 8, config::Documents::separate));
  const auto [least, greatest] = dataset.window_bounds();
  std::int64_t steps = 0, fewest = most, highest = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto windows = dataset.windows(epoch);
    steps += (windows + 1) / 2;
    fewest = std::min(fewest, windows);
    highest = std::max(highest, windows);
    CHECK(data::steps_until(dataset, {}, epoch + 1, 2, most) == steps);
  }
  CHECK(fewest < highest);  // else nothing was counted
  CHECK(least <= fewest);
  CHECK(highest <= greatest);
  CHECK(data::steps_until(dataset, {0, 3}, 200, 2, most) ==
        steps - (dataset.windows(0) + 1) / 2 + (dataset.windows(0) - 2) / 2);
}
