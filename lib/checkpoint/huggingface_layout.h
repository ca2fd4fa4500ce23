// Which tensors a HuggingFace folder has for a model, what each of them consists of, and which file it is in. The
// counterpart of huggingface.h, which reads such folders; names and shapes are described there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter_spec.h"
#include "checkpoint/safetensors.h"
#include "layout/block.h"

namespace tessera::checkpoint {

enum class ExpertForm : std::uint8_t {
  separate,  // one tensor an expert and projection: what save_pretrained writes
  fused      // gate_up_proj [E, 2I, H] and down_proj [E, H, I]: the names of the model's own state_dict
};

// Whole rows of a parameter: their elements, row by row, are consecutive in the tensor.
struct TensorSource {
  std::string fqn;
  layout::Box box;
};

struct HuggingFaceTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<TensorSource> sources;  // one after the other they are the tensor's elements, row-major
};

struct HuggingFaceFile {
  std::string name;  // "model.safetensors", or "model-00001-of-00003.safetensors"
  std::vector<HuggingFaceTensor> tensors;
};

// In the order of `parameters`: all of a model's, with gate and up of a stack of experts one after the other.
[[nodiscard]] std::vector<HuggingFaceTensor> huggingface_tensors(const std::vector<base::ParameterSpec>& parameters,
                                                                 ExpertForm form);

// Fills files in order, each up to `max_bytes` of data of `type`; a larger tensor has a file of its own, as
// huggingface_hub's split_torch_state_dict_into_shards does it. Within a file by name, as safetensors' own writer does
// it for tensors of one type. Precondition: max_bytes > 0.
[[nodiscard]] std::vector<HuggingFaceFile> huggingface_files(std::vector<HuggingFaceTensor> tensors, ElementType type,
                                                             std::uint64_t max_bytes);

// Of the tensors' data alone.
[[nodiscard]] std::uint64_t data_bytes(const HuggingFaceFile& file, ElementType type);

// The text of model.safetensors.index.json.
[[nodiscard]] std::string index_json(const std::vector<HuggingFaceFile>& files, ElementType type);

// Weights pass through memory in parts of this size: 16 MiB of float64.
inline constexpr std::int64_t streamed_elements = 2 << 20;

// `box` in parts of at most `max_elements` elements (at least one each), which are consecutive in the box's row-major
// order. Nothing of an empty box. Precondition: max_elements > 0.
[[nodiscard]] std::vector<layout::Box> consecutive_parts(const layout::Box& box, std::int64_t max_elements);

}  // namespace tessera::checkpoint
