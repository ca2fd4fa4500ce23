// If this failed, weights of a HuggingFace checkpoint would land transposed, swapped or rounded in the wrong place.
// Fixture: test/oracle/make_huggingface_layouts.py, whose formulas are repeated here.
#include "checkpoint/reader.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/stored_file.h"

namespace tessera::checkpoint {
namespace {

constexpr std::int64_t experts = 3, hidden = 6, inner = 5;
const std::string stack = "model.layers.0.mlp.experts.";

// HuggingFace's names of the fixture's model, sorted as Python sorts them; the position is in the formula.
std::vector<base::ParameterSpec> names_of_model() {
  std::vector<base::ParameterSpec> list{{"lm_head.weight", {11, hidden}}, {"model.embed_tokens.weight", {11, hidden}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    list.push_back({layer + "input_layernorm.weight", {hidden}});
    if (layer == "model.layers.0.") {
      list.push_back({stack + "down_proj", {experts, hidden, inner}});
      list.push_back({stack + "gate_up_proj", {experts, 2 * inner, hidden}});
      list.push_back({layer + "mlp.gate.weight", {experts, hidden}});
    } else {
      list.push_back({layer + "mlp.down_proj.weight", {hidden, 7}});
      list.push_back({layer + "mlp.gate_proj.weight", {7, hidden}});
      list.push_back({layer + "mlp.up_proj.weight", {7, hidden}});
    }
    list.push_back({layer + "post_attention_layernorm.weight", {hidden}});
    const std::string attention = layer + "self_attn.";
    list.insert(list.end(), {{attention + "k_norm.weight", {4}},
                             {attention + "k_proj.bias", {4}},
                             {attention + "k_proj.weight", {4, hidden}},
                             {attention + "o_proj.bias", {hidden}},
                             {attention + "o_proj.weight", {hidden, 8}},
                             {attention + "q_norm.weight", {4}},
                             {attention + "q_proj.bias", {8}},
                             {attention + "q_proj.weight", {8, hidden}},
                             {attention + "v_proj.bias", {4}},
                             {attention + "v_proj.weight", {4, hidden}}});
  }
  list.push_back({"model.norm.weight", {hidden}});
  return list;
}

// Our parameters: the fused pair as two.
std::vector<base::ParameterSpec> two_parameters() {
  std::vector<base::ParameterSpec> list;
  for (const base::ParameterSpec& spec : names_of_model()) {
    if (spec.fqn == stack + "gate_up_proj") {
      list.push_back({stack + "gate_proj", {experts, inner, hidden}, base::FusedPart{spec.fqn, 0, 2}});
      list.push_back({stack + "up_proj", {experts, inner, hidden}, base::FusedPart{spec.fqn, 1, 2}});
    } else {
      list.push_back(spec);
    }
  }
  return list;
}

at::Tensor expected(const base::ParameterSpec& spec) {
  const at::Tensor index = at::arange(base::elements(spec), at::kDouble).view(spec.shape);
  if (spec.fqn.starts_with(stack)) {
    const double projection = spec.fqn == stack + "gate_proj" ? 0 : spec.fqn == stack + "up_proj" ? 1 : 2;
    const at::Tensor expert = at::arange(experts, at::kDouble).view({experts, 1, 1});
    return index.add(expert, 10000 - hidden * inner).add(projection * 1000);
  }
  const auto names = names_of_model();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].fqn == spec.fqn) return index.add(100.0 * static_cast<double>(i)).neg();
  FAIL("no such name: " << spec.fqn);
  return {};
}

std::filesystem::path fixture(const std::string& layout) {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / "test/oracle/huggingface_layouts" / layout;
}

TEST_CASE("every element of a checkpoint that transformers saved is where its formula says") {
  const HuggingFaceCheckpoint checkpoint(fixture("per_expert"), two_parameters());
  CHECK(checkpoint.files().size() == 2);
  for (const base::ParameterSpec& spec : two_parameters()) {
    CAPTURE(spec.fqn);
    CHECK(at::equal(read_parameter(checkpoint.parameter(spec.fqn), at::kDouble), expected(spec)));
  }
}

TEST_CASE("fused bfloat16 keys give the same elements, rounded") {
  const HuggingFaceCheckpoint checkpoint(fixture("fused"), two_parameters());
  for (const base::ParameterSpec& spec : two_parameters()) {
    CAPTURE(spec.fqn);
    const at::Tensor rounded = expected(spec).to(at::kBFloat16);
    CHECK(at::equal(read_parameter(checkpoint.parameter(spec.fqn), at::kBFloat16), rounded));
    CHECK(at::equal(read_parameter(checkpoint.parameter(spec.fqn), at::kFloat), rounded.to(at::kFloat)));
  }
}

TEST_CASE("experts are told apart by their names, not by their shapes, whatever sizes are equal") {
  // Coprime; moe_intermediate_size == hidden_size; its double == hidden_size; also both == num_experts.
  for (const auto& [e, i, h] : {std::array<std::int64_t, 3>{3, 5, 7}, {3, 6, 6}, {4, 3, 6}, {5, 5, 5}, {2, 1, 2}}) {
    CAPTURE(e, i, h);
    const std::int64_t pair = i * h;
    const std::vector<base::ParameterSpec> specs{
        {stack + "gate_proj", {e, i, h}, base::FusedPart{stack + "gate_up_proj", 0, 2}},
        {stack + "up_proj", {e, i, h}, base::FusedPart{stack + "gate_up_proj", 1, 2}},
        {stack + "down_proj", {e, h, i}}};
    // Expert x, projection p, element k is (3 x + p) pair + k, in one tensor for each.
    std::vector<TestTensor> per_expert;
    for (std::int64_t x = 0; x < e; ++x)
      for (std::size_t p = 0; p < 3; ++p)
        per_expert.push_back({stack + std::to_string(x) + specs[p].fqn.substr(stack.size() - 1) + ".weight",
                              {specs[p].shape[1], specs[p].shape[2]},
                              static_cast<float>((3 * x + static_cast<std::int64_t>(p)) * pair)});
    // Fused: expert x has gate, then up, 2 pair elements in all; down follows all of them.
    const std::vector<TestTensor> fused{{stack + "gate_up_proj", {e, 2 * i, h}, 0},
                                        {stack + "down_proj", {e, h, i}, static_cast<float>(2 * e * pair)}};
    const test::TempFolder folder;
    const HuggingFaceCheckpoint one_each(folder.write("each.safetensors", file_of(per_expert)), specs);
    const HuggingFaceCheckpoint together(folder.write("fused.safetensors", file_of(fused)), specs);
    for (std::int64_t p = 0; p < 3; ++p) {
      const auto& spec = specs[static_cast<std::size_t>(p)];
      const at::Tensor within = at::arange(pair, at::kDouble).view({1, spec.shape[1], spec.shape[2]});
      const at::Tensor expert = at::arange(e, at::kDouble).view({e, 1, 1});
      CAPTURE(spec.fqn);
      CHECK(at::equal(read_parameter(one_each.parameter(spec.fqn), at::kDouble),
                      within.add(expert.mul(3 * pair)).add(p * pair)));
      const auto in_fused = p < 2 ? expert.mul(2 * pair).add(p * pair) : expert.mul(pair).add(2 * e * pair);
      CHECK(at::equal(read_parameter(together.parameter(spec.fqn), at::kDouble), within.add(in_fused)));
    }
  }
}

TEST_CASE("every box of a stack is the same part of the whole") {
  const HuggingFaceCheckpoint checkpoint(fixture(GENERATE("per_expert", "fused")), two_parameters());
  for (const std::string projection : {"up_proj", "down_proj"}) {
    const StoredParameter& stored = checkpoint.parameter(stack + projection);
    const at::Tensor whole = read_parameter(stored, at::kFloat);
    const auto& shape = stored.parameter.shape;
    for (std::int64_t a = 0; a <= shape[0]; ++a)
      for (std::int64_t b = a; b <= shape[0]; ++b)
        for (std::int64_t c = 0; c <= shape[1]; ++c)
          for (std::int64_t d = c; d <= shape[1]; ++d)
            for (const layout::Block last : {layout::Block{0, shape[2]}, layout::Block{1, 4}, layout::Block{2, 2}}) {
              const layout::Box box{{{a, b}, {c, d}, last}};
              const at::Tensor part = whole.slice(0, a, b).slice(1, c, d).slice(2, last.begin, last.end);
              REQUIRE(at::equal(read_box(stored, box, at::kFloat), part));
            }
  }
}

TEST_CASE("a box is written into memory that is there already") {
  const HuggingFaceCheckpoint checkpoint(fixture("per_expert"), two_parameters());
  const at::Tensor into = at::full({2, 3, 2}, 7.0, at::kDouble);
  read_box(checkpoint.parameter(stack + "gate_proj"), {{{1, 3}, {2, 5}, {4, 6}}}, into);
  CHECK(into[0][0][0].item<double>() == 10000 + 2 * hidden + 4);
  CHECK(into[1][2][1].item<double>() == 20000 + 4 * hidden + 5);
}

TEST_CASE("every stored floating type is read exactly, whatever its alignment") {
  const test::TempFolder folder;
  // 1.5, -2 in four types; one byte in front makes all of them unaligned.
  const std::string header = R"({"odd":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]},)"
                             R"("h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},)"
                             R"("s":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
                             R"("d":{"dtype":"F64","shape":[2],"data_offsets":[16,32]}})";
  std::string data("\x00\x3e\x00\xc0\xc0\x3f\x00\xc0", 8);
  const float floats[]{1.5F, -2.0F};
  const double doubles[]{1.5, -2.0};
  data.append(reinterpret_cast<const char*>(floats), sizeof floats);
  data.append(reinterpret_cast<const char*>(doubles), sizeof doubles);
  const std::string padded = header + (header.size() % 2 == 0 ? " " : "");
  const auto path = folder.write("m.safetensors", file_bytes(padded, 0) + data);
  const HuggingFaceCheckpoint checkpoint(path, {{"odd", {0}}, {"h", {2}}, {"b", {2}}, {"s", {2}}, {"d", {2}}});
  for (const std::string tensor : {"h", "b", "s", "d"})
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      CAPTURE(tensor, c10::toString(type));
      const at::Tensor read = read_parameter(checkpoint.parameter(tensor), type);
      CHECK(read[0].item<double>() == 1.5);
      CHECK(read[1].item<double>() == -2.0);
    }
  CHECK(read_parameter(checkpoint.parameter("odd"), at::kFloat).numel() == 0);
}

