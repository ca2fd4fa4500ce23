// If this failed, token files of Megatron-Core would be misread, or a false index would make the program read outside
// of a file.
#include "data/megatron_file.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/random.h"
#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

namespace {

const test::Documents documents{{5, 6, 7, 8, 9}, {1, 2, 3}, {11}};

template <class T>
void check_type(std::uint8_t code) {
  const test::TempFolder folder;
  const test::MegatronAlone file(test::write_pair<T>(folder, "t", documents, code), 96);
  REQUIRE(file.documents() == 3);
  for (std::int64_t d = 0; d < 3; ++d) CHECK(test::ids_of(file, d) == documents[static_cast<std::size_t>(d)]);
  CHECK(file.tokens_before(3) == 9);
  CHECK(file.counts().targets == 6);
}

// The error when a good index of documents of 5, 3 and 1 tokens of uint16 is changed.
std::string error_after(const std::function<void(test::MegatronIndex&)>& change) {
  const test::TempFolder folder;
  const auto path = test::write_pair<std::uint16_t>(folder, "t", documents, 8);
  test::MegatronIndex index = test::index_of({5, 3, 1}, 2, 8);
  change(index);
  folder.write("t.idx", index.bytes());
  return test::error_of([&] { test::MegatronAlone file(path, 96); });
}

}  // namespace

TEST_CASE("every integer type of the format is read") {
  check_type<std::uint8_t>(1);
  check_type<std::int8_t>(2);
  check_type<std::int16_t>(3);
  check_type<std::int32_t>(4);
  check_type<std::int64_t>(5);
  check_type<std::uint16_t>(8);
}

// Fixture: fixtures/make_bpe_pair.py.
TEST_CASE("a pair made by scripts/tokenize.py holds the tokenizer's ids") {
  const std::string folder = TESSERA_SOURCE_DIR "/test/unit/data/fixtures/";
  const auto expected = nlohmann::json::parse(base::read_file(folder + "bpe_expected.json"));
  const test::MegatronAlone file(folder + "bpe.idx", expected["vocabulary"].get<std::int64_t>());
  REQUIRE(file.documents() == static_cast<std::int64_t>(expected["documents"].size()));
  for (std::int64_t d = 0; d < file.documents(); ++d)
    CHECK(test::ids_of(file, d) == expected["documents"][static_cast<std::size_t>(d)].get<std::vector<std::int64_t>>());
}

TEST_CASE("a document may have several sequences, or none") {
  const test::TempFolder folder;
  const auto path = test::write_pair<std::uint16_t>(folder, "t", documents, 8);
  test::MegatronIndex index = test::index_of({5, 3, 1}, 2, 8);
  index.document_indices = {0, 2, 2, 3};
  folder.write("t.idx", index.bytes());
  const test::MegatronAlone file(path, 96);
  REQUIRE(file.documents() == 3);
  CHECK(test::ids_of(file, 0) == std::vector<std::int64_t>{5, 6, 7, 8, 9, 1, 2, 3});
  CHECK(test::ids_of(file, 1).empty());
  CHECK(file.counts().empty == 1);
}

TEST_CASE("an id outside the vocabulary is named when it is read") {
  const test::TempFolder folder;
  const test::MegatronAlone file(test::write_pair<std::int64_t>(folder, "t", {{1, 2}, {3, 96}, {-1}, {1LL << 31}}, 5),
                                 96);
  CHECK(test::ids_of(file, 0) == std::vector<std::int64_t>{1, 2});
  CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 1); }),
             ContainsSubstring("t.bin: document 1, token 1: id 96 is outside the vocabulary: ids go from 0 to 95"));
  CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 2); }), ContainsSubstring("document 2, token 0: id -1 "));
  CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 3); }), ContainsSubstring("id 2147483648 "));
}

