// Finds the parameters of a model in a checkpoint that HuggingFace wrote.
//
// A checkpoint is `model.safetensors`, or shards listed by `model.safetensors.index.json`. Names are those of
// transformers 5.24 (models/qwen3_moe/modeling_qwen3_moe.py and conversion_mapping.py, "qwen2_moe"). The file has each
// parameter under its own name, except for the experts, which come in one of three forms:
//
//   model.layers.3.mlp.experts.gate_proj              [E, I, H]   stacked, our own shape; up_proj, down_proj [E, H, I]
//   model.layers.3.mlp.experts.gate_up_proj           [E, 2I, H]  fused: for each expert the rows of gate, then of up
//   model.layers.3.mlp.experts.7.gate_proj.weight     [I, H]      one tensor per expert, as save_pretrained writes
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parameter_spec.h"
#include "checkpoint/safetensors.h"
#include "layout/block.h"

namespace tessera::checkpoint {

// A box of a parameter that lies in one stored tensor: element (i, j, ...) of the box, counted from its begin, is
// element `offset + i * strides[0] + j * strides[1] + ...` of the tensor. The last stride is 1.
struct StoredPiece {
  layout::Box box;
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
  std::int64_t offset = 0;            // elements
  std::vector<std::int64_t> strides;  // elements, one per dim of the parameter
};

struct StoredParameter {
  base::ParameterSpec parameter;
  std::vector<StoredPiece> pieces;  // disjoint; they cover the parameter, or the box that the caller asked for
};

// Returns whether a parameter is a stack of experts, which has several forms: "...experts.gate_proj", three dims.
[[nodiscard]] bool is_expert_stack(const base::ParameterSpec& parameter);

// Opens the files of a checkpoint. Adds a problem for each tensor on whose file the index, if there is one, and the
// files disagree. Throws Error(bad_input) if there is no checkpoint at `path`, or a file is not of the format.
[[nodiscard]] std::vector<std::unique_ptr<SafetensorsFile>> open_huggingface_files(const base::Path& path,
                                                                                   base::Problems& problems);

// Warns if a folder has shards or an index beside model.safetensors. Only the latter is read, as transformers does.
void warn_of_shards_beside(const base::Path& path);

// Returns hashes that tell the checkpoint at `path` from others: for each file one of its size, its header and a sample
// of its weights, and one of the index. Throws as open_huggingface_files does, and if the index contradicts the files.
[[nodiscard]] std::vector<std::pair<base::Path, std::uint64_t>> fingerprints_of_huggingface(const base::Path& path);

// Returns whether `path` is a folder with model.safetensors or its index, a .safetensors file, or an index.
[[nodiscard]] bool is_huggingface_checkpoint(const base::Path& path);

// Returns the distance, in elements, between neighbours along each dim of a row-major tensor of `shape`.
[[nodiscard]] std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);

class HuggingFaceCheckpoint {
 public:
  // `path` is a folder, a .safetensors file or an index; `parameters` are all parameters of the model.
  // Throws Error(bad_input) that lists every missing, unknown and wrongly shaped tensor, every type other than F64,
  // F32, F16 and BF16, and every difference between an index and its shards. If the head of the model is tied (there is
  // no parameter lm_head.weight), a file may have lm_head.weight only if it equals the embedding.
  HuggingFaceCheckpoint(const base::Path& path, const std::vector<base::ParameterSpec>& parameters);

  // Precondition: one of the constructor's parameters. The pieces point into this checkpoint.
  [[nodiscard]] const StoredParameter& parameter(const std::string& fqn) const;
  [[nodiscard]] const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, StoredParameter> parameters_;
};

}  // namespace tessera::checkpoint
