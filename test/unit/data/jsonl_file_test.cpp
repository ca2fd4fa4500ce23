// If this failed, lines of JSONL would be misread or lost, or a faulty line would be reported with the wrong number
// (cases DAT-5, 6, 8).
#include "data/jsonl_file.h"

#include "corpus_files.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/log_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

using Ids = std::vector<std::int64_t>;

// The error of a file of that content, without the folder's name.
std::string error_in(const std::string& content, const std::string& key = "text", std::int64_t vocabulary = 300) {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", content);
  std::string error = test::error_of([&] { test::JsonlAlone file(path, key, vocabulary); });
  if (const std::size_t at = error.find(folder.path().string()); at != std::string::npos)
    error.erase(at, folder.path().string().size() + 1);
  return error;
}

}  // namespace

TEST_CASE("a file of which some bytes are cut while it is mapped is told as that, not as faulty") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n");
  const test::JsonlAlone file(path, "text", 300);
  CHECK(test::ids_of(file, 1).size() == 3);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  CHECK_THAT(test::error_of([&] { (void)test::ids_of(file, 1); }, base::ExitCode::rank_failed),
             ContainsSubstring("d.jsonl became shorter while it was in use"));
}

TEST_CASE("text and token lines become documents; blank lines and empty documents are counted") {
  const test::TempFolder folder;
  const test::JsonlAlone file(folder.write("d.jsonl",
                                           "{\"text\": \"ab\"}\n"
                                           "\n"
                                           "{\"input_ids\": [7, 8, 9], \"text\": \"not looked at\"}\n"
                                           "{\"text\": \"\"}\n"
                                           "  \t\n"
                                           "{\"input_ids\": []}\n"
                                           "{\"text\": \"\\u00e9\"}"),
                              "text", 300);
  REQUIRE(file.documents() == 3);
  CHECK(test::ids_of(file, 0) == Ids{'a', 'b', 256});
  CHECK(test::ids_of(file, 1) == Ids{7, 8, 9});
  CHECK(test::ids_of(file, 2) == Ids{0xC3, 0xA9, 256});
  CHECK(file.tokens_before(3) == 9);
  CHECK(file.counts().read == 5);
  CHECK(file.counts().empty == 2);
  CHECK(file.counts().blank == 2);
  CHECK(file.counts().targets == 6);
}

TEST_CASE("a byte order mark and carriage returns are accepted") {
  const test::TempFolder folder;
  const test::JsonlAlone file(folder.write("d.jsonl", "\xEF\xBB\xBF{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}\r\n"),
                              "text", 300);
  REQUIRE(file.documents() == 2);
  CHECK(test::ids_of(file, 0) == Ids{'a', 256});
  CHECK(test::ids_of(file, 1) == Ids{'b', 256});
  CHECK(file.counts().blank == 1);
}

TEST_CASE("a label is the token that the position before it predicts") {
  const test::TempFolder folder;
  const test::JsonlAlone file(folder.write("d.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, 5]}\n"),
                              "text", 300);
  Ids ids(2), targets(2);
  file.read(0, 1, ids, targets);
  CHECK(ids == Ids{2, 3});
  CHECK(targets == Ids{-100, 5});
  CHECK(file.counts().labelled == 1);
  CHECK(file.counts().targets == 1);
}

