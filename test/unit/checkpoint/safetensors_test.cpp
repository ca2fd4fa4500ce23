// If this failed, a damaged or hostile weight file could crash the program or put foreign bytes into the model.
#include "checkpoint/safetensors.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <tuple>

#include "base/hash.h"
#include "support/catch.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/stored_file.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;

std::string refusal(const std::string& bytes) {
  const test::TempFolder folder;
  const auto path = folder.write("m.safetensors", bytes);
  return test::error_of([&] { const SafetensorsFile file(path); });
}

std::string refusal_of_header(const std::string& header, std::size_t data_bytes) {
  return refusal(file_bytes(header, data_bytes));
}

TEST_CASE("a file gives back its tensors in the order of their bytes") {
  const test::TempFolder folder;
  const SafetensorsFile file(
      folder.write("m.safetensors", file_bytes(R"( {"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[5,17]},)"
                                               R"("a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                                               R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[5,5]},)"
                                               R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[17,25]},)"
                                               R"("__metadata__":{"format":"pt"}}   )",
                                               25)));
  REQUIRE(file.tensors().size() == 4);
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.tensors()[1].name == "empty");
  CHECK(file.tensors()[2].name == "b");
  CHECK(file.tensors()[2].type == ElementType::BF16);
  CHECK(file.tensors()[2].shape == std::vector<std::int64_t>{3, 2});
  CHECK(file.tensors()[3].shape.empty());
  CHECK(file.bytes(*file.find("b")).size() == 12);
  CHECK(file.bytes(*file.find("empty")).empty());
  CHECK(file.find("c") == nullptr);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
}

TEST_CASE("metadata that are null are no metadata") {
  const test::TempFolder folder;
  const SafetensorsFile file(folder.write(
      "m.safetensors", file_bytes(R"({"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)));
  CHECK(file.tensors().size() == 1);
  CHECK(file.metadata().empty());
}

TEST_CASE("a weight that is cut off while it is being read ends the process with code 4 and the file's name") {
  const test::TempFolder folder;
  const auto path = folder.write("m.safetensors",
                                 file_bytes(R"({"a":{"dtype":"U8","shape":[50000],"data_offsets":[0,50000]}})", 50000));
  const auto end = test::run_in_child([&] {
    const SafetensorsFile file(path);
    std::filesystem::resize_file(path, 1000);
    return static_cast<int>(base::xxh3(file.bytes(*file.find("a"))) & 1);
  });
  CHECK(end.code == 4);
  CHECK_THAT(end.err, Contains("error " + path.string() + " became shorter while it was in use"));
}

TEST_CASE("a file without tensors is whole") {
  const test::TempFolder folder;
  const SafetensorsFile file(folder.write("m.safetensors", file_bytes("{}", 0)));
  CHECK(file.tensors().empty());
}

TEST_CASE("every element type has its name and its size") {
  CHECK(name(ElementType::BOOL) == "BOOL");
  CHECK(name(ElementType::F16) == "F16");
  CHECK(name(ElementType::U64) == "U64");
  CHECK(bits(ElementType::F4) == 4);
  CHECK(bits(ElementType::F6_E3M2) == 6);
  CHECK(bits(ElementType::F8_E8M0) == 8);
  CHECK(bits(ElementType::BF16) == 16);
  CHECK(bits(ElementType::F32) == 32);
  CHECK(bits(ElementType::C64) == 64);
}

TEST_CASE("a header whose length lies is refused") {
  CHECK_THAT(refusal(""), Contains("too few"));
  CHECK_THAT(refusal("1234567"), Contains("7 bytes are too few"));
  CHECK_THAT(refusal(file_bytes(3, "{}", 0)), Contains("claims 3 bytes, the file has 2"));
  CHECK_THAT(refusal(file_bytes(100'000'001, "{}", 0)), Contains("the limit is 100000000"));
  CHECK_THAT(refusal(file_bytes(~0ULL, "{}", 0)), Contains("claims 18446744073709551615"));
  CHECK_THAT(refusal(file_bytes(1, "{}", 0)), Contains("m.safetensors:1"));
}

TEST_CASE("a header that breaks the format is refused with the tensor's name") {
  const auto [header, reason] = GENERATE(table<std::string, std::string>({
      {"[]", "not a JSON object"},
      {"{", "m.safetensors:1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "a"},
      {R"({"a":3})", "tensor \"a\": not an object"},
      {R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "no \"dtype\""},
      {R"({"a":{"dtype":"F128","shape":[1],"data_offsets":[0,1]}})", "\"F128\" is not known"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "no array \"shape\""},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "holds -1"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "holds 1.0"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "no array \"data_offsets\""},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "[begin, end]"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "[begin, end]"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", "unknown key \"more\""},
      {R"({"__metadata__":[]})", "not an object"},
      {R"({"__metadata__":{"n":1}})", "the value of \"n\" is not a text"},
  }));
  CAPTURE(header);
  CHECK_THAT(refusal_of_header(header, 1), Contains(reason));
}

TEST_CASE("a size that does not fit its bytes is refused") {
  const auto [shape, type, reason] = GENERATE(table<std::string, std::string, std::string>({
      {"[3]", "F32", "need 12 bytes, \"data_offsets\" give it 8"},
      {"[4294967296,4294967296]", "F32", "no size in bytes"},
      {"[18446744073709551615,0]", "F32", "no size in bytes"},
      {"[9223372036854775807]", "F32", "no size in bytes"},
      {"[3]", "F4", "no size in bytes"},
      {"[0]", "F32", "need 0 bytes"},
  }));
  const std::string header = R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,8]}})";
  CAPTURE(header);
  CHECK_THAT(refusal_of_header(header, 8), Contains(reason));
}

TEST_CASE("byte ranges that overlap, leave a hole or miss the end of the file are refused") {
  const auto two = [](int a, int b, int c, int d) {
    return fmt::format(
        R"({{"x":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},"y":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
        b - a, a, b, d - c, c, d);
  };
  CHECK(refusal_of_header(two(0, 3, 3, 8), 8) == "no error");
  CHECK(refusal_of_header(two(5, 8, 0, 5), 8) == "no error");
  CHECK_THAT(refusal_of_header(two(0, 4, 3, 8), 8), Contains("\"y\" begins at byte 3, before the end 4"));
  CHECK_THAT(refusal_of_header(two(0, 8, 0, 8), 8), Contains("before the end 8"));
  CHECK_THAT(refusal_of_header(two(0, 3, 5, 8), 8), Contains("bytes 3 to 5 before tensor \"y\""));
  CHECK_THAT(refusal_of_header(two(1, 3, 3, 8), 8), Contains("bytes 0 to 1 before tensor \"x\""));
  CHECK_THAT(refusal_of_header(two(0, 3, 3, 8), 7), Contains("\"y\" ends at byte 8 of 7"));
  CHECK_THAT(refusal_of_header(two(0, 3, 3, 8), 9), Contains("the tensors end at byte 8, the data at 9"));
}

TEST_CASE("a file that is absent is an error with its name") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { const SafetensorsFile file(folder.path() / "none.safetensors"); }),
             Contains("none.safetensors"));
}

}  // namespace
}  // namespace tessera::checkpoint
