// The shard files of a checkpoint, one a rank: their names, what each rank tells of its own, and what the manifest says
// of all.
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

// The same file with `count` hashes: that of its k-th tensor at places[k], 0 elsewhere. For a rank that has no part of
// some tensors.
[[nodiscard]] WrittenFile with_hashes_at(WrittenFile file, const std::vector<std::size_t>& places, std::size_t count);

// Rank 0 gets what each rank wrote, the others nothing. Collective over `world`. Precondition: equally many hashes on
// all ranks.
[[nodiscard]] std::vector<WrittenFile> gather_files(const WrittenFile& own, comm::Communicator& world);

// The box of parameter `parameter` that `rank` wrote, perhaps empty.
using BoxOfRank = std::function<layout::Box(std::size_t parameter, std::int64_t rank)>;

// Fills files and pieces of a manifest that has the parameters, their types and states. `written`: of each rank, with
// a hash for each state of each parameter, in that order; a rank that wrote 0 bytes has no file.
void add_files_and_pieces(Manifest& manifest, const std::vector<WrittenFile>& written, const BoxOfRank& box_of);

}  // namespace tessera::checkpoint
