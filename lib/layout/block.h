// Blocks of a dimension and boxes of a tensor: the arithmetic of every shard.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::layout {

// Half-open range of indices of one dim; empty when begin == end.
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const Block&, const Block&) = default;
};

// Block `index` of `size` elements cut into `parts` blocks of ceil(size / parts): the last ones may be short or empty
// (an empty block is [size, size)). Precondition: size >= 0, parts >= 1, 0 <= index < parts.
[[nodiscard]] Block block_of(std::int64_t size, std::int64_t parts, std::int64_t index);

// A rectangular part of a tensor: one block per dim.
struct Box {
  std::vector<Block> dims;
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  friend bool operator==(const Box&, const Box&) = default;
};

// The box of a whole tensor of `shape`.
[[nodiscard]] Box whole_box(const std::vector<std::int64_t>& shape);

// The common part; a box with an empty block where there is none. Precondition: equal numbers of dims.
[[nodiscard]] Box intersect(const Box& a, const Box& b);

}  // namespace tessera::layout
