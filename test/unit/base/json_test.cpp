// If this failed, a faulty settings or data file would be misread, or its error would point to the wrong line.
#include "base/json.h"

#include "base/random.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

#include <nlohmann/json.hpp>

using namespace tessera;
using base::JsonComments;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

std::string error_in(std::string_view text, JsonComments comments = JsonComments::refused) {
  return test::error_of([&] { (void)base::parse_json(text, "f.json", comments); });
}

}  // namespace

TEST_CASE("values and their lines are found") {
  const auto document = base::parse_json(
      "{\n"
      "  \"train\": {\"lr\": 0.1,\n"
      "    \"betas\": [0.9,\n"
      "      0.95\n"
      "    ]},\n"
      "  \"a/b~c\":\n"
      "    -7,\n"
      "  \"big\": 18446744073709551615\n"
      "}\n",
      "f.json", JsonComments::refused);
  CHECK(document.value()["train"]["betas"][1] == 0.95);
  CHECK(document.value()["big"].get<std::uint64_t>() == 18446744073709551615ULL);
  CHECK(document.line_of("") == 1);
  CHECK(document.line_of("/train") == 2);
  CHECK(document.line_of("/train/lr") == 2);
  CHECK(document.line_of("/train/betas/0") == 3);
  CHECK(document.line_of("/train/betas/1") == 4);
  CHECK(document.line_of("/a~1b~0c") == 6);
  CHECK(document.line_of("/big") == 8);
  CHECK(document.line_of("/train/betas/7/x") == 3);  // the nearest parent that exists
  CHECK(document.place_of("/train/lr") == "f.json:2");
  CHECK(base::escape_pointer("a/b~c") == "a~1b~0c");
}

TEST_CASE("a number that ends a line belongs to that line") {
  const auto document = base::parse_json("[\n1\n,\n2\n]", "f", JsonComments::refused);
  CHECK(document.line_of("/0") == 2);
  CHECK(document.line_of("/1") == 4);
}

TEST_CASE("a byte order mark and carriage returns are accepted") {
  const auto document = base::parse_json("\xEF\xBB\xBF{\r\n\"a\": 1\r\n}\r\n", "f", JsonComments::refused);
  CHECK(document.value()["a"] == 1);
  CHECK(document.line_of("/a") == 2);
}

TEST_CASE("comments are accepted where allowed") {
  const char* const text = "// one\n{ /* two\nlines */ \"a\": 1 } // end";
  CHECK(base::parse_json(text, "f", JsonComments::allowed).line_of("/a") == 3);
  CHECK_THAT(error_in(text), StartsWith("f.json:1: "));
}

TEST_CASE("a key given twice names both lines") {
  CHECK(error_in("{\n\"a\": 1,\n\"b\": {\"a\": 1},\n\"a\": 2}") ==
        "f.json:4: key \"a\" twice in one object, on lines 2 and 4");
  CHECK(error_in("[{\"a\": 1}, {\"a\": 2}]") == "no error");
}

TEST_CASE("syntax errors name the line and the reason") {
  CHECK(error_in("{\n\"a\": 1,\n}") == "f.json:3: a trailing comma before '}'");
  CHECK(error_in("[1,\n2,\n\n]") == "f.json:4: a trailing comma before ']'");
  CHECK_THAT(error_in("{\n\"a\": [1, NaN]}"), StartsWith("f.json:2: NaN and Infinity"));
  CHECK_THAT(error_in("[\n-Infinity]"), StartsWith("f.json:2: "));
  CHECK_THAT(error_in("{\n\"a\" 1}"), StartsWith("f.json:2: ") && ContainsSubstring("expected ':'"));
  CHECK_THAT(error_in("{\"a\": 1}\n\n{}"), StartsWith("f.json:3: "));
  CHECK_THAT(error_in(""), StartsWith("f.json:1: ") && ContainsSubstring("unexpected end of input"));
  CHECK_THAT(error_in("{\"a\":\n \"cut"), StartsWith("f.json:2: ") && ContainsSubstring("missing closing quote"));
  CHECK_THAT(error_in("["), StartsWith("f.json:1: "));
  CHECK_THAT(error_in("]"), StartsWith("f.json:1: "));
  CHECK_THAT(error_in("}"), StartsWith("f.json:1: "));
  CHECK_THAT(error_in("tru"), StartsWith("f.json:1: "));
}

