// From a checkpoint of ours to a folder that transformers' from_pretrained loads.
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
  // F64, F32, F16 or BF16. None: the masters' own type; of weights that came from a HuggingFace folder and were not
  // trained since, that folder's type. So nothing is rounded unless it is asked for.
  std::optional<ElementType> type;
  ExpertForm experts = ExpertForm::separate;
  std::uint64_t max_file_bytes = 5'000'000'000;  // of tensors; a larger tensor has a file of its own
  ExistingFolder existing = ExistingFolder::refuse;
  // Names in a folder that is replaced: files that were written there earlier. All others stay, and are refused if they
  // are model files.
  std::set<std::string> own = {};
};

struct HuggingFaceFolder {
  ElementType type{};
  std::size_t files = 0;    // of safetensors
  std::uint64_t bytes = 0;  // of tensors
  // Rank 0's: all files that were written, and what is there besides since it stood in the folder before.
  std::vector<std::string> names, others;
};

// Error(bad_input), with the way out, if a folder of weights may not be put in the place of `target`: that is a file,
// or has weights, their index or a config.json that are not among `own`.
void require_replaceable(const base::Path& target, const std::set<std::string>& own);

// Writes config.json, model.safetensors or its shards and their index, and the weights' companions, into `target`,
// which is whole or absent: it is filled as "<target>.tmp" and renamed when all is on the disk. Hashes of all of
// `checkpoint` are verified first. Ranks write different files; the bytes do not depend on their number. In memory: the
// mapped files, and 16 MiB.
//
// Collective over `world`. Error(bad_input), the same on every rank, for: a damaged checkpoint, one that lacks weights
// of its model or has others, a `target` that is refused, a number that float16 cannot hold, a failing disk.
HuggingFaceFolder write_huggingface(const base::Path& checkpoint, const base::Path& target,
                                    const HuggingFaceOptions& options, comm::Communicator& world,
                                    base::FileSystem& files = base::posix_file_system());

}  // namespace tessera::checkpoint
