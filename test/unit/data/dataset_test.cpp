// If this failed, a run would train on some tokens twice and on others never, documents would leak into each other, or
// two runs with one seed would see different data (cases DAT-1, 2, 4, 5, 7).
#include "data/dataset.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/log_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using config::Documents;
using data::Dataset;
using data::Window;
using Ids = std::vector<std::int64_t>;

namespace {

std::vector<Window> windows_of(const Dataset& dataset, std::int64_t epoch) {
  std::vector<Window> windows;
  for (std::int64_t i = 0; i < dataset.windows(epoch); ++i) windows.push_back(dataset.window(epoch, i));
  return windows;
}

// What must hold for every window.
void check_form(const Window& window, std::int64_t seq_len) {
  const std::size_t tokens = window.ids.size();
  REQUIRE(tokens >= 1);
  REQUIRE(static_cast<std::int64_t>(tokens) <= seq_len);
  REQUIRE(window.labels.size() == tokens);
  REQUIRE(window.positions.size() == tokens);
  REQUIRE(window.attention_starts.front() == 0);
  REQUIRE(window.attention_starts.back() == static_cast<std::int64_t>(tokens));
  for (std::size_t r = 0; r + 1 < window.attention_starts.size(); ++r) {
    REQUIRE(window.attention_starts[r] < window.attention_starts[r + 1]);
    for (std::int64_t i = window.attention_starts[r]; i < window.attention_starts[r + 1]; ++i)
      REQUIRE(window.positions[static_cast<std::size_t>(i)] == i - window.attention_starts[r]);
  }
  const auto valid =
      std::count_if(window.labels.begin(), window.labels.end(), [](auto l) { return l != data::no_label; });
  REQUIRE(window.valid_tokens == valid);
}

}  // namespace

TEST_CASE("joined windows make each token but the first a target once") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({5, 1, 11, 7, 13})));  // 37 tokens
  const Dataset dataset(test::dataset_options(path, 4, Documents::joined));
  REQUIRE(dataset.windows(0) == 9);  // 9 * 4 + 1 = 37
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    Ids inputs, labels;
    for (const Window& window : windows_of(dataset, epoch)) {
      check_form(window, 4);
      CHECK(window.attention_starts == Ids{0, 4});
      for (std::size_t i = 0; i < 4; ++i) CHECK(window.labels[i] == window.ids[i] + 1);
      inputs.insert(inputs.end(), window.ids.begin(), window.ids.end());
      labels.insert(labels.end(), window.labels.begin(), window.labels.end());
    }
    std::sort(inputs.begin(), inputs.end());
    std::sort(labels.begin(), labels.end());
    for (std::int64_t i = 0; i < 36; ++i) {
      CHECK(inputs[static_cast<std::size_t>(i)] == i);
      CHECK(labels[static_cast<std::size_t>(i)] == i + 1);
    }
  }
}

TEST_CASE("documents without tokens are not told as documents of one token") {
  const test::TempFolder folder;
  const auto pair = test::write_pair<std::uint16_t>(folder, "p", {{}, {}, {1, 2, 3}, {}, {4}}, 8);
  const auto log = test::log_of([&] { Dataset dataset(test::dataset_options(pair, 4, Documents::separate)); });
  CHECK_THAT(log, Catch::Matchers::ContainsSubstring("4 documents of fewer than two tokens have no target"));
}

TEST_CASE("documents that are cut, since they are longer than a window, are counted in the log") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({5, 6, 2, 20})));
  const auto log = test::log_of([&] { Dataset dataset(test::dataset_options(path, 4, Documents::separate)); });
  CHECK_THAT(log, Catch::Matchers::ContainsSubstring("; 2 documents longer than a window are cut"));
  const auto none = test::log_of([&] { Dataset dataset(test::dataset_options(path, 19, Documents::separate)); });
  CHECK_THAT(none, !Catch::Matchers::ContainsSubstring("longer than a window"));
}