TEST_CASE("masked tokens have no label, and padding at either end is cut") {
  const test::TempFolder folder;
  const test::JsonlAlone file(
      folder.write("d.jsonl",
                   "{\"input_ids\": [0, 1, 2, 3, 4, 0, 0], \"attention_mask\": [0, 1, 1, 0, 1, 0, 0]}\n"
                   "{\"input_ids\": [5, 6, 7], \"loss_mask\": [false, 0.0, 1], \"labels\": [5, 6, 8]}\n"
                   "{\"input_ids\": [0, 0], \"attention_mask\": [0, 0]}\n"
                   "{\"input_ids\": [], \"attention_mask\": []}\n"
                   "{\"input_ids\": [9, 0], \"labels\": [9, 0], \"attention_mask\": [1, 0], \"loss_mask\": [1, 1]}\n"),
      "text", 300);
  REQUIRE(file.documents() == 3);
  const auto targets_of = [&](std::int64_t document, std::size_t tokens) {
    Ids ids(tokens), targets(tokens);
    file.read(document, 0, ids, targets);
    return targets;
  };
  CHECK(test::ids_of(file, 0) == Ids{1, 2, 3, 4});
  CHECK(targets_of(0, 4) == Ids{1, 2, -100, 4});
  CHECK(test::ids_of(file, 1) == Ids{5, 6, 7});
  CHECK(targets_of(1, 3) == Ids{-100, -100, 8});
  CHECK(test::ids_of(file, 2) == Ids{9});
  CHECK(file.counts().empty == 2);
  CHECK(file.counts().labelled == 5);
  CHECK(file.counts().targets == 3);
}

TEST_CASE("a mask of another length, type or value is named with file and line") {
  const std::string ids = "{\"input_ids\": [1, 2], ";
  CHECK(error_in(ids + "\"attention_mask\": [1]}") == "d.jsonl:1: \"attention_mask\" has 1 values for 2 input_ids");
  CHECK(error_in(ids + "\"loss_mask\": [1, 1, 0]}") == "d.jsonl:1: \"loss_mask\" has 3 values for 2 input_ids");
  CHECK(error_in(ids + "\"loss_mask\": 1}") == "d.jsonl:1: \"loss_mask\" is of type number, not a list of 0 and 1");
  CHECK(error_in(ids + "\"attention_mask\": [1, 2]}") == "d.jsonl:1: attention_mask[1] = 2 is neither 0 nor 1");
  CHECK(error_in(ids + "\"loss_mask\": [0.5, 1]}") == "d.jsonl:1: loss_mask[0] = 0.5 is neither 0 nor 1");
  CHECK(error_in(ids + "\"loss_mask\": [\"1\", 1]}") == "d.jsonl:1: loss_mask[0] = string is neither 0 nor 1");
}

TEST_CASE("keys that no document comes from are known by name") {
  std::set<std::string> unread;
  const auto decode = [&](const std::string& line, const std::string& key) {
    unread.clear();
    static_cast<void>(data::decode_jsonl(line, "d.jsonl", 1, key, 300, &unread));
    return unread;
  };
  using Keys = std::set<std::string>;
  CHECK(decode("{\"input_ids\": [1], \"labels\": [1], \"attention_mask\": [1], \"loss_mask\": [1], "
               "\"position_ids\": [0], \"token_type_ids\": [0], \"special_tokens_mask\": [0], \"text\": \"a\"}",
               "text") == Keys{"position_ids", "special_tokens_mask", "text", "token_type_ids"});
  CHECK(decode("{\"text\": \"a\", \"url\": 1, \"attention_mask\": [1]}", "text") == Keys{"attention_mask", "url"});
  CHECK(decode("{\"page\": {\"body\": \"a\"}, \"id\": 1}", "page.body") == Keys{"id"});
  CHECK(decode("{\"a.b\": \"x\", \"a\": 1}", "a.b") == Keys{"a"});
}

TEST_CASE("the log names keys that are not read once a file, and of very many only some") {
  const test::TempFolder folder;
  const std::string line = "{\"input_ids\": [1], \"position_ids\": [0]}\n";
  const auto path = folder.write("d.jsonl", line + line);
  const auto log = test::log_of([&] { test::JsonlAlone file(path, "text", 300); });
  CHECK_THAT(log, EndsWith("d.jsonl: these keys of its lines are not read: position_ids\n"));
  CHECK(log.find("position_ids") == log.rfind("position_ids"));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "{\"text\": \"a\", \"" + std::to_string(i) + "\": 1}\n";
  const auto short_log = test::log_of([&] { test::JsonlAlone file(folder.write("m.jsonl", many), "text", 300); });
  CHECK_THAT(short_log, EndsWith(" and others\n"));
  CHECK(short_log.size() < 300);
}

