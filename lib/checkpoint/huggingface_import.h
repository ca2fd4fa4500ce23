// Makes a checkpoint from a HuggingFace folder: its weights without moments, at step 0.
#pragma once

#include <cstdint>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

struct ImportOptions {
  base::Path config;                    // a config.json, or its folder; empty: the one beside the weights
  ElementType type = ElementType::F32;  // of the masters; F32 or F64
};

struct ImportedWeights {
  std::uint64_t bytes = 0;           // of the shard files of all ranks
  std::int64_t rounded_tensors = 0;  // tensors of a wider type than the masters'
};

// Reads `source` (see HuggingFaceCheckpoint) and writes the checkpoint folder `target`, which is whole or absent. Each
// rank writes a block of dim 0 of every parameter into a file of its own. The manifest's "model" keeps the keys of
// config.json that Tessera does not read, and its "dtype" is the type of the source's tensors, if all have the same.
// Copies the companions of the weights.
//
// Collective over `world`. Throws the same Error(bad_input) on every rank if HuggingFaceCheckpoint, config.json or the
// disk refuse, or if `target` exists already.
ImportedWeights import_huggingface(const base::Path& source, const base::Path& target, const ImportOptions& options,
                                   comm::Communicator& world, base::FileSystem& files = base::posix_file_system());

}  // namespace tessera::checkpoint
