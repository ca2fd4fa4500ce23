#include "comm/traffic.h"

#include <algorithm>

namespace tessera::comm {

namespace {

std::int64_t bytes_of(std::int64_t elements, ElementType type) {
  return elements * static_cast<std::int64_t>(element_bytes(type));
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  calls += other.calls;
  bytes_sent += other.bytes_sent;
  seconds_under_way += other.seconds_under_way;
  seconds_exposed += other.seconds_exposed;
  return *this;
}

std::int64_t piece_bytes(const Strided& piece, ElementType type) {
  return bytes_of(piece.rows * piece.row_elements, type);
}

std::int64_t gather_bytes_sent(std::span<const GatherBlock> blocks, std::int64_t rank) {
  std::int64_t bytes = 0;
  for (const auto& block : blocks)
    bytes += piece_bytes(block.pieces[static_cast<std::size_t>(rank)], block.type) *
             (static_cast<std::int64_t>(block.pieces.size()) - 1);
  return bytes;
}

std::int64_t reduce_bytes_sent(std::span<const ReduceBlock> blocks, std::int64_t rank) {
  std::int64_t bytes = 0;
  for (const auto& block : blocks)
    for (std::size_t k = 0; k < block.pieces.size(); ++k)
      if (static_cast<std::int64_t>(k) != rank) bytes += piece_bytes(block.pieces[k], block.type);
  return bytes;
}

ElementRange all_reduce_block(std::int64_t elements, std::int64_t rank, std::int64_t ranks) {
  const auto block = (elements + ranks - 1) / ranks;
  return {std::min(rank * block, elements), std::min((rank + 1) * block, elements)};
}

std::int64_t all_reduce_bytes_sent(std::int64_t elements, ElementType type, std::int64_t rank, std::int64_t ranks) {
  const auto bytes = bytes_of(elements, type);
  if (bytes <= reduced_whole_bytes) return bytes * (ranks - 1);
  const auto range = all_reduce_block(elements, rank, ranks);
  const auto block = bytes_of(range.end - range.begin, type);
  return bytes - block + block * (ranks - 1);
}

std::int64_t rows_bytes_sent(std::span<const std::int64_t> send_counts, std::int64_t row_elements, ElementType type,
                             std::int64_t rank) {
  std::int64_t rows = 0;
  for (std::size_t k = 0; k < send_counts.size(); ++k)
    if (static_cast<std::int64_t>(k) != rank) rows += send_counts[k];
  return bytes_of(rows * row_elements, type);
}

std::int64_t broadcast_bytes_sent(std::int64_t elements, ElementType type, std::int64_t root, std::int64_t rank,
                                  std::int64_t ranks) {
  return rank == root ? bytes_of(elements, type) * (ranks - 1) : 0;
}

}  // namespace tessera::comm
