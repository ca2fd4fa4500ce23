// Makes a folder that transformers' from_pretrained loads from a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/huggingface_layout.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

struct HuggingFaceOptions {
  // F64, F32, F16 or BF16. Nothing: the masters' type or, for weights that came from a HuggingFace folder and were not
  // trained since, that folder's type; so the default rounds nothing.
  std::optional<ElementType> type;
  ExpertForm experts = ExpertForm::separate;
  std::uint64_t max_file_bytes = 5'000'000'000;  // of tensors; a larger tensor gets a file of its own
  ExistingFolder existing = ExistingFolder::refuse;
  // If a folder is replaced: the names of the files that were written there before. Other files stay, and are an error
  // if they are model files.
  std::set<std::string> own = {};
};

struct HuggingFaceFolder {
  ElementType type{};
  std::size_t files = 0;    // number of .safetensors files
  std::uint64_t bytes = 0;  // of tensors
  // On rank 0: the files that were written, and those kept from the folder that was replaced.
  std::vector<std::string> names, others;
};

// Throws Error(bad_input), with the remedy, if a folder of weights may not replace `target`: because that is a file, or
// has weights, an index or a config.json that are not among `own`.
void require_replaceable(const base::Path& target, const std::set<std::string>& own);

// Writes config.json, model.safetensors or its shards and their index, and the companions of the weights into `target`,
// which is whole or absent: it is filled as "<target>.tmp" and renamed once all of it is on the disk. Verifies all
// hashes of `checkpoint` first. Ranks write different files; their bytes do not depend on the number of ranks. Memory:
// the mapped files, and 16 MiB.
//
// Collective over `world`. Throws the same Error(bad_input) on every rank if the checkpoint is damaged, lacks weights
// of its model or has others, if `target` may not be written, a weight is too large for float16, or a disk fails.
HuggingFaceFolder write_huggingface(const base::Path& checkpoint, const base::Path& target,
                                    const HuggingFaceOptions& options, comm::Communicator& world,
                                    base::FileSystem& files = base::posix_file_system());

}  // namespace tessera::checkpoint
