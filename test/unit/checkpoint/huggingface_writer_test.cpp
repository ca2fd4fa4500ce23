// If this failed, a trained model would reach HuggingFace transposed, swapped, incomplete, or rounded without a
// request.
#include "checkpoint/huggingface_writer.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/companions.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/huggingface_import.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/stored_checkpoint.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/huggingface_folder.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/converted_files.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

constexpr const char* embedding = "model.embed_tokens.weight";

nlohmann::json json_in(const fs::path& file) {
  return base::parse_json_file(file, base::JsonComments::refused).value();
}

TEST_CASE("a checkpoint of HuggingFace's weights has each of them in its place") {
  for (const auto sizes : {Sizes::coprime, Sizes::square, Sizes::square_fused}) {
    const ConvertedFiles files(sizes);
    StoredCheckpoint stored(files.checkpoint());
    CHECK(stored.manifest().progress == Progress{});
    CHECK(stored.manifest().settings == "null");
    std::uint32_t bits = 0x3e800000;
    for (const auto& p : parameters_of(files.config())) {
      INFO(p.fqn);
      const auto whole = layout::whole_box(p.shape);
      const auto weights = read_box(stored.parts(p.fqn, "master", whole), whole, at::kFloat);
      for (std::int64_t k = 0; k < weights.numel(); ++k, ++bits) {
        std::uint32_t found = 0;
        std::memcpy(&found, weights.const_data_ptr<float>() + k, sizeof found);
        REQUIRE(found == bits);
      }
    }
  }
}

TEST_CASE("weights go in and out bit for bit, under the same names and in the same type, whatever their shapes") {
  for (const auto sizes : {Sizes::coprime, Sizes::square, Sizes::square_fused})
    for (const auto type : {ElementType::F32, ElementType::BF16, ElementType::F16}) {
      CAPTURE(static_cast<int>(sizes), name(type));
      const ConvertedFiles files(sizes, type);
      const auto written = files.write();
      CHECK(written.type == type);
      CHECK(names_in(files.out()) == std::set<std::string>{"config.json", "model.safetensors"});
      CHECK(read_tensors(files.out(), type) == separate_tensors(files.config(), type));
      CHECK(base::read_file(files.out() / "model.safetensors") == base::read_file(files.in() / "model.safetensors"));
    }
}

TEST_CASE("fused experts have gate's rows, then up's, of each expert, and are read back as they were") {
  for (const auto sizes : {Sizes::coprime, Sizes::square, Sizes::square_fused}) {
    const ConvertedFiles files(sizes);
    files.write({.experts = ExpertForm::fused});
    CHECK(read_tensors(files.out(), ElementType::F32) == fused_tensors(files.config(), ElementType::F32));
    const auto again = files.folder() / "again";
    import_huggingface(files.out(), again, {}, solo());
    CHECK(base::read_file(again / "shard_00000.safetensors") ==
          base::read_file(files.checkpoint() / "shard_00000.safetensors"));
  }
}

TEST_CASE("float64 masters keep float64 weights, and are written as float64") {
  const ConvertedFiles files(Sizes::coprime, ElementType::F64, ElementType::F64);
  CHECK(files.write().type == ElementType::F64);
  CHECK(read_tensors(files.out(), ElementType::F64) == separate_tensors(files.config(), ElementType::F64));
  const auto narrow = files.folder() / "narrow";
  CHECK(import_huggingface(files.in(), narrow, {}, solo()).rounded_tensors > 10);
  CHECK(read_manifest(narrow).tensors.front().type == ElementType::F32);
}

TEST_CASE("weights that were trained keep the masters' type, whatever type they began in") {
  const ConvertedFiles files(Sizes::coprime, ElementType::BF16);
  auto manifest = read_manifest(files.checkpoint());
  manifest.settings = "{}";
  std::ofstream(files.checkpoint() / "manifest.json", std::ios::binary) << to_text(manifest);
  CHECK(files.write().type == ElementType::F32);
}

