// If this failed, a corpus of more files than the kernel maps for a process (65,530) could not be trained on, or would
// take more than a few words of memory per file.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>

#include "base/random.h"
#include "corpus_files.h"
#include "support/catch.h"

using namespace tessera;

// TESSERA_TEST_FILES: more than 70,000 of them, by hand.
TEST_CASE("70,000 files of one document each are read, in constant memory a file") {
  const char* const asked = std::getenv("TESSERA_TEST_FILES");
  const std::int64_t count = asked != nullptr ? std::atoll(asked) : 70'000;
  const test::TempFolder folder(test::TempFolder::in_memory());
  for (std::int64_t i = 0; i < count; ++i)
    folder.write(fmt::format("part-{:05}/document-{:04}.jsonl", i / 1000, i % 1000),
                 fmt::format("{{\"input_ids\": [{}, {}]}}\n", i, i + 1));
  const auto heap = [] { return static_cast<double>(::mallinfo2().uordblks); };
  const double before = heap();
  const data::Corpus corpus(test::corpus_options(folder.path(), 1 << 24));
  const double bytes_a_file = (heap() - before) / static_cast<double>(count);
  const auto path_bytes = static_cast<double>(folder.path().native().size() + 33);
  WARN(fmt::format("{:.0f} bytes a file, of which {:.0f} are its path", bytes_a_file, path_bytes));
  CHECK(bytes_a_file < 200 + path_bytes);
  REQUIRE(corpus.documents() == count);
  const base::Philox random(1, 0);
  for (std::uint64_t round = 0; round < 2 * static_cast<std::uint64_t>(count); ++round) {
    const auto document = static_cast<std::int64_t>(random.bits(round) % static_cast<std::uint64_t>(count));
    std::vector<std::int64_t> ids(2), targets(2);
    corpus.read_document(document, 0, ids, targets);
    REQUIRE(ids == std::vector<std::int64_t>{document, document + 1});
  }
}
