// If this failed, ranks would train on the wrong share of a batch, an error in the data would be lost, or a run would
// not end.
#include "data/loader.h"

#include <algorithm>
#include <set>

#include "corpus_files.h"
#include "layout/share.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using data::Loader;
using data::LoaderOptions;
using data::Position;

namespace {

// 10 windows of 3 tokens.
struct Fixture {
  test::TempFolder folder;
  data::Dataset dataset{
      test::dataset_options(folder.write("d.jsonl", test::jsonl(test::numbered({31}))), 3, config::Documents::joined)};
};

LoaderOptions options_of(std::int64_t global_batch, std::int64_t micro, std::int64_t ranks, std::int64_t rank) {
  LoaderOptions options;
  options.global_batch = global_batch;
  options.shares = [=](std::int64_t windows) { return layout::sequences_of_rank(windows, micro, ranks, rank); };
  return options;
}

std::vector<std::int64_t> ids_of(const data::LoadedStep& step) {
  std::vector<std::int64_t> ids;
  for (const data::Batch& batch : step.batches) {
    const auto* const data = batch.ids.const_data_ptr<std::int64_t>();
    ids.insert(ids.end(), data, data + batch.ids.numel());
  }
  return ids;
}

}  // namespace

TEST_CASE("the ranks' shares together are the windows of the step, each once, for any number of ranks") {
  const Fixture fixture;
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
    for (std::int64_t micro = 1; micro <= 3; ++micro)
      for (const std::int64_t global : {1, 4, 7, 10, 13}) {
        std::vector<std::unique_ptr<Loader>> loaders;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          LoaderOptions options = options_of(global, micro, ranks, rank);
          options.end_epoch = 2;
          loaders.push_back(std::make_unique<Loader>(fixture.dataset, options));
        }
        Position at;
        while (at.epoch < 2) {
          const data::StepWindows expected = data::step_at(fixture.dataset, at, global);
          std::multiset<std::int64_t> want, got;
          for (std::int64_t i = 0; i < expected.count; ++i) {
            const auto ids = fixture.dataset.window(at.epoch, at.index + i).ids;
            want.insert(ids.begin(), ids.end());
          }
          for (const auto& loader : loaders) {
            const auto step = loader->next();
            REQUIRE(step.has_value());
            CHECK(step->windows.begin == at);
            CHECK(static_cast<std::int64_t>(step->batches.size()) == layout::micro_steps(expected.count, micro, ranks));
            const auto ids = ids_of(*step);
            got.insert(ids.begin(), ids.end());
          }
          CHECK(got == want);
          at = expected.next;
        }
        for (const auto& loader : loaders) CHECK_FALSE(loader->next().has_value());
      }
}

TEST_CASE("the position moves only when a step is taken, and a loader that starts there continues the same") {
  const Fixture fixture;
  Loader whole(fixture.dataset, options_of(4, 1, 1, 0));
  CHECK(whole.position() == Position{0, 0});
  for (int taken = 0; taken < 8; ++taken) {
    LoaderOptions options = options_of(4, 2, 1, 0);  // another micro-batch size: the same steps
    options.start = whole.position();
    Loader resumed(fixture.dataset, options);
    CHECK(resumed.position() == whole.position());
    const auto a = whole.next(), b = resumed.next();
    REQUIRE((a && b));
    CHECK(ids_of(*a) == ids_of(*b));
    CHECK(whole.position() == a->windows.next);
  }
}

TEST_CASE("an error of the data comes out of next after the steps before it, and stays") {
  const test::TempFolder folder;
  test::Documents documents = test::numbered({31});
  documents[0][17] = 1000;  // in the sixth window, numbered 5
  data::DatasetOptions options =
      test::dataset_options(test::write_pair<std::int32_t>(folder, "t", documents, 4), 3, config::Documents::joined);
  options.order = data::Order::file;
  options.corpus.vocabulary = 100;
  const data::Dataset dataset(options);
  Loader loader(dataset, options_of(2, 1, 1, 0));
  CHECK(loader.next().has_value());
  CHECK(loader.next().has_value());
  for (int i = 0; i < 2; ++i)
    CHECK_THAT(test::error_of([&] { (void)loader.next(); }), ContainsSubstring("token 17: id 1000"));
  CHECK(loader.position() == Position{0, 4});
}

TEST_CASE("a loader that nobody reads from stops when it is destroyed") {
  const Fixture fixture;
  for (int i = 0; i < 50; ++i) {
    LoaderOptions options = options_of(1 + i % 3, 1, 1, 0);
    options.steps_ahead = 1 + i % 4;
    Loader loader(fixture.dataset, options);
    if (i % 2 == 0) CHECK(loader.next().has_value());
  }
}

TEST_CASE("loader and other threads may read one dataset at a time") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered(std::vector<int>(53, 7))));
  const data::Dataset dataset(test::dataset_options(path, 5, config::Documents::separate));
  Loader loader(dataset, options_of(3, 1, 1, 0));
  for (int step = 0; step < 100; ++step) {
    const auto loaded = loader.next();
    REQUIRE(loaded);
    const Position at = loaded->windows.begin;
    const auto ids = dataset.window(at.epoch, at.index).ids;
    const auto got = ids_of(*loaded);
    REQUIRE(std::equal(ids.begin(), ids.end(), got.begin()));
  }
}
