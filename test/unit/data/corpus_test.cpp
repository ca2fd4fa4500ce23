// If this failed, the stream of tokens would skip or repeat some at the borders of files or documents.
#include "data/corpus.h"

#include <algorithm>

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the stream is all documents of all files end to end") {
  const test::TempFolder folder;
  folder.write("1.jsonl", test::jsonl(test::numbered({3, 1, 4}, 0)));
  folder.write("2.txt", "");
  test::write_pair<std::int32_t>(folder, "3", test::numbered({2, 0, 5}, 8), 4);
  folder.write("4.jsonl", test::jsonl(test::numbered({6}, 15)));
  const data::Corpus corpus(test::corpus_options(folder.path()));
  REQUIRE(corpus.tokens() == 21);
  REQUIRE(corpus.documents() == 7);
  const std::int64_t lengths[] = {3, 1, 4, 2, 0, 5, 6};
  for (std::int64_t d = 0; d < 7; ++d) CHECK(corpus.tokens_of(d) == lengths[d]);
  for (std::int64_t first = 0; first <= 21; ++first)
    for (std::int64_t size = 0; first + size <= 21; ++size) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(size), -7), targets(ids);
      corpus.read_stream(first, ids, targets);
      for (std::int64_t i = 0; i < size; ++i) REQUIRE(ids[static_cast<std::size_t>(i)] == first + i);
      REQUIRE(targets == ids);
    }
  std::vector<std::int64_t> ids(2), targets(2);
  corpus.read_document(5, 3, ids, targets);
  CHECK(ids == std::vector<std::int64_t>{13, 14});
  CHECK_THAT(corpus.description(), ContainsSubstring("1 text") && ContainsSubstring("2 jsonl"));
}

TEST_CASE("text files are documents that end") {
  const test::TempFolder folder;
  folder.write("a", "xy");
  folder.write("b", "z");
  const data::Corpus corpus(test::corpus_options(folder.path()));
  std::vector<std::int64_t> ids(5), targets(5);
  corpus.read_stream(0, ids, targets);
  CHECK(ids == std::vector<std::int64_t>{'x', 'y', 256, 'z', 256});
}

TEST_CASE("a corpus without a token is refused with the file, and its samples read and dropped") {
  const test::TempFolder folder;
  const auto error = [&](const char* name, const std::string& content) {
    const auto path = folder.write(name, content);
    auto options = test::corpus_options(path);
    options.on_bad_line = config::OnBadLine::skip;
    auto text = test::error_of([&] { data::Corpus corpus(options); });
    const std::string start = "data.train_path: 0 usable samples: " + path.string() + ": ";
    CHECK(text.substr(0, start.size()) == start);
    return text.substr(std::min(start.size(), text.size()));
  };
  CHECK(error("a.txt", "") == "1 read, 1 dropped because they are empty");
  CHECK(error("b.jsonl", "") == "0 read");
  CHECK(error("c.jsonl", "\n \n\n") == "0 read, 3 blank lines");
  CHECK(error("d.jsonl", "{\"text\": \"\"}\n\n{\"input_ids\": []}\n") ==
        "2 read, 2 dropped because they are empty, 1 blank lines");
  CHECK_THAT(
      error("e.jsonl", "\nnull\n{\"text\": \"\"}\n[]\n"),
      ContainsSubstring("3 read, 1 dropped because they are empty, 2 dropped because they are faulty (the first: ") &&
          ContainsSubstring("e.jsonl:2: the line is of type null, not a JSON object), 1 blank lines"));
}

TEST_CASE("of many files without a token the first are named, and the others counted") {
  const test::TempFolder folder;
  for (const char* name : {"1", "2", "3", "4", "5"}) folder.write(name, "");
  folder.write("6.jsonl", "{\"input_ids\": []}\n{\"text\": \"\"}\n\n");
  const auto one = [&](const char* name) {
    return (folder / name).string() + ": 1 read, 1 dropped because they are empty; ";
  };
  CHECK(test::error_of([&] { data::Corpus corpus(test::corpus_options(folder.path())); }) ==
        "data.train_path: 0 usable samples: " + one("1") + one("2") + one("3") +
            "and 3 more files; together 7 read, 7 dropped because they are empty, 1 blank lines");
}

TEST_CASE("faulty lines of all files are counted where they are left out") {
  const test::TempFolder folder;
  folder.write("1.jsonl", test::jsonl(test::numbered({3})) + "null\n");
  folder.write("2.jsonl", "{\n}\n" + test::jsonl(test::numbered({2}, 3)));
  auto options = test::corpus_options(folder.path());
  options.on_bad_line = config::OnBadLine::skip;
  const data::Corpus corpus(options);
  CHECK(corpus.tokens() == 5);
  CHECK(corpus.counts().faulty == 3);
  CHECK(corpus.counts().read == 5);
  CHECK_THAT(corpus.counts().first_fault, ContainsSubstring("1.jsonl:2: "));
  CHECK_THAT(data::describe(corpus.counts()), ContainsSubstring("5 read, 3 dropped because they are faulty"));
}

TEST_CASE("a .json file that turns out not to be JSONL is refused with the way out") {
  const test::TempFolder folder;
  folder.write("a.jsonl", "{\"text\": \"a\"}\n");
  for (const char* content : {"{\n  \"builder_name\": \"x\"\n}\n", "{\"builder_name\": \"x\"}\n"}) {
    folder.write("dataset_info.json", content);
    CHECK_THAT(test::error_of([&] { data::Corpus corpus(test::corpus_options(folder.path())); }),
               ContainsSubstring("dataset_info.json:1: ") && ContainsSubstring("name the files without this one") &&
                   ContainsSubstring("--data.format"));
  }
  folder.write("dataset_info.json", "{\"text\": \"b\"}\n");
  CHECK(data::Corpus(test::corpus_options(folder.path())).documents() == 2);
}
