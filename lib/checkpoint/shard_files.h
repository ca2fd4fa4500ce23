// The shard files of a checkpoint, one per rank: their names, and their entries in the manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_writer.h"
#include "comm/communicator.h"
#include "layout/block.h"

namespace tessera::checkpoint {

// "shard_00003.safetensors".
[[nodiscard]] std::string shard_file_name(std::int64_t rank);

// Returns the file with `count` hashes: that of its k-th tensor at places[k], 0 elsewhere. For a rank that has no part
// of some tensors.
[[nodiscard]] WrittenFile with_hashes_at(WrittenFile file, const std::vector<std::size_t>& places, std::size_t count);

// Returns the files of all ranks on rank 0, and nothing on the others. Collective over `world`. Precondition: all ranks
// have the same number of hashes.
[[nodiscard]] std::vector<WrittenFile> gather_files(const WrittenFile& own, comm::Communicator& world);

// Returns the box of parameter `parameter` that `rank` wrote; it may be empty.
using BoxOfRank = std::function<layout::Box(std::size_t parameter, std::int64_t rank)>;

// Adds files and pieces to a manifest that already has the parameters with their types and states. `written` has one
// entry per rank, with a hash for each state of each parameter, in that order; a rank that wrote 0 bytes has no file.
void add_files_and_pieces(Manifest& manifest, const std::vector<WrittenFile>& written, const BoxOfRank& box_of);

}  // namespace tessera::checkpoint