TEST_CASE("numbers that do not fit are refused") {
  CHECK_THAT(error_in("[\n1e999]"), StartsWith("f.json:2: ") && ContainsSubstring("1e999"));
  CHECK_THAT(error_in("[18446744073709551616]"), ContainsSubstring("18446744073709551616 does not fit into 64 bits"));
  CHECK_THAT(error_in("[-9223372036854775809]"), ContainsSubstring("does not fit into 64 bits"));
  CHECK(error_in("[-9223372036854775808, 1e308, -0.0]") == "no error");
}

TEST_CASE("bytes that are not UTF-8 and lone surrogates are refused, in ASCII") {
  const std::string bad = error_in("{\n\n\"a\": \"x\xFFy\"}");
  CHECK_THAT(bad, StartsWith("f.json:3: ") && ContainsSubstring("UTF-8"));
  CHECK(bad.find('\xFF') == std::string::npos);
  CHECK_THAT(error_in("[\"\\ud800\"]"), ContainsSubstring("surrogate"));
  CHECK_THAT(error_in("[\"\\udc00\"]"), ContainsSubstring("surrogate"));
  CHECK_THAT(error_in("\xFF\xFE{}"), StartsWith("f.json:1: "));
  CHECK(error_in("[\"\\ud83d\\ude00 \xF0\x9F\x98\x80\"]") == "no error");
}

TEST_CASE("a long broken string gives a short message") {
  const std::string text = "[\"" + std::string(100000, 'a');
  CHECK(error_in(text).size() < 300);
}

TEST_CASE("nesting is limited") {
  const auto nested = [](int depth) {
    const auto n = static_cast<std::size_t>(depth);
    return std::string(n, '[') + std::string(n, ']');
  };
  CHECK(error_in(nested(base::json_depth_limit)) == "no error");
  CHECK_THAT(error_in(nested(base::json_depth_limit + 1)), ContainsSubstring("nested more than 200"));
  CHECK_THAT(error_in(nested(1000000)), ContainsSubstring("nested more than 200"));
}

TEST_CASE("a line of a file is parsed with that line's number") {
  CHECK(base::parse_json_line("{\"text\": \"a\"}", "d.jsonl", 9)["text"] == "a");
  CHECK_THAT(test::error_of([] { (void)base::parse_json_line("{\"text\": ", "d.jsonl", 9); }),
             StartsWith("d.jsonl:9: "));
  CHECK(test::error_of([] { (void)base::parse_json_line("{\"a\": 1, \"a\": 2}", "d.jsonl", 9); }) ==
        "d.jsonl:9: key \"a\" twice in one object");
}

TEST_CASE("a file is parsed under its own name") {
  const test::TempFolder folder;
  const auto path = folder.write("s.json", "{\n]");
  CHECK_THAT(test::error_of([&] { (void)base::parse_json_file(path, JsonComments::allowed); }),
             StartsWith(path.string() + ":2: "));
}

TEST_CASE("damaged text gives a value or one printable message with a line") {
  const std::string good =
      "{\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\n\"],\n// note\n\"b\": {\"c\": {}}, \"d\": \"\xC3\xA9\"}";
  const base::Philox random(6, 0);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string bad = good.substr(0, round % 5 == 0 ? random.bits(round) % good.size() : good.size());
    for (std::uint64_t flip = 0; flip <= round % 3 && !bad.empty(); ++flip)
      bad[random.bits(100000 + 3 * round + flip) % bad.size()] =
          static_cast<char>(random.bits(200000 + 3 * round + flip));
    const std::string error = error_in(bad, JsonComments::allowed);
    if (error == "no error") continue;
    REQUIRE_THAT(error, StartsWith("f.json:"));
    REQUIRE(error.size() < 400);
    for (const char c : error) REQUIRE((c >= 0x20 && c < 0x7F));
  }
}
