// Plans the tensors of a HuggingFace folder for a model, their content and their files. huggingface.h reads such
// folders and describes names and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter_spec.h"
#include "checkpoint/safetensors.h"
#include "layout/block.h"

namespace tessera::checkpoint {

enum class ExpertForm : std::uint8_t {
  separate,  // one tensor per expert and projection: what save_pretrained writes
  fused      // stacks [E, ...], some of them joined (FusedPart): the names of the model's own state_dict
};

// A box of whole rows of a parameter; its elements, row by row, are consecutive in the tensor.
struct TensorSource {
  std::string fqn;
  layout::Box box;
};

struct HuggingFaceTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<TensorSource> sources;  // concatenated, they are the tensor's elements, row-major
};

struct HuggingFaceFile {
  std::string name;  // "model.safetensors", or "model-00001-of-00003.safetensors"
  std::vector<HuggingFaceTensor> tensors;
};

// Returns the tensors in the order of `parameters`. Precondition: these are all parameters of a model, and the parts of
// a fused tensor follow each other.
[[nodiscard]] std::vector<HuggingFaceTensor> huggingface_tensors(const std::vector<base::ParameterSpec>& parameters,
                                                                 ExpertForm form);

// Fills files in order, each with up to `max_bytes` of data of `type`; a larger tensor gets a file of its own, as in
// huggingface_hub's split_torch_state_dict_into_shards. Sorts the tensors of a file by name, as safetensors' own writer
// does with tensors of one type. Precondition: max_bytes > 0.
[[nodiscard]] std::vector<HuggingFaceFile> huggingface_files(std::vector<HuggingFaceTensor> tensors, ElementType type,
                                                             std::uint64_t max_bytes);

// Returns the bytes of the tensors' data, without the header.
[[nodiscard]] std::uint64_t data_bytes(const HuggingFaceFile& file, ElementType type);

// Returns the text of model.safetensors.index.json.
[[nodiscard]] std::string index_json(const std::vector<HuggingFaceFile>& files, ElementType type);

// A conversion holds at most this many weights in memory at once: 16 MiB of float64.
inline constexpr std::int64_t streamed_elements = 2 << 20;

// Splits `box` into parts of 1 to `max_elements` elements that follow each other in its row-major order; an empty box
// has none. Precondition: max_elements > 0.
[[nodiscard]] std::vector<layout::Box> consecutive_parts(const layout::Box& box, std::int64_t max_elements);

}  // namespace tessera::checkpoint
