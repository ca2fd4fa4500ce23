// If this failed, a corpus of more than 4 GiB, or of more than 2^32 tokens, would be read at wrong places beyond that
// limit: a run would train on its beginning again. The files have holes, which take no room on the disk; only the parts
// that are read become memory.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "corpus_files.h"
#include "support/catch.h"

using namespace tessera;
using Ids = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::int64_t beyond = 5 * gib + 1;  // bytes, or tokens of one byte: above 2^32

// A hole of `bytes` with `mark` at each of the places. Each place is one that a smaller integer takes for another, of
// which the content differs.
std::filesystem::path write_hole(const test::TempFolder& folder, const std::string& name, std::int64_t bytes,
                                 const std::vector<std::pair<std::int64_t, std::string>>& marks) {
  const auto path = folder.write(name, "");
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes));
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  for (const auto& [at, mark] : marks)
    REQUIRE(::pwrite(file, mark.data(), mark.size(), at) == static_cast<ssize_t>(mark.size()));
  ::close(file);
  return path;
}

Ids stream(const data::Corpus& corpus, std::int64_t first, std::size_t count) {
  Ids ids(count), targets(count);
  corpus.read_stream(first, ids, targets);
  CHECK(targets == ids);
  return ids;
}

// Sequences and documents of 2^30 tokens of one or two bytes, and a last one of one token.
std::filesystem::path write_large_pair(const test::TempFolder& folder, std::int64_t token_bytes) {
  std::vector<std::int32_t> lengths(5, static_cast<std::int32_t>(gib));
  lengths.push_back(1);
  const auto index = test::index_of(lengths, token_bytes, token_bytes == 1 ? 1 : 8);
  folder.write("large.idx", index.bytes());
  const auto two = [&](char id) { return token_bytes == 1 ? std::string(1, id) : std::string{id, 0}; };
  const auto at = [&](std::int64_t token) { return token * token_bytes; };
  write_hole(folder, "large.bin", beyond * token_bytes,
             {{0, two(1)},
              {at(2 * gib + 3), two(2)},
              {at(4 * gib - 1), two(3) + two(4) + two(5)},
              {at(4 * gib + 3), two(6)},
              {at(5 * gib), two(7)}});
  return folder / "large.idx";
}

}  // namespace

TEST_CASE("tokens beyond 2^32 of a Megatron pair are those of their place, by stream, document and window") {
  for (const std::int64_t token_bytes : {1, 2}) {
    CAPTURE(token_bytes);
    const test::TempFolder folder;
    const auto path = write_large_pair(folder, token_bytes);
    const data::Corpus corpus(test::corpus_options(path, 96));
    REQUIRE(corpus.tokens() == beyond);
    REQUIRE(corpus.documents() == 6);
    CHECK(corpus.tokens_of(5) == 1);
    CHECK(stream(corpus, 0, 4) == Ids{1, 0, 0, 0});
    CHECK(stream(corpus, 2 * gib + 2, 3) == Ids{0, 2, 0});
    CHECK(stream(corpus, 4 * gib - 2, 6) == Ids{0, 3, 4, 5, 0, 6});
    CHECK(stream(corpus, 5 * gib - 1, 2) == Ids{0, 7});
    Ids ids(4), targets(4);
    corpus.read_document(4, 0, ids, targets);
    CHECK(ids == Ids{4, 5, 0, 6});

    auto options = test::dataset_options(path, 4096, config::Documents::joined);
    options.corpus.vocabulary = 96;
    options.order = data::Order::file;
    const data::Dataset joined(options);
    REQUIRE(joined.windows(0) == 5 * gib / 4096);
    const auto window = joined.window(0, 4 * gib / 4096);
    CHECK(Ids(window.ids.begin(), window.ids.begin() + 4) == Ids{4, 5, 0, 6});
    const auto last = joined.window(0, 5 * gib / 4096 - 1);
    CHECK(last.ids.back() == 0);
    CHECK(last.labels.back() == 7);
  }
}

TEST_CASE("bytes beyond 2^32 of a text are those of their place, and so is the file behind it") {
  const test::TempFolder folder;
  write_hole(folder, "a.txt", beyond, {{0, "begin"}, {4 * gib - 1, "xyz"}, {5 * gib, "e"}});
  folder.write("b.txt", "next");
  auto as_text = test::corpus_options(folder.path(), 257);
  as_text.format = config::DataFormat::text;  // holes are zero bytes
  const data::Corpus corpus(as_text);
  REQUIRE(corpus.tokens() == beyond + 1 + 5);
  CHECK(stream(corpus, 4 * gib - 2, 5) == Ids{0, 'x', 'y', 'z', 0});
  CHECK(stream(corpus, 5 * gib, 7) == Ids{'e', 256, 'n', 'e', 'x', 't', 256});
  Ids ids(2), targets(2);
  corpus.read_document(0, 4 * gib, ids, targets);
  CHECK(ids == Ids{'y', 'z'});
  corpus.read_document(1, 3, ids, targets);
  CHECK(ids == Ids{'t', 256});

  auto options = test::dataset_options(folder.path(), gib / 512, config::Documents::separate);
  options.corpus = as_text;
  options.order = data::Order::file;
  const data::Dataset packed(options);
  const auto window = packed.window(0, 4 * 512);  // the pieces of the first document are whole windows
  CHECK(Ids(window.ids.begin(), window.ids.begin() + 2) == Ids{'y', 'z'});
}
