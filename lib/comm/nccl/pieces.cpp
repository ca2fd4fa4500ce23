#include "comm/nccl/pieces.h"

#include <algorithm>

#include "base/error.h"
#include "comm/traffic.h"

namespace tessera::comm {

std::vector<ElementRun> runs_of(const Strided& piece, ElementType type) {
  base::expect(piece.rows >= 0 && piece.row_elements >= 0, "a piece of {} x {}", piece.rows, piece.row_elements);
  if (piece.rows == 0 || piece.row_elements == 0) return {};
  base::expect(piece.rows == 1 || piece.stride_elements >= piece.row_elements, "rows of {} elements {} apart",
               piece.row_elements, piece.stride_elements);
  auto* const data = static_cast<std::byte*>(piece.data);
  if (piece.rows == 1 || piece.stride_elements == piece.row_elements) return {{data, piece.rows * piece.row_elements}};
  const auto stride_bytes = piece.stride_elements * static_cast<std::int64_t>(element_bytes(type));
  std::vector<ElementRun> runs;
  for (std::int64_t row = 0; row < piece.rows; ++row) runs.push_back({data + row * stride_bytes, piece.row_elements});
  return runs;
}

bool lie_side_by_side(std::span<const Strided> pieces, ElementType type) {
  const auto& first = pieces.front();
  if (first.rows == 0 || first.row_elements == 0) return false;
  const auto row_bytes = first.row_elements * static_cast<std::int64_t>(element_bytes(type));
  const auto ranks = static_cast<std::int64_t>(pieces.size());
  if (first.rows > 1 && first.stride_elements < ranks * first.row_elements) return false;
  for (std::int64_t k = 0; k < ranks; ++k) {
    const auto& piece = pieces[static_cast<std::size_t>(k)];
    if (piece.rows != first.rows || piece.row_elements != first.row_elements) return false;
    if (first.rows > 1 && piece.stride_elements != first.stride_elements) return false;
    if (piece.data != static_cast<std::byte*>(first.data) + k * row_bytes) return false;
  }
  return true;
}

std::int64_t largest_piece_bytes(std::span<const Strided> pieces, ElementType type) {
  std::int64_t largest = 0;
  for (const auto& piece : pieces) largest = std::max(largest, piece_bytes(piece, type));
  return largest;
}

}  // namespace tessera::comm
