// If this failed, text would be trained on with wrong bytes, or a document would not end.
#include "data/text_file.h"

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a text file is its bytes and an end of document") {
  const test::TempFolder folder;
  const test::TextAlone file(folder.write("a.txt", std::string("a\xFF\0\r\n", 5)), 257);
  CHECK(file.documents() == 1);
  CHECK(test::ids_of(file, 0) == std::vector<std::int64_t>{'a', 255, 0, '\r', '\n', 256});
  CHECK(file.counts().targets == 5);
  std::vector<std::int64_t> ids(2), targets(2);
  file.read(0, 4, ids, targets);
  CHECK(ids == std::vector<std::int64_t>{'\n', 256});
  CHECK(targets == ids);
}

TEST_CASE("an empty text file has no document") {
  const test::TempFolder folder;
  const test::TextAlone file(folder.write("a.txt", ""), 257);
  CHECK(file.documents() == 0);
  CHECK(file.tokens_before(0) == 0);
  CHECK(file.counts().empty == 1);
}

TEST_CASE("text needs a vocabulary of 257") {
  const test::TempFolder folder;
  const auto path = folder.write("a.txt", "a");
  CHECK(test::error_of([&] { test::TextAlone file(path, 257); }) == "no error");
  CHECK_THAT(test::error_of([&] { test::TextAlone file(path, 256); }),
             ContainsSubstring("only 256 ids") && ContainsSubstring("257 or more"));
}

TEST_CASE("a text file that changes in use is noticed") {
  const test::TempFolder folder;
  const test::TextAlone file(folder.write("a.txt", "abc"), 257);
  folder.write("a.txt", "ab");
  CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 0); }, base::ExitCode::rank_failed),
             ContainsSubstring("became shorter while it was in use: it had 3 bytes, now it has 2"));
}
