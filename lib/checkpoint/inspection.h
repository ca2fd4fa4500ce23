// What a checkpoint, or a HuggingFace folder, holds, in words, and whether it is whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

// A page about the checkpoint folder `path`: step, layout, progress, model, files, tensors with types, shapes, states
// and pieces, bytes; then every hash has been verified, a share of the bytes by each rank.
// Collective over `world`. Error(bad_input), the same on every rank, naming file and tensor of what is damaged.
[[nodiscard]] std::string inspect_checkpoint(const base::Path& path, comm::Communicator& world);

// A page about HuggingFace's files at `path`: files, tensors with types and shapes, bytes. They have no hashes: lengths
// and headers are checked, and, if config.json is beside them, that they are the model's tensors, each once.
// Error(bad_input) naming file and tensor.
[[nodiscard]] std::string inspect_huggingface(const base::Path& path);

}  // namespace tessera::checkpoint