// `value` rounded to nearest even with `digits` binary digits, of which the last is never below 2^least.
double rounded(double value, int digits, int least, double most) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int last = std::max(std::ilogb(value) - digits + 1, least);
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  return std::abs(nearest) > most ? std::copysign(std::numeric_limits<double>::infinity(), value) : nearest;
}

TEST_CASE("wider numbers are rounded to nearest even, once") {
  std::vector<double> values{0,
                             0x1p-150,
                             0x1p-30,
                             0x1p-26,
                             3e38,
                             1e39,
                             1e300,
                             65519.99,
                             65520,
                             3.4e38,
                             std::numeric_limits<double>::infinity()};
  for (const int exponent : {-140, -30, -20, -14, -1, 0, 7, 100})
    for (const int digits : {8, 11, 24})
      for (int k = 0; k < 4; ++k)  // halfway between two neighbours, and a little beside
        for (const double beside : {0.0, 0x1p-50, -0x1p-50, 0x1p-26, -0x1p-26})
          values.push_back(std::ldexp(1 + (k + 0.5) * std::ldexp(1, 1 - digits) + beside, exponent));
  const auto count = std::ssize(values);
  for (std::ptrdiff_t k = 0; k < count; ++k) values.push_back(-values[static_cast<std::size_t>(k)]);
  const test::TempFolder folder;
  const auto size = static_cast<std::int64_t>(values.size());
  for (const auto from : {ElementType::F64, ElementType::F32}) {
    std::vector<double> stored = values;
    std::string data;
    for (double& value : stored) {
      const auto narrow = static_cast<float>(value);
      if (from == ElementType::F32) value = narrow;
      if (from == ElementType::F32)
        data.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
      else
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    const auto header =
        fmt::format(R"({{"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", name(from), size, data.size());
    const HuggingFaceCheckpoint checkpoint(folder.write("m.safetensors", file_bytes(header, 0) + data),
                                           {{"w", {size}}});
    struct Target {
      c10::ScalarType type;
      int digits, least;
      double most;
    };
    for (const auto& target : {Target{at::kBFloat16, 8, -133, 0x1.fep127}, Target{at::kHalf, 11, -24, 65504},
                               Target{at::kFloat, 24, -149, 0x1.fffffep127}}) {
      const at::Tensor read = read_parameter(checkpoint.parameter("w"), target.type).to(at::kDouble);
      for (std::size_t k = 0; k < stored.size(); ++k) {
        CAPTURE(c10::toString(target.type), name(from), stored[k]);
        CHECK(read.const_data_ptr<double>()[k] == rounded(stored[k], target.digits, target.least, target.most));
      }
    }
  }
}

TEST_CASE("a target of another shape and a box outside are the programmer's errors") {
  const HuggingFaceCheckpoint checkpoint(fixture("per_expert"), two_parameters());
  const StoredParameter& norm = checkpoint.parameter("model.norm.weight");
  CHECK_THROWS_AS(read_box(norm, {{{0, 3}}}, at::full({4}, 0.0)), std::logic_error);
  CHECK_THROWS_AS(read_box(norm, layout::Box{{{4, 7}}}, at::kFloat), std::logic_error);
  CHECK_THROWS_AS(read_parameter(norm, at::kInt), std::logic_error);
}

}  // namespace
}  // namespace tessera::checkpoint
