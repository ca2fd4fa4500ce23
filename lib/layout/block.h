// Blocks of a dim and boxes of a tensor: the arithmetic behind every shard.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::layout {

// A half-open range of indices of one dim, empty if begin == end.
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const Block&, const Block&) = default;
};

// Divides `size` elements into `parts` blocks of ceil(size / parts) elements and returns block `index`. The last blocks
// may be short or empty; an empty one is [size, size). Precondition: size >= 0, parts >= 1, 0 <= index < parts.
[[nodiscard]] Block block_of(std::int64_t size, std::int64_t parts, std::int64_t index);

// A rectangular part of a tensor: one block per dim.
struct Box {
  std::vector<Block> dims;
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  friend bool operator==(const Box&, const Box&) = default;
};

// Returns the box of a whole tensor of `shape`.
[[nodiscard]] Box whole_box(const std::vector<std::int64_t>& shape);

// Returns the common part of two boxes. If there is none, some block of the result is empty. Precondition: equal
// numbers of dims.
[[nodiscard]] Box intersect(const Box& a, const Box& b);

}  // namespace tessera::layout
