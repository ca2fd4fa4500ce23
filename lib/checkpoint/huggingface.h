// Checkpoints as HuggingFace writes them, and where each of our parameters lies in them.
//
// A checkpoint is `model.safetensors`, or shards listed by `model.safetensors.index.json`. Names as in
// transformers 5.24 (models/qwen3_moe/modeling_qwen3_moe.py and conversion_mapping.py, "qwen2_moe"). A parameter has
// its own name in the file, but for the experts, which come in one of three forms:
//   model.layers.3.mlp.experts.gate_proj              [E, I, H]   stacked, our own shape; up_proj, down_proj [E, H, I]
//   model.layers.3.mlp.experts.gate_up_proj           [E, 2I, H]  fused: of each expert gate's rows, then up's
//   model.layers.3.mlp.experts.7.gate_proj.weight     [I, H]      one tensor an expert: what save_pretrained writes
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

// A box of a parameter that lies in one stored tensor: element (i, j, ...) of the parameter, counted from the box's
// begin, is element `offset + i * strides[0] + j * strides[1] + ...` of the tensor. The last stride is 1.
struct StoredPiece {
  layout::Box box;
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
  std::int64_t offset = 0;            // elements
  std::vector<std::int64_t> strides;  // elements, one per dim of the parameter
};

struct StoredParameter {
  base::ParameterSpec parameter;
  std::vector<StoredPiece> pieces;  // disjoint; together the whole parameter, or all that was asked for
};

// Whether a parameter is a stack of experts, whose forms differ: "...experts.gate_proj", of three dims.
[[nodiscard]] bool is_expert_stack(const base::ParameterSpec& parameter);

// The files of a checkpoint, and of its index, if it has one, what it says otherwise than they do.
// Error(bad_input) if there is none at `path`, or one is not of the format.
[[nodiscard]] std::vector<std::unique_ptr<SafetensorsFile>> open_huggingface_files(const base::Path& path,
                                                                                   base::Problems& problems);

// Warns if a folder has both model.safetensors, which is the one that is read, as transformers does, and shards.
void warn_of_shards_beside(const base::Path& path);

// What tells the checkpoint at `path` from others: of its index and of each of its files a hash of name, size, header
// and a sample of the weights. Errors as those of open_huggingface_files.
[[nodiscard]] std::vector<std::pair<base::Path, std::uint64_t>> fingerprints_of_huggingface(const base::Path& path);

// Whether there is one at `path`: a folder with model.safetensors or its index, a .safetensors file, an index.
[[nodiscard]] bool is_huggingface_checkpoint(const base::Path& path);

// Elements between neighbours along each dim of a tensor of `shape` that is stored row by row.
[[nodiscard]] std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);

class HuggingFaceCheckpoint {
 public:
  // `path`: a folder, a .safetensors file, or an index. `parameters`: all of the model's.
  // Error(bad_input) that lists every missing, unknown and wrongly shaped tensor, every type that is not F64, F32, F16
  // or BF16, and every difference between an index and its shards. A model whose head is tied (no parameter
  // lm_head.weight) takes a file with lm_head.weight only if that equals the embedding.
  HuggingFaceCheckpoint(const base::Path& path, const std::vector<base::ParameterSpec>& parameters);

  // Precondition: one of the constructor's parameters. The pieces point into this checkpoint.
  [[nodiscard]] const StoredParameter& parameter(const std::string& fqn) const;
  [[nodiscard]] const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, StoredParameter> parameters_;
};

}  // namespace tessera::checkpoint
