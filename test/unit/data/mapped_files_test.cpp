// If this failed, a corpus of many files would exhaust the kernel's mappings, or be read through a mapping that is
// gone.
#include "data/mapped_files.h"

#include <algorithm>
#include <fstream>

#include "base/random.h"
#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

namespace {

// Mappings of this process of files in the folder.
std::int64_t mappings_of(const test::TempFolder& folder) {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(folder.path().string()) != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("only the files used last stay mapped, and one that is held as long as it is held") {
  const test::TempFolder folder;
  std::vector<std::string> paths;
  for (const char* name : {"a", "b", "c"}) paths.push_back(folder.write(name, name).string());
  data::MappedFiles files(2);
  const auto text_of = [&](int i) {
    return std::string(files.map(paths[static_cast<std::size_t>(i)], 1, base::AccessPattern::normal)->text());
  };
  for (const int i : {0, 1, 2, 1, 0, 2, 2, 0}) {
    CHECK(text_of(i) == paths[static_cast<std::size_t>(i)].substr(paths[0].size() - 1));
    CHECK(mappings_of(folder) <= 2);
  }
  {
    const auto held = files.map(paths[0], 1, base::AccessPattern::normal);
    CHECK(text_of(1) + text_of(2) == "bc");
    CHECK(mappings_of(folder) == 3);
    CHECK(held->text() == "a");
  }
  CHECK(mappings_of(folder) == 2);
}

TEST_CASE("a file that has changed since it was opened is noticed when it is mapped again") {
  const test::TempFolder folder;
  const auto path = folder.write("a", "abc").string();
  data::MappedFiles files(1);
  CHECK_THAT(
      test::error_of([&] { (void)files.map(path, 2, base::AccessPattern::normal); }, base::ExitCode::rank_failed),
      ContainsSubstring(path + " became longer while it was in use: it had 2 bytes, now it has 3"));
  std::filesystem::remove(path);
  CHECK_THAT(test::error_of([&] { (void)files.map(path, 3, base::AccessPattern::normal); }),
             ContainsSubstring("No such file"));
}

TEST_CASE("a corpus of more files than may be mapped gives every token, in any order") {
  const test::TempFolder folder;
  std::int64_t token = 0;
  for (int file = 0; file < 12; ++file) {
    const auto documents = test::numbered({3, 1 + file, 2}, token);
    token += 6 + file;
    const auto name = std::to_string(10 + file);
    if (file % 2 == 0)
      folder.write(name + ".jsonl", test::jsonl(documents));
    else
      test::write_pair<std::int32_t>(folder, name, documents, 4);
  }
  auto options = test::corpus_options(folder.path());
  options.mapped_files = 2;
  const data::Corpus corpus(options);
  REQUIRE(corpus.tokens() == token);
  const base::Philox random(3, 0);
  for (std::uint64_t round = 0; round < 400; ++round) {
    const auto first = static_cast<std::int64_t>(random.bits(2 * round) % static_cast<std::uint64_t>(token));
    const auto size = std::min<std::int64_t>(static_cast<std::int64_t>(random.bits(2 * round + 1) % 20), token - first);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(size)), targets(ids);
    corpus.read_stream(first, ids, targets);
    for (std::int64_t i = 0; i < size; ++i) REQUIRE(ids[static_cast<std::size_t>(i)] == first + i);
    REQUIRE(mappings_of(folder) <= 2);
  }
}