TEST_CASE("small files are filled in order, hold every tensor once, and their index says where") {
  const ConvertedFiles files;
  constexpr std::uint64_t most = 600;
  files.write({.max_file_bytes = most});
  const auto index = json_in(files.out() / "model.safetensors.index.json");
  const auto expected = separate_tensors(files.config(), ElementType::F32);
  CHECK(read_tensors(files.out(), ElementType::F32) == expected);
  CHECK(index["weight_map"].size() == expected.size());
  std::uint64_t bytes = 0, full = 0;
  const auto names = names_in(files.out());
  const auto count = names.size() - 2;
  CHECK(count > 5);
  for (std::size_t f = 1; f <= count; ++f) {
    const auto file_name = fmt::format("model-{:05}-of-{:05}.safetensors", f, count);
    REQUIRE(names.contains(file_name));
    const SafetensorsFile file(files.out() / file_name);
    CHECK(file.metadata().at("format") == "pt");
    std::uint64_t data = 0;
    for (const auto& tensor : file.tensors()) {
      CHECK(index["weight_map"][tensor.name] == file_name);
      data += tensor.end - tensor.begin;
    }
    CHECK((data <= most || file.tensors().size() == 1));
    full += data <= most && file.tensors().size() > 1 ? 1 : 0;
    bytes += data;
  }
  CHECK(full > 2);
  CHECK(index["metadata"]["total_size"] == bytes);
  CHECK(index["metadata"]["total_parameters"] == bytes / 4);
  const HuggingFaceCheckpoint read(files.out(), parameters_of(files.config()));
  CHECK(read.files().size() == count);
}

TEST_CASE("a tied head is written once, as the embedding") {
  const test::TempFolder folder;
  auto config = small_config(Sizes::coprime);
  config.tie_word_embeddings = true;
  auto tensors = separate_tensors(config, ElementType::F32);
  CHECK_FALSE(tensors.contains("lm_head.weight"));
  write_folder(folder / "in", config, tensors, ElementType::F32);
  import_huggingface(folder / "in", folder / "ck", {}, solo());
  write_huggingface(folder / "ck", folder / "out", {}, solo());
  CHECK(read_tensors(folder / "out", ElementType::F32) == tensors);
  CHECK(json_in(folder / "out" / "config.json")["tie_word_embeddings"] == true);
}

TEST_CASE("config.json comes out as it went in, but for the spellings and the type that are added") {
  const test::TempFolder folder;
  const auto config = small_config(Sizes::coprime);
  write_folder(folder / "in", config, separate_tensors(config, ElementType::BF16), ElementType::BF16);
  auto source = json_in(folder / "in" / "config.json");
  for (const char* key : {"num_experts", "rope_theta"}) source.erase(key);
  source["head_dim"] = 4;
  source["rope_parameters"] = {{"rope_theta", 77.5}, {"rope_type", "default"}};
  source["rms_norm_eps"] = 1e-3;
  source["eos_token_id"] = {3, 4};
  source["pad_token_id"] = nullptr;
  source["_name_or_path"] = "somewhere";
  source["dtype"] = "float32";  // which the tensors are not
  folder.write("in/config.json", source.dump());
  import_huggingface(folder / "in", folder / "ck", {}, solo());
  write_huggingface(folder / "ck", folder / "out", {}, solo());
  auto written = json_in(folder / "out" / "config.json");
  CHECK(written["num_experts"] == 5);
  CHECK(written["rope_theta"] == 77.5);
  CHECK(written["dtype"] == "bfloat16");
  CHECK(written["torch_dtype"] == "bfloat16");
  CHECK(written["architectures"] == nlohmann::json{"Qwen3MoeForCausalLM"});
  for (const char* key : {"num_experts", "rope_theta", "torch_dtype"}) written.erase(key);
  source["dtype"] = "bfloat16";
  CHECK(written == source);
}

TEST_CASE("a head_dim that config.json leaves out is written as the number that it stands for") {
  const test::TempFolder folder;
  auto config = small_config(Sizes::square);  // hidden 6
  config.num_attention_heads = 3;
  config.head_dim = 2;
  write_folder(folder / "in", config, separate_tensors(config, ElementType::F32), ElementType::F32);
  auto source = json_in(folder / "in" / "config.json");
  source.erase("head_dim");
  folder.write("in/config.json", source.dump());
  import_huggingface(folder / "in", folder / "ck", {}, solo());
  write_huggingface(folder / "ck", folder / "out", {}, solo());
  CHECK(json_in(folder / "out" / "config.json")["head_dim"] == 2);
}

