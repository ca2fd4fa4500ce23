// Describes the content of a checkpoint or a HuggingFace folder, and checks that it is whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

// Returns a page about the checkpoint folder `path`: step, layout, progress, model, files, tensors with types, shapes,
// states and pieces, bytes. Verifies every hash; each rank reads a share of the bytes.
// Collective over `world`. Throws the same Error(bad_input) on every rank, naming the damaged file and tensor.
[[nodiscard]] std::string inspect_checkpoint(const base::Path& path, comm::Communicator& world);

// Returns a page about HuggingFace's files at `path`: files, tensors with types and shapes, bytes. As such files have
// no hashes, checks lengths and headers and, if config.json is beside them, that they hold the tensors of its model,
// each once. Throws Error(bad_input) naming file and tensor.
[[nodiscard]] std::string inspect_huggingface(const base::Path& path);

}  // namespace tessera::checkpoint
