// If this failed, a checkpoint would be misread, or a false manifest would be believed.
#include "checkpoint/manifest.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/sealed_json.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::json;

// Two files, a parameter in four pieces, one in one piece, one that is empty.
Manifest example() {
  Manifest m;
  m.progress = {.step = 9,
                .optimizer_steps = 7,
                .skipped_steps = 2,
                .total_steps = 20,
                .tokens = 4711,
                .global_batch = 12,
                .micro_step = 4,
                .evaluated_at = 8,
                .epoch = 1,
                .window = 5,
                .data_hash = 0x0123456789abcdefULL,
                .data_fingerprint = 1,
                .data_content = 2,
                .held_out_fingerprint = ~0ULL};
  m.layout = "3 ranks: dp_shard 3; \"ep\" 3";
  m.settings = R"({"train":{"seed":42}})";
  m.model = R"({"hidden_size":4})";
  for (std::uint64_t k = 0; k < 4; ++k)
    m.files.push_back({"shard_0000" + std::to_string(k) + ".safetensors", 100 + k, ~k});
  m.tensors.push_back({{"w", {5, 4}}, ElementType::F32, {"master", "exp_avg"}, {}});
  auto& pieces = m.tensors.back().pieces;
  pieces.push_back({0, {{{0, 3}, {0, 2}}}, {1, 2}});
  pieces.push_back({1, {{{0, 3}, {2, 4}}}, {3, 4}});
  pieces.push_back({3, {{{3, 5}, {0, 3}}}, {5, 0xffffffffffffffffULL}});
  pieces.push_back({2, {{{3, 5}, {3, 4}}}, {7, 8}});
  m.tensors.push_back({{"norm", {3}}, ElementType::F64, {"master"}, {{1, {{{0, 3}}}, {9}}}});
  m.tensors.push_back({{"none", {0, 4}}, ElementType::F32, {"master"}, {}});
  m.companions = {{"tokenizer.json", 0, 1}, {"merges.txt", 12, 0xfedcba9876543210ULL}};
  return m;
}

Json json_of(const Manifest& manifest) { return Json::parse(to_text(manifest)); }

// Returns the refusal of the example after a change.
std::string refusal(const std::function<void(Json&)>& change) {
  auto json = json_of(example());
  change(json);
  return test::error_of([&] { static_cast<void>(parse_manifest(json.dump(), "the manifest")); });
}

TEST_CASE("a manifest gives back all that it was made of") {
  const test::TempFolder folder;
  const auto m = example();
  folder.write("manifest.json", to_text(m));
  const auto read = read_manifest(folder.path());
  CHECK(read.progress == m.progress);
  CHECK(read.layout == m.layout);
  CHECK(Json::parse(read.settings) == Json::parse(m.settings));
  CHECK(Json::parse(read.model) == Json::parse(m.model));
  REQUIRE(read.files.size() == m.files.size());
  for (std::size_t k = 0; k < m.files.size(); ++k) {
    CHECK(read.files[k].name == m.files[k].name);
    CHECK(read.files[k].bytes == m.files[k].bytes);
    CHECK(read.files[k].header_hash == m.files[k].header_hash);
  }
  REQUIRE(read.companions.size() == 2);
  CHECK(read.companions[0].name == "tokenizer.json");
  CHECK(read.companions[1].bytes == 12);
  CHECK(read.companions[1].hash == 0xfedcba9876543210ULL);
  REQUIRE(read.tensors.size() == m.tensors.size());
  for (std::size_t t = 0; t < m.tensors.size(); ++t) {
    CHECK(read.tensors[t].parameter == m.tensors[t].parameter);
    CHECK(read.tensors[t].type == m.tensors[t].type);
    CHECK(read.tensors[t].states == m.tensors[t].states);
    REQUIRE(read.tensors[t].pieces.size() == m.tensors[t].pieces.size());
    for (std::size_t p = 0; p < m.tensors[t].pieces.size(); ++p) {
      CHECK(read.tensors[t].pieces[p].file == m.tensors[t].pieces[p].file);
      CHECK(read.tensors[t].pieces[p].box == m.tensors[t].pieces[p].box);
      CHECK(read.tensors[t].pieces[p].hashes == m.tensors[t].pieces[p].hashes);
    }
  }
  CHECK(to_text(read) == to_text(m));
}

TEST_CASE("weights that nothing trained have no settings") {
  auto m = example();
  m.settings = "null";
  m.progress = {};
  const auto read = parse_manifest(to_text(m), "the manifest");
  CHECK(read.settings == "null");
  CHECK(read.progress == Progress{});
}

