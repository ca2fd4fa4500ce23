#include "support/huggingface_folder.h"

#include <cstring>
#include <fstream>

#include "architecture/architecture.h"
#include "architecture/family.h"
#include "checkpoint/safetensors_writer.h"
#include "support/catch.h"

namespace tessera::checkpoint {
namespace {

std::vector<base::ParameterSpec> parameters_of_model(const architecture::ModelConfig& config) {
  return architecture::Architecture(config, config::BalanceLoss::pooled).parameters();
}

std::string bytes_of(std::size_t first, std::int64_t count, ElementType type) {
  std::string bytes;
  for (std::size_t k = first; k < first + static_cast<std::size_t>(count); ++k) {
    const auto pattern = bits_of(k, type);
    bytes.append(reinterpret_cast<const char*>(&pattern), bits(type) / 8);
  }
  return bytes;
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const auto size : shape) product *= size;
  return product;
}

// Of a folder's tensor: from its bytes, the shape, which only the model knows.
std::vector<std::int64_t> shape_of(const std::string& name, const architecture::ModelConfig& c) {
  if (name.find(".experts.") == std::string::npos) {
    for (const auto& p : parameters_of_model(c))
      if (p.fqn == name) return p.shape;
  }
  if (name.ends_with(".gate_up_proj")) return {c.num_experts, 2 * c.moe_intermediate_size, c.hidden_size};
  if (name.ends_with(".down_proj")) return {c.num_experts, c.hidden_size, c.moe_intermediate_size};
  if (name.ends_with(".down_proj.weight")) return {c.hidden_size, c.moe_intermediate_size};
  return {c.moe_intermediate_size, c.hidden_size};
}

}  // namespace

architecture::ModelConfig small_config(Sizes sizes) {
  architecture::ModelConfig c;
  c.vocab_size = 13;
  c.hidden_size = sizes == Sizes::coprime ? 7 : 6;
  c.intermediate_size = 5;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 4;
  c.moe_intermediate_size = sizes == Sizes::coprime ? 9 : sizes == Sizes::square ? 6 : 3;
  c.num_experts = 5;
  c.num_experts_per_tok = 2;
  c.mlp_only_layers = {1};
  return c;
}

std::uint64_t bits_of(std::size_t k, ElementType type) {
  switch (type) {
    case ElementType::F64: return 0x3fd0000000000000 + k;
    case ElementType::F32: return 0x3e800000 + k;
    case ElementType::BF16: return (0x3e80 + k % 1000 + (k & 1) * 0x8000) & 0xffff;
    default: return (0x2c00 + k % 1000 + (k & 1) * 0x8000) & 0xffff;
  }
}

TensorBytes separate_tensors(const architecture::ModelConfig& config, ElementType type) {
  TensorBytes tensors;
  std::size_t first = 0;
  for (const auto& p : parameters_of_model(config)) {
    const auto split = p.fqn.rfind(".experts.");
    const auto count = elements(p.shape);
    if (split == std::string::npos) {
      tensors[p.fqn] = bytes_of(first, count, type);
    } else {
      const auto of_one = count / config.num_experts;
      for (std::int64_t e = 0; e < config.num_experts; ++e)
        tensors[p.fqn.substr(0, split + 9) + std::to_string(e) + "." + p.fqn.substr(split + 9) + ".weight"] =
            bytes_of(first + static_cast<std::size_t>(e * of_one), of_one, type);
    }
    first += static_cast<std::size_t>(count);
  }
  return tensors;
}

TensorBytes fused_tensors(const architecture::ModelConfig& config, ElementType type) {
  TensorBytes fused;
  const auto separate = separate_tensors(config, type);
  for (const auto& [name, bytes] : separate)
    if (name.find(".experts.") == std::string::npos) fused[name] = bytes;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe_layer(layer)) continue;
    const auto prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    for (std::int64_t e = 0; e < config.num_experts; ++e) {
      const auto of_one = [&](const char* projection) {
        return separate.at(prefix + std::to_string(e) + "." + projection + ".weight");
      };
      fused[prefix + "gate_up_proj"] += of_one("gate_proj") + of_one("up_proj");
      fused[prefix + "down_proj"] += of_one("down_proj");
    }
  }
  return fused;
}

void write_folder(const std::filesystem::path& folder, const architecture::ModelConfig& config,
                  const TensorBytes& tensors, ElementType type) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << architecture::to_config_json(config);
  std::vector<OutgoingTensor> outgoing;
  for (const auto& [name, bytes] : tensors) outgoing.push_back({name, type, shape_of(name, config)});
  SafetensorsWriter writer(folder / "model.safetensors", outgoing, {{"format", "pt"}});
  for (const auto& [name, bytes] : tensors) writer.write(std::as_bytes(std::span(bytes)));
  static_cast<void>(writer.finish());
}

TensorBytes read_tensors(const std::filesystem::path& folder, ElementType type) {
  TensorBytes tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path());
    for (const auto& tensor : file.tensors()) {
      const auto bytes = file.bytes(tensor);
      INFO(tensor.name);
      REQUIRE_FALSE(tensors.contains(tensor.name));
      REQUIRE(tensor.type == type);
      tensors[tensor.name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return tensors;
}

}  // namespace tessera::checkpoint
