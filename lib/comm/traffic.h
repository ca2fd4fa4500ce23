// Counters of communication, and formulas for the bytes that a rank sends in each operation (none in a group of one
// rank).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes_sent = 0;   // by this rank to the others
  double seconds_under_way = 0;  // sum of the spans of operations after their wait(); spans may overlap
  double seconds_exposed = 0;    // for which callers were blocked until an operation ended

  Traffic& operator+=(const Traffic& other);
};

// Returns the bytes of a piece's elements, without the gaps between its rows.
[[nodiscard]] std::int64_t piece_bytes(const Strided& piece, ElementType type);

// Returns the bytes that `rank` sends when it sends its own piece to each other rank: piece(rank) * (ranks - 1), summed
// over the blocks.
[[nodiscard]] std::int64_t gather_bytes_sent(std::span<const GatherBlock> blocks, std::int64_t rank);
// Returns the bytes that `rank` sends when it sends each other rank that rank's piece: the sum of piece(k) over
// k != rank, summed over the blocks.
[[nodiscard]] std::int64_t reduce_bytes_sent(std::span<const ReduceBlock> blocks, std::int64_t rank);

// Every rank sums a whole array of up to this many bytes: one round of messages. In longer arrays each rank sums a
// block and sends it to all ranks: two rounds.
inline constexpr std::int64_t reduced_whole_bytes = 32 << 10;

struct ElementRange {
  std::int64_t begin = 0, end = 0;
};
// Returns the elements of a longer array that `rank` sums. Blocks have ceil(elements / ranks) elements; the last ones
// may be shorter or empty.
[[nodiscard]] ElementRange all_reduce_block(std::int64_t elements, std::int64_t rank, std::int64_t ranks);

// Returns the bytes that `rank` sends in an all-reduce. Array summed whole: bytes * (ranks - 1). Array summed in
// blocks: bytes - block + block * (ranks - 1), where `block` is the bytes of the block that `rank` sums.
[[nodiscard]] std::int64_t all_reduce_bytes_sent(std::int64_t elements, ElementType type, std::int64_t rank,
                                                 std::int64_t ranks);
// Returns the bytes of the rows that `rank` sends to other ranks.
[[nodiscard]] std::int64_t rows_bytes_sent(std::span<const std::int64_t> send_counts, std::int64_t row_elements,
                                           ElementType type, std::int64_t rank);
// Returns the bytes that `rank` sends in a broadcast: bytes * (ranks - 1) on the root, 0 on the others.
[[nodiscard]] std::int64_t broadcast_bytes_sent(std::int64_t elements, ElementType type, std::int64_t root,
                                                std::int64_t rank, std::int64_t ranks);

}  // namespace tessera::comm