TEST_CASE("a joined tail shorter than a window is left out") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({36})));
  CHECK(Dataset(test::dataset_options(path, 4, Documents::joined)).windows(0) == 8);
  CHECK(Dataset(test::dataset_options(path, 35, Documents::joined)).windows(0) == 1);
}

TEST_CASE("a corpus shorter than one window is refused with its size") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({20, 12})));
  CHECK_THAT(test::error_of([&] { Dataset dataset(test::dataset_options(path, 32, Documents::joined)); }),
             ContainsSubstring("0 usable samples: " + path.string() + ": 2 read; their 32 tokens are fewer") &&
                 ContainsSubstring("= 33"));
  CHECK(test::error_of([&] { Dataset dataset(test::dataset_options(path, 32, Documents::separate)); }) == "no error");
}

TEST_CASE("data without a target is refused") {
  const test::TempFolder folder;
  const auto unlabelled = folder.write("a.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, -100]}\n");
  const auto single = folder.write("b.jsonl", "{\"input_ids\": [1]}\n{\"input_ids\": [2]}\n");
  for (const Documents mode : {Documents::joined, Documents::separate})
    CHECK_THAT(test::error_of([&] { Dataset dataset(test::dataset_options(unlabelled, 2, mode)); }),
               ContainsSubstring("0 usable samples: " + unlabelled.string() + ": 1 read; 1 dropped because ") &&
                   ContainsSubstring("-100"));
  CHECK_THAT(test::error_of([&] { Dataset dataset(test::dataset_options(single, 1, Documents::separate)); }),
             ContainsSubstring("0 usable samples: " + single.string() + ": 2 read; 2 dropped because "));
  CHECK(Dataset(test::dataset_options(single, 1, Documents::joined)).windows(0) == 1);
}

TEST_CASE("labels of the file are the targets of the positions before") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl",
                                 "{\"input_ids\": [1, 2, 3], \"labels\": [9, -100, 30]}\n"
                                 "{\"input_ids\": [4, 5, 6], \"labels\": [-100, 50, -100]}\n");
  const Window joined = Dataset(test::dataset_options(path, 5, Documents::joined)).window(0, 0);
  CHECK(joined.ids == Ids{1, 2, 3, 4, 5});
  CHECK(joined.labels == Ids{-100, 30, -100, 50, -100});
  CHECK(joined.valid_tokens == 2);
  data::DatasetOptions options = test::dataset_options(path, 5, Documents::separate);
  options.order = data::Order::file;
  const Window separate = Dataset(options).window(0, 0);
  CHECK(separate.ids == Ids{1, 2, 4, 5});
  CHECK(separate.labels == Ids{-100, 30, 50, -100});
}

TEST_CASE("separate documents of 5, 4 and 3 tokens give 9 targets, none across a border") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl({{10, 11, 12, 13, 14}, {20, 21, 22, 23}, {30, 31, 32}}));
  data::DatasetOptions options = test::dataset_options(path, 16, Documents::separate);
  options.order = data::Order::file;
  const Dataset dataset(options);
  REQUIRE(dataset.windows(0) == 1);
  const Window window = dataset.window(0, 0);
  check_form(window, 16);
  CHECK(window.ids == Ids{10, 11, 12, 13, 20, 21, 22, 30, 31});
  CHECK(window.labels == Ids{11, 12, 13, 14, 21, 22, 23, 31, 32});
  CHECK(window.positions == Ids{0, 1, 2, 3, 0, 1, 2, 0, 1});
  CHECK(window.attention_starts == Ids{0, 4, 7, 9});
  CHECK(window.valid_tokens == 9);
}

TEST_CASE("a separate document longer than a window becomes pieces that lose no target") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered({12})));
  data::DatasetOptions options = test::dataset_options(path, 5, Documents::separate);
  options.order = data::Order::file;
  const Dataset dataset(options);
  REQUIRE(dataset.windows(0) == 3);
  CHECK(dataset.window(0, 0).ids == Ids{0, 1, 2, 3, 4});
  CHECK(dataset.window(0, 0).labels == Ids{1, 2, 3, 4, 5});
  CHECK(dataset.window(0, 1).ids == Ids{5, 6, 7, 8, 9});
  CHECK(dataset.window(0, 1).positions == Ids{0, 1, 2, 3, 4});
  CHECK(dataset.window(0, 2).ids == Ids{10});
  CHECK(dataset.window(0, 2).labels == Ids{11});
}

