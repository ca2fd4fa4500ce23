// Strided pieces as NCCL takes them: runs of consecutive elements.
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

// The runs of a piece in order; rows without a gap between them are one. None of an empty piece.
[[nodiscard]] std::vector<ElementRun> runs_of(const Strided& piece, ElementType type);

// Whether all pieces have one shape, and row for row lie side by side in the order of their ranks: as the blocks of an
// all-gather or a reduce-scatter do. Not for empty pieces.
[[nodiscard]] bool lie_side_by_side(std::span<const Strided> pieces, ElementType type);

// The largest piece's bytes.
[[nodiscard]] std::int64_t largest_piece_bytes(std::span<const Strided> pieces, ElementType type);

// `bytes`, rounded up to where memory of the GPU may begin well.
[[nodiscard]] constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tessera::comm