TEST_CASE("bfloat16 is rounded to nearest even when it is asked for") {
  const ConvertedFiles files;
  CHECK(files.write({.type = ElementType::BF16}).type == ElementType::BF16);
  std::uint32_t bits = 0x3e800000;
  const auto tensors = read_tensors(files.out(), ElementType::BF16);
  for (const auto& p : parameters_of(files.config())) {
    const auto found = tensors.find(p.fqn);
    for (std::int64_t k = 0; k < layout::whole_box(p.shape).elements(); ++k, ++bits) {
      if (found == tensors.end()) continue;
      std::uint16_t half = 0;
      std::memcpy(&half, found->second.data() + 2 * k, sizeof half);
      const auto low = bits & 0xffff;  // what is cut off
      const bool up = low > 0x8000 || (low == 0x8000 && ((bits >> 16) & 1) != 0);
      REQUIRE(half == (bits >> 16) + (up ? 1 : 0));
    }
  }
  CHECK(json_in(files.out() / "config.json")["dtype"] == "bfloat16");
}

TEST_CASE("a weight that float16 cannot hold is named, not made infinite") {
  const test::TempFolder folder;
  const auto config = small_config(Sizes::coprime);
  auto tensors = separate_tensors(config, ElementType::F32);
  const float large = 70000;
  std::memcpy(tensors.at("model.norm.weight").data() + 8, &large, sizeof large);
  write_folder(folder / "in", config, tensors, ElementType::F32);
  import_huggingface(folder / "in", folder / "ck", {}, solo());
  const auto error =
      test::error_of([&] { write_huggingface(folder / "ck", folder / "out", {.type = ElementType::F16}, solo()); });
  CHECK_THAT(error, ContainsSubstring("model.norm.weight has a weight of 70000"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"in", "ck"});
}

TEST_CASE("a file or folder in the way of the new folder is refused and left alone") {
  const ConvertedFiles files;
  fs::create_directories(files.out());
  CHECK(files.refusal() == "no error");  // an empty folder
  const auto before = names_in(files.out());
  CHECK_THAT(files.refusal(), ContainsSubstring("out exists already"));
  CHECK(names_in(files.out()) == before);
  fs::remove_all(files.out());
  files.folder().write("out.tmp/kept", "x");
  CHECK_THAT(files.refusal(), ContainsSubstring("out.tmp exists: another process is writing it"));
  CHECK(names_in(files.folder() / "out.tmp") == std::set<std::string>{"kept"});
  CHECK_THAT(test::error_of([&] { import_huggingface(files.in(), files.checkpoint(), {}, solo()); }),
             ContainsSubstring("ck exists already"));
}

TEST_CASE("a caller that keeps others out replaces an older folder, and one that was left unfinished") {
  const ConvertedFiles files;
  files.folder().write("out/model-00001-of-00002.safetensors", "old");
  files.folder().write("out.tmp/left", "x");
  files.write({.existing = ExistingFolder::replace, .own = {"model-00001-of-00002.safetensors"}});
  CHECK(names_in(files.out()) == std::set<std::string>{"config.json", "model.safetensors"});
  CHECK(names_in(files.folder().path()) == std::set<std::string>{"in", "ck", "out"});
}

TEST_CASE("a replaced folder keeps the files that the caller did not write, and a model there is refused") {
  const ConvertedFiles files;
  files.folder().write("in/tokenizer.json", "of the source");
  files.folder().write("in/generation_config.json", "{}");
  import_huggingface(files.in(), files.folder() / "more", {}, solo());
  const auto write = [&](const std::set<std::string>& own) {
    return write_huggingface(files.folder() / "more", files.out(), {.existing = ExistingFolder::replace, .own = own},
                             solo());
  };
  const auto first = write({});
  CHECK(first.names ==
        std::vector<std::string>{"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"});
  CHECK(first.others.empty());
  files.folder().write("out/tokenizer.json", "mine");
  files.folder().write("out/sub/folder/notes.txt", "mine too");
  fs::create_symlink("nowhere", files.out() / "link");
  const auto second = write({"model.safetensors", "config.json", "generation_config.json"});
  CHECK(second.names == std::vector<std::string>{"model.safetensors", "config.json", "generation_config.json"});
  CHECK(second.others == std::vector<std::string>{"link", "sub", "tokenizer.json"});
  CHECK(base::read_file(files.out() / "tokenizer.json") == "mine");
  CHECK(base::read_file(files.out() / "sub/folder/notes.txt") == "mine too");
  CHECK(fs::is_symlink(files.out() / "link"));
  CHECK_FALSE(fs::exists(files.folder() / "out.tmp"));
  for (const char* name :
       {"model.safetensors", "config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    INFO(name);
    const auto there = base::read_file(files.out() / "config.json");
    files.folder().write("out/" + std::string(name), "mine");
    auto own = names_in(files.out());
    own.erase(name);
    CHECK_THAT(test::error_of([&] { write(own); }),
               ContainsSubstring(std::string("out/") + name + " was not written there by a run"));
    CHECK(base::read_file(files.out() / name) == "mine");
    fs::remove(files.out() / name);
    files.folder().write("out/config.json", there);
  }
}

TEST_CASE("companions of a model are the files that save_pretrained writes beside it, never weights or other files") {
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                           "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
                           "chat_template.jinja", "preprocessor_config.json", "qwen.tiktoken", "LICENSE", "LICENSE.md"})
    CHECK(is_companion(name));
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "corpus.jsonl", "manifest.json", "shard_00000.safetensors", "expected.json", "README.md"})
    CHECK_FALSE(is_companion(name));
}