TEST_CASE("a manifest that is absent, damaged or cut is an error with its name") {
  const test::TempFolder folder;
  const auto read = [&] { return test::error_of([&] { static_cast<void>(read_manifest(folder.path())); }); };
  CHECK_THAT(read(), Contains("manifest.json"));
  const auto text = to_text(example());
  auto damaged = text;
  damaged[text.find("4711")] = '5';
  folder.write("manifest.json", damaged);
  CHECK_THAT(read(), Contains("manifest.json is damaged: its hash is"));
  folder.write("manifest.json", text.substr(0, text.size() / 2));
  CHECK_THAT(read(), Contains("manifest.json does not end with its hash"));
  folder.write("manifest.json", text);
  CHECK(read() == "no error");
}

TEST_CASE("another format and a newer version are refused, with the way out") {
  CHECK_THAT(refusal([](Json& j) { j["format"] = "other"; }), Contains("\"other\", not \"tessera checkpoint\""));
  const auto newer = refusal([](Json& j) { j["version"] = 2; });
  CHECK_THAT(newer, Contains("format version 2; this program reads versions up to 1: use a newer Tessera"));
  CHECK_THAT(refusal([](Json& j) { j["version"] = 0; }), Contains("at least 1"));
  // Before anything else of it is looked at: a newer one may have other members.
  CHECK_THAT(refusal([](Json& j) {
               j["version"] = 3;
               j.erase("tensors");
               j.erase("progress");
             }),
             Contains("use a newer Tessera"));
}

TEST_CASE("a member that is missing or of another type is named") {
  for (const char* key : {"format", "version", "progress", "layout", "model", "settings", "files", "tensors"}) {
    CAPTURE(key);
    CHECK_THAT(refusal([&](Json& j) { j.erase(key); }), Contains(std::string("no \"") + key + '"'));
  }
  const std::vector<std::pair<std::string, std::vector<std::string>>> members{
      {"/progress",
       {"step", "optimizer_steps", "skipped_steps", "total_steps", "tokens", "global_batch", "micro_step",
        "evaluated_at", "epoch", "window", "data_hash"}},
      {"/files/1", {"name", "bytes", "header_hash"}},
      {"/companions/0", {"name", "bytes", "hash"}},
      {"/tensors/0", {"name", "dtype", "shape", "states", "pieces"}},
      {"/tensors/0/pieces/2", {"file", "box", "hashes"}}};
  for (const auto& [place, keys] : members)
    for (const auto& key : keys) {
      CAPTURE(place, key);
      const Json::json_pointer pointer(place);
      CHECK_THAT(refusal([&](Json& j) { j.at(pointer).erase(key); }), Contains('"' + key + '"'));
      for (const auto& value : {Json(true), Json(nullptr), Json(1.5), Json(Json::object()), Json("g123456789abcdef")}) {
        // A text is a legal name, and nothing else here.
        if (key == "name" && value.is_string()) continue;
        CAPTURE(value.dump());
        CHECK_THAT(refusal([&](Json& j) { j.at(pointer)[key] = value; }), Contains("the manifest"));
      }
    }
  CHECK_THAT(refusal([](Json& j) { j["files"][0] = 3; }), Contains("\"files\" is not an object"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0] = "w"; }), Contains("\"tensors\" is not an object"));
  CHECK_THAT(refusal([](Json& j) { j = Json::array(); }), Contains("is not an object"));
}

TEST_CASE("the hashes of data that earlier checkpoints lack may be absent, and are read if they are there") {
  for (const char* key : {"data_fingerprint", "data_content", "held_out_fingerprint"}) {
    CAPTURE(key);
    CHECK(refusal([&](Json& j) { j["progress"].erase(key); }) == "no error");
    CHECK_THAT(refusal([&](Json& j) { j["progress"][key] = "12"; }), Contains("16 hexadecimal digits"));
  }
}

TEST_CASE("numbers that are negative, too large or contradict each other are refused") {
  for (const char* key : {"step", "optimizer_steps", "tokens", "global_batch", "epoch", "window"}) {
    CAPTURE(key);
    CHECK_THAT(refusal([&](Json& j) { j["progress"][key] = -1; }), Contains(std::string("\"") + key + "\" is not an"));
    CHECK_THAT(refusal([&](Json& j) { j["progress"][key] = std::uint64_t{1} << 63; }), Contains("is not an integer"));
  }
  CHECK_THAT(refusal([](Json& j) { j["progress"]["evaluated_at"] = -2; }), Contains("evaluated_at"));
  CHECK(refusal([](Json& j) { j["progress"]["evaluated_at"] = -1; }) == "no error");
  for (const auto& [key, value] : {std::pair{"step", 21}, {"step", 8}, {"evaluated_at", 10}, {"skipped_steps", 3}}) {
    CAPTURE(key, value);
    CHECK_THAT(refusal([&, key = key, value = value](Json& j) { j["progress"][key] = value; }),
               Contains("contradict each other"));
  }
  const auto huge = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal([&](Json& j) {
               j["progress"]["optimizer_steps"] = huge;
               j["progress"]["skipped_steps"] = huge;
             }),
             Contains("contradict each other"));
}

