// HuggingFace folders for tests: every weight has bits of its own, names and shapes are put together here.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "architecture/model_config.h"
#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

enum class Sizes {
  coprime,      // no two sizes have a common divisor
  square,       // moe_intermediate_size == hidden_size
  square_fused  // 2 * moe_intermediate_size == hidden_size
};

// Two layers with experts and a dense one between them.
[[nodiscard]] architecture::ModelConfig small_config(Sizes sizes);

// The bits of weight k of a model in `type`: finite numbers, which differ for k below 1000 (16 bits) and 2^20 (32, 64).
[[nodiscard]] std::uint64_t bits_of(std::size_t k, ElementType type);

// Name -> bytes of the tensors of that model as HuggingFace calls them. The weights are counted through all parameters,
// each row-major in the shape that Tessera gives it: experts, gate and up [E, I, H], down [E, H, I].
using TensorBytes = std::map<std::string, std::string>;
[[nodiscard]] TensorBytes separate_tensors(const architecture::ModelConfig& config, ElementType type);
[[nodiscard]] TensorBytes fused_tensors(const architecture::ModelConfig& config, ElementType type);

// Writes config.json and model.safetensors.
void write_folder(const std::filesystem::path& folder, const architecture::ModelConfig& config,
                  const TensorBytes& tensors, ElementType type);

// All tensors of the .safetensors files in `folder`. Fails the test if a name is there twice.
[[nodiscard]] TensorBytes read_tensors(const std::filesystem::path& folder, ElementType type);

}  // namespace tessera::checkpoint