TEST_CASE("the text may stand under another key, also a nested one") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", "{\"page\": {\"body\": \"x\"}, \"a.b\": \"y\"}\n");
  CHECK(test::ids_of(test::JsonlAlone(path, "page.body", 300), 0) == Ids{'x', 256});
  CHECK(test::ids_of(test::JsonlAlone(path, "a.b", 300), 0) == Ids{'y', 256});
}

TEST_CASE("faulty lines are named with file, line and reason") {
  const std::string good = "{\"text\": \"a\"}\n";
  CHECK_THAT(error_in(good + good + "{\"text\": \"x\xFFy\"}\n"),
             ContainsSubstring("d.jsonl:3: ") && ContainsSubstring("UTF-8"));
  CHECK_THAT(error_in("{\"text\": \"\\ud800\"}"), ContainsSubstring("d.jsonl:1: ") && ContainsSubstring("surrogate"));
  CHECK_THAT(error_in(good + "\n{\"text\": \"cut"), ContainsSubstring("d.jsonl:3: "));
  CHECK(error_in(good + "null\n") == "d.jsonl:2: the line is of type null, not a JSON object");
  CHECK(error_in("[1, 2]\n") == "d.jsonl:1: the line is of type array, not a JSON object");
  CHECK_THAT(error_in(good + "{\"texts\": \"a\"}"),
             ContainsSubstring("d.jsonl:2: no key \"text\"") && EndsWith("; did you mean texts?"));
  CHECK(error_in("{\"text\": 5}") == "d.jsonl:1: \"text\" is of type number, not a string");
  CHECK_THAT(error_in("{\"page\": 1}", "page.body"), ContainsSubstring("no key \"page.body\""));
  CHECK_THAT(error_in("{\"text\": \"a\"} x"), ContainsSubstring("d.jsonl:1: "));
  CHECK_THAT(error_in("{\"text\": \"a\", \"text\": \"b\"}"), ContainsSubstring("twice"));
}

TEST_CASE("ids outside the vocabulary are named with position, id and limit") {
  CHECK(error_in("{\"input_ids\": [1]}\n{\"input_ids\": [1, 96]}", "text", 96) ==
        "d.jsonl:2: input_ids[1] = 96 is outside the vocabulary: ids go from 0 to 95");
  CHECK_THAT(error_in("{\"input_ids\": [-1]}", "text", 96), ContainsSubstring("input_ids[0] = -1 "));
  CHECK_THAT(error_in("{\"input_ids\": [-100]}", "text", 96), ContainsSubstring("input_ids[0] = -100 "));
  CHECK_THAT(error_in("{\"input_ids\": [2147483648]}", "text", 96), ContainsSubstring("2147483648"));
  CHECK_THAT(error_in("{\"input_ids\": [18446744073709551615]}", "text", 96),
             ContainsSubstring("18446744073709551615"));
  CHECK_THAT(error_in("{\"input_ids\": [1], \"labels\": [96]}", "text", 96),
             ContainsSubstring("labels[0] = 96 ") && ContainsSubstring("-100 is no label"));
  CHECK_THAT(error_in("{\"input_ids\": [1], \"labels\": [-1]}", "text", 96), ContainsSubstring("labels[0] = -1 "));
  CHECK(error_in("{\"input_ids\": [95], \"labels\": [-100]}", "text", 96) == "no error");
  CHECK_THAT(error_in("{\"text\": \"a\"}", "text", 256), ContainsSubstring("d.jsonl:1: text is read as bytes"));
}

