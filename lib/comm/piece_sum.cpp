#include "comm/piece_sum.h"

#include <algorithm>

#include "base/error.h"
#include "comm/reduction.h"

namespace tessera::comm {

namespace {

constexpr std::int64_t block_bytes = 128 << 10;  // of totals: stays in the second-level cache

std::int64_t size_of(ElementType type) { return static_cast<std::int64_t>(element_bytes(type)); }

}  // namespace

SummedPiece summed_piece(const ReduceBlock& block, std::int64_t rank, std::int64_t ranks) {
  base::expect(static_cast<std::int64_t>(block.pieces.size()) == ranks, "{} pieces for {} ranks", block.pieces.size(),
               ranks);
  const auto& own = block.pieces[static_cast<std::size_t>(rank)];
  base::expect(own.rows == block.sum.rows && own.row_elements == block.sum.row_elements,
               "a piece of {} x {} is added to a sum of {} x {}", own.rows, own.row_elements, block.sum.rows,
               block.sum.row_elements);
  base::expect(block.type != ElementType::bfloat16 || block.sum_type == ElementType::float32,
               "bfloat16 is summed in float32 only");
  base::expect(block.sum_type == total_type(block.type), "a sum of another type than its pieces");
  return {.type = block.type, .own = own, .target = block.sum};
}

PieceSum::PieceSum(std::vector<SummedPiece> pieces, std::int64_t rank, std::int64_t ranks)
    : rank_(rank), ranks_(ranks) {
  for (const auto& piece : pieces) {
    base::expect(parts_.empty() || size_of(piece.type) <= size_of(parts_.back().type), "larger elements after smaller");
    Part part{.type = piece.type, .operation = piece.operation, .total_goes = piece.total_goes, .begin = bytes_};
    part.own.append(piece.own, piece.type);
    part.target.append(piece.target, piece.total_goes == TotalGoes::added ? total_type(piece.type) : piece.type);
    bytes_ += part.own.bytes();
    parts_.push_back(std::move(part));
  }
  if (bytes_ == 0) return;
  total_.resize(block_bytes / sizeof(double));
  packed_.resize(block_bytes / sizeof(double));
}

void PieceSum::add(std::int64_t begin, std::int64_t end, std::span<const std::byte* const> contributions) {
  for (const auto& part : parts_) {
    const auto part_end = std::min(end, part.begin + part.own.bytes());
    const auto block = block_bytes / size_of(total_type(part.type)) * size_of(part.type);
    for (auto at = std::max(begin, part.begin); at < part_end; at += block)
      add_block(part, at - part.begin, std::min(at + block, part_end) - part.begin, at - begin, contributions);
  }
}

void PieceSum::add_block(const Part& part, std::int64_t begin, std::int64_t end, std::int64_t of_contributions,
                         std::span<const std::byte* const> contributions) {
  const auto elements = (end - begin) / size_of(part.type);
  const auto values_of = [&](std::int64_t k) {
    return k == rank_ ? own_bytes(part, begin, end) : contributions[static_cast<std::size_t>(k)] + of_contributions;
  };
  auto* const total = reinterpret_cast<std::byte*>(total_.data());
  // Saves passes over the block: the first values are not copied if they have the total's type, and the last ones are
  // combined in the same pass that adds the total to its target.
  Block block{.total = values_of(0)};
  if (ranks_ == 1 || total_type(part.type) != part.type) {
    start_total(total, block.total, elements, part.type);
    block.total = total;
  }
  const auto combined = part.total_goes == TotalGoes::added ? ranks_ - 1 : ranks_;
  for (std::int64_t k = 1; k < combined; ++k) {
    if (block.total == total)
      combine(total, values_of(k), elements, part.type, part.operation);
    else
      combine_into(total, block.total, values_of(k), elements, part.type, part.operation);
    block.total = total;
  }
  if (1 <= combined && combined < ranks_) block.last = values_of(combined);
  place(part, begin, end, block);
}

const std::byte* PieceSum::own_bytes(const Part& part, std::int64_t begin, std::int64_t end) {
  const auto run = part.own.run(begin, end);
  if (run.bytes == end - begin) return run.data;
  auto* packed = reinterpret_cast<std::byte*>(packed_.data());
  part.own.pack(begin, end, packed);
  return packed;
}

void PieceSum::place(const Part& part, std::int64_t begin, std::int64_t end, const Block& block) const {
  const auto value_size = size_of(part.type), total_size = size_of(total_type(part.type));
  const auto target_size = part.total_goes == TotalGoes::added ? total_size : value_size;
  const auto first = begin / value_size, last = end / value_size;
  for (auto element = first; element < last;) {
    const auto run = part.target.run(element * target_size, last * target_size);
    const auto elements = run.bytes / target_size;
    const auto* total = block.total + (element - first) * total_size;
    if (part.total_goes == TotalGoes::stored)
      store_total(run.data, total, elements, part.type);
    else if (block.last == nullptr)
      add_total(run.data, total, elements, part.type);
    else
      add_combined(run.data, total, block.last + (element - first) * value_size, elements, part.type, part.operation);
    element += elements;
  }
}

}  // namespace tessera::comm