TEST_CASE("a flipped bit anywhere in the checkpoint is named, and nothing is written") {
  const ConvertedFiles files;
  const auto path = files.checkpoint() / "shard_00000.safetensors";
  const auto good = base::read_file(path);
  for (const std::size_t at : {std::size_t{3}, std::size_t{40}, good.size() / 2, good.size() - 1}) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    std::ofstream(path, std::ios::binary) << bad;
    CHECK_THAT(files.refusal(), ContainsSubstring("shard_00000.safetensors"));
    if (at > good.size() / 3) CHECK_THAT(files.refusal(), ContainsSubstring("tensor master/"));
  }
  std::ofstream(path, std::ios::binary) << good;
  CHECK(names_in(files.folder().path()) == std::set<std::string>{"in", "ck"});
}

TEST_CASE("a checkpoint without a weight of its model, or with one that is not the model's, is refused") {
  const ConvertedFiles files;
  auto manifest = read_manifest(files.checkpoint());
  const auto whole = manifest;
  std::erase_if(manifest.tensors, [](const ManifestTensor& t) { return t.parameter.fqn == embedding; });
  std::ofstream(files.checkpoint() / "manifest.json", std::ios::binary) << to_text(manifest);
  CHECK_THAT(files.refusal(), ContainsSubstring(std::string("it has no ") + embedding));
  manifest = whole;
  manifest.tensors.front().parameter.fqn = "model.other.weight";
  std::ofstream(files.checkpoint() / "manifest.json", std::ios::binary) << to_text(manifest);
  CHECK_THAT(files.refusal(), ContainsSubstring("the model has no model.other.weight"));
}

TEST_CASE("a HuggingFace folder with a tensor too few or too many becomes no checkpoint") {
  const ConvertedFiles files;
  auto tensors = separate_tensors(files.config(), ElementType::F32);
  tensors.erase("model.layers.2.mlp.experts.3.up_proj.weight");
  tensors["model.layers.9.mlp.experts.0.up_proj.weight"] = tensors.at("model.layers.2.mlp.experts.2.up_proj.weight");
  write_folder(files.folder() / "odd", files.config(), tensors, ElementType::F32);
  const auto error = test::error_of([&] { import_huggingface(files.folder() / "odd", files.out(), {}, solo()); });
  CHECK_THAT(error, ContainsSubstring("missing: model.layers.2.mlp.experts.{3}.up_proj.weight"));
  CHECK_THAT(error, ContainsSubstring("not a tensor of this model: model.layers.9.mlp.experts.0.up_proj.weight"));
  CHECK_FALSE(fs::exists(files.out()));
}

TEST_CASE("config.json may stand elsewhere, and its absence is named") {
  const ConvertedFiles files;
  const auto elsewhere = files.folder() / "elsewhere.json";
  fs::rename(files.in() / "config.json", elsewhere);
  CHECK_THAT(test::error_of([&] { import_huggingface(files.in(), files.out(), {}, solo()); }),
             ContainsSubstring("in/config.json"));
  import_huggingface(files.in() / "model.safetensors", files.out(), {.config = elsewhere}, solo());
  CHECK(base::read_file(files.out() / "manifest.json") == base::read_file(files.checkpoint() / "manifest.json"));
}

TEST_CASE("masters are float32 or float64") {
  const ConvertedFiles files;
  CHECK_THAT(test::error_of([&] { import_huggingface(files.in(), files.out(), {.type = ElementType::BF16}, solo()); }),
             ContainsSubstring("float32 or float64, not bfloat16"));
}

}  // namespace
}  // namespace tessera::checkpoint
