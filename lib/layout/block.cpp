#include "layout/block.h"

#include "base/error.h"

#include <algorithm>

namespace tessera::layout {

Block block_of(std::int64_t size, std::int64_t parts, std::int64_t index) {
  base::expect(size >= 0 && parts >= 1 && index >= 0 && index < parts, "block {} of {} elements in {} parts", index,
               size, parts);
  const std::int64_t length = size / parts + (size % parts == 0 ? 0 : 1);
  const std::int64_t begin = std::min(size, index * length);
  return {begin, std::min(size, begin + length)};
}

std::int64_t Box::elements() const {
  std::int64_t product = 1;
  for (const Block& block : dims) product *= block.size();
  return product;
}

std::vector<std::int64_t> Box::shape() const {
  std::vector<std::int64_t> sizes;
  sizes.reserve(dims.size());
  for (const Block& block : dims) sizes.push_back(block.size());
  return sizes;
}

Box whole_box(const std::vector<std::int64_t>& shape) {
  Box box;
  box.dims.reserve(shape.size());
  for (const std::int64_t size : shape) box.dims.push_back({0, size});
  return box;
}

Box intersect(const Box& a, const Box& b) {
  base::expect(a.dims.size() == b.dims.size(), "boxes of {} and {} dims", a.dims.size(), b.dims.size());
  Box common;
  common.dims.reserve(a.dims.size());
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    const std::int64_t begin = std::max(a.dims[d].begin, b.dims[d].begin);
    common.dims.push_back({begin, std::max(begin, std::min(a.dims[d].end, b.dims[d].end))});
  }
  return common;
}

}  // namespace tessera::layout
