// If this failed, a JSONL file of more than 4 GiB would be read at wrong places beyond that limit. One of its lines is
// a hole: it takes no room on the disk, but reading it once to find the lines takes seconds, and memory of the
// kernel's.
#include <filesystem>
#include <fstream>

#include "corpus_files.h"
#include "support/catch.h"

using namespace tessera;
using Ids = std::vector<std::int64_t>;

TEST_CASE("lines behind a line of more than 4 GiB are those of their place") {
  const test::TempFolder folder;
  const std::string before = "{\"input_ids\": [1, 2, 3]}\n", behind = "\n{\"input_ids\": [4, 5]}\n{\"text\": \"ab\"}\n";
  const auto path = folder.write("large.jsonl", before);
  std::filesystem::resize_file(path, before.size() + (std::uintmax_t{1} << 32) + 1);
  std::ofstream(path, std::ios::app) << behind;
  auto options = test::corpus_options(path, 257);
  options.on_bad_line = config::OnBadLine::skip;  // the hole is no JSON
  const data::Corpus corpus(options);
  CHECK(corpus.counts().faulty == 1);
  REQUIRE(corpus.documents() == 3);
  Ids ids(8), targets(8);
  corpus.read_stream(0, ids, targets);
  CHECK(ids == Ids{1, 2, 3, 4, 5, 'a', 'b', 256});
}
