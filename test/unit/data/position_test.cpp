// If these fail, steps mix two epochs, windows are lost at an epoch's end, or a resumed run continues elsewhere.
#include "data/position.h"

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using data::Position;

TEST_CASE("10 windows in global batches of 4 are steps of 4, 4 and 2") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({31})));
  const data::Dataset dataset(test::dataset_options(path, 3, config::Documents::joined));
  REQUIRE(dataset.windows(0) == 10);
  CHECK(data::steps_in_epoch(dataset, 0, 4) == 3);
  CHECK(data::steps_in_epoch(dataset, 0, 5) == 2);
  CHECK(data::steps_in_epoch(dataset, 0, 100) == 1);
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
