// If this failed, training could start from a checkpoint that was read in part only, or into the wrong place.
#include "checkpoint/huggingface.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/stored_file.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;
using Specs = std::vector<base::ParameterSpec>;

const std::string experts = "model.layers.0.mlp.experts.";

// Three experts of 5 x 7, an embedding, a head.
Specs specs() {
  return {{"model.embed_tokens.weight", {3, 7}},
          {experts + "gate_proj", {3, 5, 7}, base::FusedPart{experts + "gate_up_proj", 0, 2}},
          {experts + "up_proj", {3, 5, 7}, base::FusedPart{experts + "gate_up_proj", 1, 2}},
          {experts + "down_proj", {3, 7, 5}},
          {"lm_head.weight", {3, 7}}};
}

std::vector<TestTensor> per_expert() {
  std::vector<TestTensor> tensors{{"model.embed_tokens.weight", {3, 7}, 0}, {"lm_head.weight", {3, 7}, 50}};
  for (int e = 0; e < 3; ++e) {
    const std::string prefix = experts + std::to_string(e);
    const auto base = static_cast<float>(1000 * e);
    tensors.push_back({prefix + ".gate_proj.weight", {5, 7}, base + 100});
    tensors.push_back({prefix + ".up_proj.weight", {5, 7}, base + 200});
    tensors.push_back({prefix + ".down_proj.weight", {7, 5}, base + 300});
  }
  return tensors;
}

void drop(std::vector<TestTensor>& tensors, const std::string& name) {
  std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
}

std::string refusal(const std::vector<TestTensor>& tensors, const Specs& parameters) {
  const test::TempFolder folder;
  folder.write("model.safetensors", file_of(tensors));
  return test::error_of([&] { const HuggingFaceCheckpoint checkpoint(folder.path(), parameters); });
}

TEST_CASE("one tensor an expert becomes one piece an expert") {
  const test::TempFolder folder;
  const HuggingFaceCheckpoint checkpoint(folder.write("any.safetensors", file_of(per_expert())), specs());
  const StoredParameter& up = checkpoint.parameter(experts + "up_proj");
  REQUIRE(up.pieces.size() == 3);
  CHECK(up.pieces[2].tensor->name == experts + "2.up_proj.weight");
  CHECK((up.pieces[2].box.dims == std::vector<layout::Block>{{2, 3}, {0, 5}, {0, 7}}));
  CHECK(up.pieces[2].offset == 0);
  CHECK(checkpoint.parameter("lm_head.weight").pieces.size() == 1);
}

TEST_CASE("gate and up lie one after the other in each expert of a fused tensor") {
  const test::TempFolder folder;
  folder.write("model.safetensors", file_of({{"model.embed_tokens.weight", {3, 7}, 0},
                                             {"lm_head.weight", {3, 7}, 0},
                                             {experts + "gate_up_proj", {3, 10, 7}, 0},
                                             {experts + "down_proj", {3, 7, 5}, 0}}));
  const HuggingFaceCheckpoint checkpoint(folder.path(), specs());
  const StoredPiece& gate = checkpoint.parameter(experts + "gate_proj").pieces.at(0);
  const StoredPiece& up = checkpoint.parameter(experts + "up_proj").pieces.at(0);
  CHECK(gate.offset == 0);
  CHECK(up.offset == 35);
  CHECK(up.strides == std::vector<std::int64_t>{70, 7, 1});
  CHECK(up.tensor == gate.tensor);
}

TEST_CASE("stacked experts under our own names are read as they are") {
  const test::TempFolder folder;
  std::vector<TestTensor> tensors;
  for (const base::ParameterSpec& spec : specs()) tensors.push_back({spec.fqn, spec.shape, 0});
  folder.write("model.safetensors", file_of(tensors));
  const HuggingFaceCheckpoint checkpoint(folder.path(), specs());
  CHECK(checkpoint.parameter(experts + "gate_proj").pieces.at(0).strides == std::vector<std::int64_t>{35, 7, 1});
}

TEST_CASE("everything that is missing, unknown or of another shape is listed at once") {
  auto tensors = per_expert();
  drop(tensors, "model.embed_tokens.weight");
  drop(tensors, experts + "1.up_proj.weight");
  for (int e = 0; e < 3; ++e) drop(tensors, experts + std::to_string(e) + ".down_proj.weight");
  tensors.push_back({experts + "3.up_proj.weight", {5, 7}, 0});
  tensors.push_back({"model.layers.0.mlp.shared_expert.up_proj.weight", {2, 7}, 0});
  for (TestTensor& tensor : tensors)
    if (tensor.name == experts + "0.gate_proj.weight") tensor.shape = {7, 5};
  const std::string message = refusal(tensors, specs());
  CHECK_THAT(message, Contains("missing: model.embed_tokens.weight [3, 7]"));
  CHECK_THAT(message, Contains("missing: model.layers.0.mlp.experts.{1}.up_proj.weight [5, 7]"));
  CHECK_THAT(message, Contains("missing: model.layers.0.mlp.experts.down_proj [3, 7, 5]"));
  CHECK_THAT(message, Contains("not a tensor of this model: model.layers.0.mlp.experts.3.up_proj.weight [5, 7]"));
  CHECK_THAT(message, Contains("not a tensor of this model: model.layers.0.mlp.shared_expert.up_proj.weight [2, 7]"));
  CHECK_THAT(message, Contains("experts.0.gate_proj.weight has the shape [7, 5], the model needs [5, 7]"));
  CHECK_THAT(message, Contains("6 problems"));
}