TEST_CASE("1000 numbered samples are each seen once an epoch, packed") {
  const test::TempFolder folder;
  test::Documents documents;
  for (std::int64_t n = 0; n < 1000; ++n) documents.push_back({n, 2000 + n % 7, 3000 + n});
  const auto path = folder.write("d.jsonl", test::jsonl(documents));
  const Dataset dataset(test::dataset_options(path, 31, Documents::separate));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::map<std::int64_t, int> seen;
    for (const Window& window : windows_of(dataset, epoch)) {
      check_form(window, 31);
      for (const std::int64_t id : window.ids) ++seen[id];
      for (const std::int64_t label : window.labels)
        if (label >= 3000) ++seen[label];
    }
    for (std::int64_t n = 0; n < 1000; ++n) {
      REQUIRE(seen[n] == 1);
      REQUIRE(seen[3000 + n] == 1);
    }
  }
}

TEST_CASE("the order is another full permutation each epoch, and a function of the seed") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered(std::vector<int>(101, 3))));
  for (const Documents mode : {Documents::joined, Documents::separate}) {
    const data::DatasetOptions options = test::dataset_options(path, 2, mode);
    const Dataset dataset(options), again(options);
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> firsts;
      for (const Window& window : windows_of(dataset, epoch)) firsts.push_back(window.ids.front());
      CHECK(std::set<std::int64_t>(firsts.begin(), firsts.end()).size() == firsts.size());
      CHECK_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
      orders.insert(firsts);
    }
    CHECK(orders.size() == 3);
    // Any window by itself, in any order of asking, is the same.
    for (const std::int64_t epoch : {2, 0, 1})
      for (std::int64_t i = dataset.windows(epoch) - 1; i >= 0; i -= 7)
        CHECK(again.window(epoch, i) == dataset.window(epoch, i));
    data::DatasetOptions reseeded = options;
    reseeded.seed = 43;
    CHECK(windows_of(Dataset(reseeded), 0) != windows_of(dataset, 0));
  }
}

TEST_CASE("evaluation reads all windows in the order of the files, every time") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", test::jsonl(test::numbered(std::vector<int>(41, 5))));
  for (const Documents mode : {Documents::joined, Documents::separate}) {
    data::DatasetOptions options = test::dataset_options(path, 8, mode);
    options.order = data::Order::file;
    const Dataset dataset(options);
    std::vector<std::int64_t> ids;
    for (const Window& window : windows_of(dataset, 0)) ids.insert(ids.end(), window.ids.begin(), window.ids.end());
    CHECK(std::is_sorted(ids.begin(), ids.end()));
    CHECK(windows_of(dataset, 0) == windows_of(dataset, 5));
    CHECK(ids.size() == (mode == Documents::joined ? 25U * 8 : 41U * 4));
  }
}

TEST_CASE("changing one separate document changes no range of another") {
  const test::TempFolder folder;
  const auto range_of = [&](const test::Documents& documents, const char* name) {
    data::DatasetOptions options =
        test::dataset_options(folder.write(name, test::jsonl(documents)), 20, Documents::separate);
    options.order = data::Order::file;
    const Window window = Dataset(options).window(0, 0);
    REQUIRE(window.attention_starts == Ids{0, 4, 7, 9});
    return std::pair(Ids(window.ids.begin() + 4, window.ids.end()),
                     Ids(window.labels.begin() + 4, window.labels.end()));
  };
  CHECK(range_of({{1, 2, 3, 4, 5}, {6, 7, 8, 9}, {10, 11, 12}}, "a.jsonl") ==
        range_of({{91, 92, 93, 94, 95}, {6, 7, 8, 9}, {10, 11, 12}}, "b.jsonl"));
}