TEST_CASE("a file name with a path in it, or of two files, is refused") {
  for (const char* name : {"", ".", "..", "../shard", "/etc/passwd", "a/b", "a/", "./a"}) {
    CAPTURE(name);
    CHECK_THAT(refusal([&](Json& j) { j["files"][1]["name"] = name; }), Contains("is not the name of a file beside"));
  }
  CHECK_THAT(refusal([](Json& j) { j["files"][1]["name"] = "shard_00000.safetensors"; }),
             Contains("file \"shard_00000.safetensors\" is listed twice"));
  for (const char* name : {"", "../a", "a/b"})
    CHECK_THAT(refusal([&](Json& j) { j["companions"][0]["name"] = name; }),
               Contains("is not the name of a file beside"));
  for (const char* name : {"merges.txt", "shard_00000.safetensors", "manifest.json"})
    CHECK_THAT(refusal([&](Json& j) { j["companions"][0]["name"] = name; }), Contains("twice"));
}

TEST_CASE("lengths that no file, or no disk, has are refused") {
  CHECK_THAT(refusal([](Json& j) { j["files"][1]["bytes"] = 7; }),
             Contains("\"bytes\" is not an integer of at least 8"));
  const auto huge = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal([&](Json& j) {
               j["files"][0]["bytes"] = huge;
               j["files"][1]["bytes"] = huge;
             }),
             Contains("together longer than any disk"));
}

TEST_CASE("a hash is sixteen lower-case digits") {
  for (const char* hash :
       {"", "123456789abcdef", "0123456789abcdef0", "0123456789ABCDEF", "0x23456789abcdef", " 123456789abcdef"}) {
    CAPTURE(hash);
    CHECK_THAT(refusal([&](Json& j) { j["tensors"][0]["pieces"][0]["hashes"][1] = hash; }),
               Contains("does not have 16 hexadecimal digits"));
    CHECK_THAT(refusal([&](Json& j) { j["files"][0]["header_hash"] = hash; }), Contains("16 hexadecimal digits"));
  }
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["pieces"][0]["hashes"].push_back("0123456789abcdef"); }),
             Contains("a piece has 3 hashes, but there are 2 states"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["pieces"][0]["hashes"].erase(0); }),
             Contains("a piece has 1 hashes, but there are 2 states"));
}

TEST_CASE("a parameter twice, a state is listed twice, and types that hold no weights are refused") {
  CHECK_THAT(refusal([](Json& j) { j["tensors"][1]["name"] = "w"; }), Contains("tensor \"w\" is listed twice"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["states"][1] = "master"; }),
             Contains("tensor \"w\": a state is listed twice"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["states"][1] = ""; }), Contains("a state has no name"));
  for (const char* type : {"I64", "F32 ", "f32", "U8", ""}) {
    CAPTURE(type);
    CHECK_THAT(refusal([&](Json& j) { j["tensors"][0]["dtype"] = type; }),
               Contains("is not one of F64, F32, BF16, F16"));
  }
}

TEST_CASE("a shape whose bytes do not fit 63 bits is refused") {
  for (const auto& shape : {Json{std::int64_t{1} << 31, std::int64_t{1} << 31},
                            Json{std::numeric_limits<std::int64_t>::max(), 1}, Json{std::int64_t{1} << 61, 4}}) {
    CAPTURE(shape.dump());
    CHECK_THAT(refusal([&](Json& j) { j["tensors"][0]["shape"] = shape; }), Contains("no size in bytes"));
  }
  CHECK_THAT(refusal([&](Json& j) { j["tensors"][0]["shape"] = {-5, -4}; }), Contains("\"shape\" is not an integer"));
}

