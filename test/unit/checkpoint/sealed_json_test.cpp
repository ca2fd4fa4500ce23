// If this failed, a damaged manifest or `latest` would be believed.
#include "checkpoint/sealed_json.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/saved_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;

const std::string members = "  \"step\": 100,\n  \"note\": \"a \\\"hash\\\": b\"";

TEST_CASE("a sealed text is a JSON object whose last member is the hash of all before it") {
  const auto text = seal(members);
  const auto json = nlohmann::ordered_json::parse(text);
  CHECK(json.at("step") == 100);
  CHECK(json.at("note") == "a \"hash\": b");
  const auto last = std::prev(json.end());
  CHECK(last.key() == "hash");
  const auto before = text.substr(0, text.rfind("\"hash\": "));
  CHECK(last.value() == base::hex(base::xxh3_128(std::as_bytes(std::span(before)))));
  CHECK(text.ends_with("\"\n}\n"));
}

TEST_CASE("a sealed file gives back its text") {
  const test::TempFolder folder;
  const auto text = seal(members);
  CHECK(read_sealed(folder.write("latest", text), text.size()) == text);
}

TEST_CASE("any flipped bit of a sealed file is found, and the file is named") {
  const test::TempFolder folder;
  const auto text = seal(members);
  const auto path = folder.write("latest", text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    flip_bit(path, bit);
    CAPTURE(bit);
    CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(path, 4096)); }), Contains(path.string()));
    flip_bit(path, bit);
  }
}

TEST_CASE("a sealed file that is cut anywhere, or has anything more, is refused") {
  const test::TempFolder folder;
  const auto text = seal(members);
  const auto cut = folder.write("cut", text);
  for (auto size = text.size(); size-- > 0;) {
    std::filesystem::resize_file(cut, size);
    CAPTURE(size);
    CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(cut, 4096)); }),
               Contains("does not end with its hash"));
  }
  for (const auto& more : {text + "\n", text + text, " " + text, std::string(text.size(), '\0')}) {
    const auto path = folder.write("latest", more);
    CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(path, 4096)); }), Contains(path.string()));
  }
}

TEST_CASE("a file above the limit, or none, is an error with its name") {
  const test::TempFolder folder;
  const auto text = seal(members);
  const auto path = folder.write("latest", text);
  CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(path, text.size() - 1)); }), Contains(path.string()));
  CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(folder / "none", 4096)); }), Contains("none"));
  CHECK_THAT(test::error_of([&] { static_cast<void>(read_sealed(folder.path(), 4096)); }),
             Contains(folder.path().string()));
}

}  // namespace
}  // namespace tessera::checkpoint