TEST_CASE("an index that lies is refused") {
  using Index = test::MegatronIndex;
  CHECK(error_after([](Index&) {}) == "no error");
  CHECK_THAT(error_after([](Index& i) { i.magic[0] = 'X'; }), ContainsSubstring("is no index of Megatron-Core"));
  CHECK_THAT(error_after([](Index& i) { i.version = 2; }), ContainsSubstring("version 2"));
  CHECK_THAT(error_after([](Index& i) { i.type_code = 0; }), ContainsSubstring("unknown type code 0"));
  CHECK_THAT(error_after([](Index& i) { i.type_code = 9; }), ContainsSubstring("unknown type code 9"));
  CHECK_THAT(error_after([](Index& i) { i.type_code = 7; }), ContainsSubstring("floating-point"));
  CHECK_THAT(error_after([](Index& i) { i.type_code = 4; }), ContainsSubstring("sequence 0 ends at byte 20"));
  CHECK_THAT(error_after([](Index& i) { i.sequence_count = 4; }), ContainsSubstring("cut short"));
  CHECK_THAT(error_after([](Index& i) { i.sequence_count = ~0ULL; }), ContainsSubstring("cut short"));
  CHECK_THAT(error_after([](Index& i) { i.sequence_count = (1ULL << 62) + 3; }), ContainsSubstring("cut short"));
  CHECK_THAT(error_after([](Index& i) { i.document_entries = ~0ULL / 8 + 2; }), ContainsSubstring("cut short"));
  CHECK_THAT(error_after([](Index& i) { i.document_entries = 3; }), ContainsSubstring("8 bytes too many"));
  CHECK_THAT(error_after([](Index& i) { i.sequence_count = 2; }), ContainsSubstring("12 bytes too many"));
  CHECK_THAT(error_after([](Index& i) { i = {}; }), ContainsSubstring("no document entries"));
  CHECK_THAT(error_after([](Index& i) { i.lengths[0] = -1; }), ContainsSubstring("sequence 0 has length -1"));
  CHECK_THAT(error_after([](Index& i) { i.lengths[2] = 2; }), ContainsSubstring("ends at byte 20"));
  CHECK_THAT(error_after([](Index& i) { i.lengths[2] = 0x7FFFFFFF; }),
             ContainsSubstring("it is cut short, or not its .bin"));
  CHECK_THAT(error_after([](Index& i) { i.lengths[2] = 0; }), ContainsSubstring("describes 16"));
  CHECK_THAT(error_after([](Index& i) { i.pointers[1] = 8; }), ContainsSubstring("sequence 1 begins at byte 8"));
  CHECK_THAT(error_after([](Index& i) { i.pointers[0] = -2; }), ContainsSubstring("begins at byte -2"));
  CHECK_THAT(error_after([](Index& i) { i.document_indices[0] = 1; }), ContainsSubstring("document entry 0"));
  CHECK_THAT(error_after([](Index& i) { i.document_indices[1] = 4; }), ContainsSubstring("document entry 1"));
  CHECK_THAT(error_after([](Index& i) { i.document_indices[1] = -1; }), ContainsSubstring("document entry 1"));
  CHECK_THAT(error_after([](Index& i) { i.document_indices[2] = 0; }), ContainsSubstring("document entry 2"));
  CHECK_THAT(error_after([](Index& i) { i.document_indices[3] = 2; }), ContainsSubstring("end at sequence 2 of 3"));
}

TEST_CASE("every truncation of either file is refused") {
  const test::TempFolder folder;
  const auto path = test::write_pair<std::uint16_t>(folder, "t", documents, 8);
  const std::string index = base::read_file(path), tokens = base::read_file(folder / "t.bin");
  for (std::size_t size = 0; size < index.size(); ++size) {
    folder.write("t.idx", index.substr(0, size));
    CHECK(test::error_of([&] { test::MegatronAlone file(path, 96); }) != "no error");
  }
  folder.write("t.idx", index);
  for (std::size_t size = 0; size < tokens.size(); ++size) {
    folder.write("t.bin", tokens.substr(0, size));
    CHECK_THAT(test::error_of([&] { test::MegatronAlone file(path, 96); }), ContainsSubstring("t.bin"));
  }
}

// What is gone of a mapped file's last page reads as zeros, which are ids too.
TEST_CASE("a pair of which some bytes are cut while it is mapped is not read on") {
  for (const char* cut : {"t.bin", "t.idx"}) {
    INFO(cut);
    const test::TempFolder folder;
    const test::MegatronAlone file(test::write_pair<std::uint16_t>(folder, "t", documents, 8), 96);
    CHECK(test::ids_of(file, 2) == documents[2]);
    const auto path = folder.path() / cut;
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 2); }, base::ExitCode::rank_failed),
               ContainsSubstring(path.string() + " became shorter while it was in use"));
  }
}

TEST_CASE("a multimodal pair is refused") {
  const test::TempFolder folder;
  const auto path = test::write_pair<std::uint16_t>(folder, "t", documents, 8);
  folder.write("t.idx", base::read_file(path) + std::string(3, '\0'));
  CHECK_THAT(test::error_of([&] { test::MegatronAlone file(path, 96); }), ContainsSubstring("multimodal"));
}

TEST_CASE("a damaged index is refused, or describes tokens that are there") {
  const test::TempFolder folder;
  const auto path = test::write_pair<std::uint16_t>(folder, "t", documents, 8);
  const std::string good = base::read_file(path);
  const base::Philox random(5, 0);
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::string bad = good;
    for (std::uint64_t flip = 0; flip <= round % 3; ++flip)
      bad[random.bits(3 * round + flip) % bad.size()] = static_cast<char>(random.bits(1000000 + 3 * round + flip));
    folder.write("t.idx", bad);
    (void)test::error_of([&] {
      const test::MegatronAlone file(path, 1 << 16);
      for (std::int64_t d = 0; d < file.documents(); ++d) (void)test::ids_of(file, d);
      REQUIRE(file.tokens_before(file.documents()) <= 18);
    });
  }
}
