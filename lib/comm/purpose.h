// Describes operations and groups of ranks in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::comm {

struct Purpose {
  std::string_view operation;  // "barrier"
  std::string_view ranks;      // "ranks 0, 2"
  std::string_view group;      // "ep_fsdp", or empty
  std::string_view label;      // what the rank was doing when it started the operation, or empty
};

// Returns "reduce_blocks of 1.00 MiB for Reduce layers.3 in group ep_fsdp (ranks 0, 2)". `bytes` is the number of bytes
// that this rank sends and receives.
[[nodiscard]] std::string describe(const Purpose& purpose, std::int64_t bytes);

// Returns "ranks 0-3", "ranks 0, 2" or "40 ranks (0, 2, ...)".
[[nodiscard]] std::string describe_ranks(std::span<const int> members);

}  // namespace tessera::comm
