// How much is communicated: what is counted, and the bytes that a rank sends by operation, by formula. A group of one
// rank sends none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes_sent = 0;   // by this rank to the others
  double seconds_under_way = 0;  // the spans of the operations that were waited for, added up: they may overlap
  double seconds_exposed = 0;    // that callers were blocked until an operation ended

  Traffic& operator+=(const Traffic& other);
};

// Bytes of the elements of a piece, without what lies between its runs.
[[nodiscard]] std::int64_t piece_bytes(const Strided& piece, ElementType type);

// Its own piece to each of the others: piece(rank) * (ranks - 1), summed over the blocks.
[[nodiscard]] std::int64_t gather_bytes_sent(std::span<const GatherBlock> blocks, std::int64_t rank);
// To each other rank that rank's piece: the sum of piece(k) over k != rank, summed over the blocks.
[[nodiscard]] std::int64_t reduce_bytes_sent(std::span<const ReduceBlock> blocks, std::int64_t rank);

// Arrays of up to this many bytes are all-reduced whole, by every rank: one round of messages. Of longer ones each rank
// sums a block and sends it to all: two rounds.
inline constexpr std::int64_t reduced_whole_bytes = 32 << 10;

// The elements of a longer array that `rank` sums: blocks of ceil(elements / ranks), the last ones shorter or empty.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
};
[[nodiscard]] ElementRange all_reduce_block(std::int64_t elements, std::int64_t rank, std::int64_t ranks);

// Whole: bytes * (ranks - 1). In blocks: bytes - block + block * (ranks - 1), where `block` is what `rank` sums.
[[nodiscard]] std::int64_t all_reduce_bytes_sent(std::int64_t elements, ElementType type, std::int64_t rank,
                                                 std::int64_t ranks);
// The rows for the other ranks.
[[nodiscard]] std::int64_t rows_bytes_sent(std::span<const std::int64_t> send_counts, std::int64_t row_elements,
                                           ElementType type, std::int64_t rank);
// The root: bytes * (ranks - 1); the others none.
[[nodiscard]] std::int64_t broadcast_bytes_sent(std::int64_t elements, ElementType type, std::int64_t root,
                                                std::int64_t rank, std::int64_t ranks);

}  // namespace tessera::comm