TEST_CASE("a box that is empty, outside, turned or of other dims is refused") {
  const auto with_box = [](const Json& box) {
    return refusal([&](Json& j) { j["tensors"][0]["pieces"][0]["box"] = box; });
  };
  for (const char* box : {"[[0,0],[0,2]]", "[[2,1],[0,2]]", "[[0,6],[0,2]]", "[[0,3],[0,9223372036854775807]]"}) {
    CAPTURE(box);
    CHECK_THAT(with_box(Json::parse(box)),
               Contains("tensor \"w\": \"box\": block [") && Contains("does not lie within a dim of"));
  }
  CHECK_THAT(with_box(Json::parse("[[-1,3],[0,2]]")), Contains("not an integer of at least 0"));
  CHECK_THAT(with_box(Json::parse("[[0,3]]")), Contains("a box has 1 dims, but the shape has 2"));
  CHECK_THAT(with_box(Json::parse("[[0,3],[0,2],[0,1]]")), Contains("a box has 3 dims, but the shape has 2"));
  CHECK_THAT(with_box(Json::parse("[[0,3,1],[0,2]]")), Contains("not [begin, end]"));
  CHECK_THAT(with_box(Json::parse("[3,[0,2]]")), Contains("not [begin, end]"));
  CHECK_THAT(refusal([](Json& j) {
               j["tensors"][2]["pieces"].push_back(
                   Json::parse(R"({"file":0,"box":[[0,0],[0,4]],"hashes":["0123456789abcdef"]})"));
             }),
             Contains("within a dim of 0"));
}

TEST_CASE("pieces that overlap, leave a hole, or are in one file twice are refused") {
  const auto with = [](const char* pieces) {
    return refusal([&](Json& j) {
      auto list = Json::array();
      std::size_t file = 0;
      for (const auto& box : Json::parse(pieces))
        list.push_back({{"file", file++}, {"box", box}, {"hashes", {"0123456789abcdef", "0123456789abcdef"}}});
      j["tensors"][0]["pieces"] = list;
    });
  };
  CHECK(with("[[[0,5],[0,4]]]") == "no error");
  CHECK(with("[[[3,5],[0,4]],[[0,3],[3,4]],[[0,3],[0,3]]]") == "no error");
  // A pinwheel: no cut divides it.
  CHECK(with("[[[0,2],[0,3]],[[0,4],[3,4]],[[2,5],[0,3]],[[4,5],[3,4]]]") == "no error");
  CHECK_THAT(with("[]"), Contains("its pieces have 0 of its elements"));
  CHECK_THAT(with("[[[0,5],[0,3]]]"), Contains("its pieces have 15 of its elements"));
  CHECK_THAT(with("[[[0,5],[0,4]],[[4,5],[3,4]]]"), Contains("tensor \"w\": two of its pieces overlap"));
  CHECK_THAT(with("[[[0,3],[0,4]],[[2,4],[0,4]],[[4,5],[0,4]]]"), Contains("two of its pieces overlap"));
  // As many elements as the parameter has, one of them twice.
  CHECK_THAT(with("[[[0,4],[0,4]],[[3,4],[0,4]]]"), Contains("two of its pieces overlap"));
  CHECK_THAT(with("[[[0,2],[0,4]],[[3,5],[0,4]]]"), Contains("its pieces have 16 of its elements"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["pieces"][1]["file"] = 0; }), Contains("two pieces are in file 0"));
  CHECK_THAT(refusal([](Json& j) { j["tensors"][0]["pieces"][1]["file"] = 4; }),
             Contains("file 4 is not one of 4 files"));
}

TEST_CASE("overlapping pieces of a huge parameter are refused without their elements being summed") {
  const auto size = std::int64_t{1} << 59;
  CHECK_THAT(refusal([&](Json& j) {
               auto& tensor = j["tensors"][0];
               tensor["shape"] = {size};
               tensor["pieces"] = Json::array();
               for (std::size_t file = 0; file < 40; ++file) {
                 j["files"][file] = {{"name", std::to_string(file)}, {"bytes", 8}, {"header_hash", "0123456789abcdef"}};
                 tensor["pieces"].push_back(
                     {{"file", file}, {"box", {{0, size}}}, {"hashes", {"0123456789abcdef", "0123456789abcdef"}}});
               }
             }),
             Contains("two of its pieces overlap"));
}

TEST_CASE("texts that are no JSON of ours are refused with the source's name") {
  for (const char* text :
       {"", "{", "null", "[]", "3", "{\"format\": 3}", "{\"format\": \"tessera checkpoint\", \"format\": 1}"}) {
    CAPTURE(text);
    CHECK_THAT(test::error_of([&] { static_cast<void>(parse_manifest(text, "out/manifest.json")); }),
               Contains("out/manifest.json"));
  }
}

TEST_CASE("a stored name says state and parameter") {
  CHECK(stored_name("exp_avg", "model.norm.weight") == "exp_avg/model.norm.weight");
}

}  // namespace
}  // namespace tessera::checkpoint
