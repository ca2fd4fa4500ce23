// From a checkpoint of ours to a folder that transformers' from_pretrained loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/file.h"
#include "checkpoint/huggingface_layout.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

struct HuggingFaceOptions {
  // F64, F32, F16 or BF16. None: the masters' own type; of weights that came from a HuggingFace folder and were not
  // trained since, that folder's type. So nothing is rounded unless it is asked for.
  std::optional<ElementType> type;
  ExpertForm experts = ExpertForm::separate;
  std::uint64_t max_file_bytes = 5'000'000'000;  // of tensors; a larger tensor has a file of its own
  ExistingFolder existing = ExistingFolder::refuse;
};

struct HuggingFaceFolder {
  ElementType type{};
  std::size_t files = 0;    // of safetensors
  std::uint64_t bytes = 0;  // of tensors
};

// Writes config.json, model.safetensors or its shards and their index into `target`, which is whole or absent: it is
// filled as "<target>.tmp" and renamed when all is on the disk. Hashes of all of `checkpoint` are verified first. Ranks
// write different files; the bytes do not depend on their number. In memory: the mapped files, and 16 MiB.
//
// Collective over `world`. Error(bad_input), the same on every rank, for: a damaged checkpoint, one that lacks weights
// of its model or has others, a `target` that is refused, a number that float16 cannot hold, a failing disk.
HuggingFaceFolder write_huggingface(const base::Path& checkpoint, const base::Path& target,
                                    const HuggingFaceOptions& options, comm::Communicator& world,
                                    base::FileSystem& files = base::posix_file_system());

}  // namespace tessera::checkpoint
