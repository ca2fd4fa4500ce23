// Converts strided pieces to runs of consecutive elements, as NCCL takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

[[nodiscard]] inline std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

[[nodiscard]] inline std::int64_t bytes_of(std::int64_t elements, ElementType type) {
  return elements * static_cast<std::int64_t>(element_bytes(type));
}

struct ElementRun {
  std::byte* data = nullptr;
  std::int64_t elements = 0;
};

// Returns the runs of a piece in order. Rows without a gap between them make one run; an empty piece has none.
[[nodiscard]] std::vector<ElementRun> runs_of(const Strided& piece, ElementType type);

// Returns whether all pieces have the same shape and, in each row, follow each other without gaps in rank order, as the
// blocks of an all-gather or a reduce-scatter do. False for empty pieces.
[[nodiscard]] bool lie_side_by_side(std::span<const Strided> pieces, ElementType type);

// Returns the bytes of the largest piece.
[[nodiscard]] std::int64_t largest_piece_bytes(std::span<const Strided> pieces, ElementType type);

// Rounds `bytes` up to a multiple of 256, an alignment that suits GPU memory.
[[nodiscard]] constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tessera::comm