TEST_CASE("a fused tensor of the wrong shape is named once") {
  const std::string message = refusal({{"model.embed_tokens.weight", {3, 7}, 0},
                                       {"lm_head.weight", {3, 7}, 0},
                                       {experts + "gate_up_proj", {3, 7, 10}, 0},
                                       {experts + "down_proj", {3, 7, 5}, 0}},
                                      specs());
  CHECK_THAT(message, Contains("gate_up_proj has the shape [3, 7, 10], the model needs [3, 10, 7]"));
  CHECK_THAT(message, !Contains("problems"));
}

TEST_CASE("the same experts in two forms are refused") {
  auto tensors = per_expert();
  tensors.push_back({experts + "down_proj", {3, 7, 5}, 0});
  CHECK_THAT(refusal(tensors, specs()),
             Contains("not a tensor of this model: model.layers.0.mlp.experts.2.down_proj.weight"));
}

TEST_CASE("a type that is not a floating type of ours is refused") {
  const test::TempFolder folder;
  folder.write("model.safetensors", file_bytes(R"({"norm":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})", 3));
  CHECK_THAT(test::error_of([&] {
               const HuggingFaceCheckpoint c(folder.path(), {{"norm", {3}}});
             }),
             Contains("norm is of type I8"));
}

TEST_CASE("a tied head may be absent, may be a copy of the embedding, and may be nothing else") {
  const Specs tied{{"model.embed_tokens.weight", {3, 7}}};
  CHECK(refusal({{"model.embed_tokens.weight", {3, 7}, 4}}, tied) == "no error");
  CHECK(refusal({{"model.embed_tokens.weight", {3, 7}, 4}, {"lm_head.weight", {3, 7}, 4}}, tied) == "no error");
  CHECK_THAT(refusal({{"model.embed_tokens.weight", {3, 7}, 4}, {"lm_head.weight", {3, 7}, 5}}, tied),
             Contains("lm_head.weight differs from model.embed_tokens.weight"));
  const Specs untied{{"model.embed_tokens.weight", {3, 7}}, {"lm_head.weight", {3, 7}}};
  CHECK_THAT(refusal({{"model.embed_tokens.weight", {3, 7}, 4}}, untied), Contains("tie_word_embeddings true"));
}

TEST_CASE("shards and index must agree") {
  const test::TempFolder folder;
  folder.write("one.safetensors", file_of({{"a", {3}, 0}, {"b", {2}, 0}}));
  folder.write("two.safetensors", file_of({{"c", {5}, 0}}));
  const Specs parameters{{"a", {3}}, {"b", {2}}, {"c", {5}}};
  const auto refusal_of_index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":40},"weight_map":)" + map + "}");
    return test::error_of([&] { const HuggingFaceCheckpoint checkpoint(folder.path(), parameters); });
  };
  CHECK(refusal_of_index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})") == "no error");
  CHECK_THAT(refusal_of_index(R"({"a":"one.safetensors","c":"two.safetensors"})"),
             Contains("one.safetensors holds b, which the index"));
  CHECK_THAT(refusal_of_index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})"),
             Contains("the index lists b in two.safetensors, which does not hold it"));
  CHECK_THAT(refusal_of_index(R"({"a":"../one.safetensors"})"), Contains("not the name of a file beside the index"));
  CHECK_THAT(refusal_of_index(R"({"a":1})"), Contains("the file of \"a\" is not a text"));
  CHECK_THAT(refusal_of_index("[]"), Contains("no object \"weight_map\""));
  CHECK_THAT(refusal_of_index(R"({"a":"three.safetensors"})"), Contains("three.safetensors"));
}

TEST_CASE("the error of a folder without weights names the files that were looked for") {
  const test::TempFolder folder;
  const auto open = [&] { const HuggingFaceCheckpoint checkpoint(folder.path(), specs()); };
  CHECK_THAT(test::error_of(open), Contains("neither model.safetensors nor model.safetensors.index.json"));
  folder.write("pytorch_model.bin", "x");
  CHECK_THAT(test::error_of(open), Contains("pytorch_model.bin files are not read"));
}

}  // namespace
}  // namespace tessera::checkpoint
