// Makes HuggingFace folders for tests: every weight has bits of its own.
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

// Returns the bits of weight k of a model in `type`: finite numbers, all different for k below 1000 (16-bit types) or
// 2^20 (32 and 64 bits).
[[nodiscard]] std::uint64_t bits_of(std::size_t k, ElementType type);

// The tensors of that model, from HuggingFace's name to bytes. The weights are counted through all parameters, each
// row-major in Tessera's shape: experts' gate and up [E, I, H], down [E, H, I].
using TensorBytes = std::map<std::string, std::string>;
[[nodiscard]] TensorBytes separate_tensors(const architecture::ModelConfig& config, ElementType type);
[[nodiscard]] TensorBytes fused_tensors(const architecture::ModelConfig& config, ElementType type);

// Writes config.json and model.safetensors.
void write_folder(const std::filesystem::path& folder, const architecture::ModelConfig& config,
                  const TensorBytes& tensors, ElementType type);

// Reads all tensors of the .safetensors files in `folder`. Fails the test if a name occurs twice.
[[nodiscard]] TensorBytes read_tensors(const std::filesystem::path& folder, ElementType type);

}  // namespace tessera::checkpoint