TEST_CASE("faulty lines are left out, counted and reported where that is asked for") {
  const test::TempFolder folder;
  const std::string good = "{\"text\": \"ab\"}\n";
  const auto path =
      folder.write("d.jsonl", good + "{\"text\": \"x\xFFy\"}\n\n{\"text\": \"\"}\nnull\n{\"input_ids\": [300]}\n" +
                                  "{\"body\": \"a\"}\n{\"input_ids\": [7, 8], \"labels\": [7]}\n" +
                                  "{\"input_ids\": [7, 8]}\n{\"text\": \"cut");
  const test::JsonlAlone file(path, "text", 300, config::OnBadLine::skip);
  REQUIRE(file.documents() == 2);
  CHECK(test::ids_of(file, 0) == Ids{'a', 'b', 256});
  CHECK(test::ids_of(file, 1) == Ids{7, 8});
  const auto counts = file.counts();
  CHECK(counts.read == 9);
  CHECK(counts.faulty == 6);
  CHECK(counts.empty == 1);
  CHECK(counts.blank == 1);
  CHECK(counts.labelled == 5);
  CHECK_THAT(counts.first_fault, ContainsSubstring("d.jsonl:2: ") && ContainsSubstring("UTF-8"));
  CHECK_THAT(test::error_of([&] { test::JsonlAlone stops(path, "text", 300); }), ContainsSubstring("d.jsonl:2: "));
}

TEST_CASE("a vocabulary without room for bytes is no fault of a line") {
  const test::TempFolder folder;
  const auto path = folder.write("d.jsonl", "null\n{\"text\": \"a\"}\n");
  CHECK_THAT(test::error_of([&] { test::JsonlAlone file(path, "text", 256, config::OnBadLine::skip); }),
             ContainsSubstring("d.jsonl:2: text is read as bytes"));
}

TEST_CASE("ids of the wrong type or number are refused") {
  CHECK_THAT(error_in("{\"input_ids\": [1.5]}"), ContainsSubstring("input_ids[0] is of type fraction, not integer"));
  CHECK_THAT(error_in("{\"input_ids\": [\"1\"]}"), ContainsSubstring("is of type string, not integer"));
  CHECK_THAT(error_in("{\"input_ids\": [true]}"), ContainsSubstring("is of type boolean, not integer"));
  CHECK_THAT(error_in("{\"input_ids\": 1}"), ContainsSubstring("not a list"));
  CHECK(error_in("{\"input_ids\": [1, 2], \"labels\": [1]}") == "d.jsonl:1: 1 labels for 2 input_ids");
}

TEST_CASE("long documents come out of memory unchanged") {
  const test::TempFolder folder;
  const std::string a(20011, 'a'), b(20021, 'b');
  std::string content;
  for (int i = 0; i < 5; ++i) content += "{\"text\": \"" + a + "\"}\n{\"text\": \"" + b + "\"}\n";
  const test::JsonlAlone file(folder.write("d.jsonl", content), "text", 300);
  for (int round = 0; round < 3; ++round)
    for (std::int64_t d = 0; d < 10; ++d) {
      const Ids ids = test::ids_of(file, d);
      REQUIRE(ids.size() == (d % 2 == 0 ? a : b).size() + 1);
      REQUIRE(ids.front() == (d % 2 == 0 ? 'a' : 'b'));
      REQUIRE(ids.back() == 256);
    }
}

TEST_CASE("a line of 50 MB is read, and one that is cut is named") {
  const test::TempFolder folder;
  const std::string text(50'000'003, 'x');
  const std::string line = "{\"text\": \"" + text + "\"}\n";
  const test::JsonlAlone file(folder.write("d.jsonl", line + "{\"text\": \"b\"}\n"), "text", 300);
  REQUIRE(file.documents() == 2);
  CHECK(file.tokens_before(1) == std::ssize(text) + 1);
  Ids ids(4), targets(4);
  file.read(0, std::ssize(text) - 3, ids, targets);
  CHECK(ids == Ids{'x', 'x', 'x', 256});
  CHECK(test::ids_of(file, 1) == Ids{'b', 256});
  const auto error = error_in("{\"text\": \"a\"}\n" + line.substr(0, line.size() / 2));
  CHECK_THAT(error, ContainsSubstring("d.jsonl:2: "));
  CHECK(error.size() < 500);
}
