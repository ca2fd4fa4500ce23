// Sums (or maxima) of the ranks' strided pieces, formed in rank order, a range of bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/byte_sequence.h"
#include "comm/communicator.h"

namespace tessera::comm {

// Says whether the total is added to the values of the target or replaces them.
enum class TotalGoes : std::uint8_t { added, stored };

// The part of one tensor that this rank sums. `own` is this rank's contribution. `target` has the same shape; its
// elements have total_type(type) where the total is added, `type` where it is stored.
struct SummedPiece {
  ElementType type{};
  Strided own;
  Strided target;
  ReduceOperation operation = ReduceOperation::add;
  TotalGoes total_goes = TotalGoes::added;
};

// Converts a block of Communicator::reduce_blocks into the piece that `rank` of `ranks` sums. Throws std::logic_error
// if the block's shapes or types do not match.
[[nodiscard]] SummedPiece summed_piece(const ReduceBlock& block, std::int64_t rank, std::int64_t ranks);

class PieceSum {
 public:
  // `rank` is this rank, of `ranks`. Precondition: no piece has larger elements than the one before it, so that every
  // element is aligned within the sequence of bytes.
  PieceSum(std::vector<SummedPiece> pieces, std::int64_t rank, std::int64_t ranks);
  // Returns the bytes that each rank contributes.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  // Sums bytes [begin, end) of all contributions. contributions[k] points to these bytes as rank k sent them; this
  // rank's own entry is not read. Precondition: `begin` is a multiple of 8, and no byte is summed twice.
  void add(std::int64_t begin, std::int64_t end, std::span<const std::byte* const> contributions);

 private:
  struct Part {
    ElementType type;
    ReduceOperation operation;
    TotalGoes total_goes;
    std::int64_t begin;  // its first byte, counted in the sequence
    ByteSequence own, target;
  };
  // A block being summed: the total so far, and the values still to be combined with it (null: none).
  struct Block {
    const std::byte* total = nullptr;
    const std::byte* last = nullptr;
  };
  void add_block(const Part& part, std::int64_t begin, std::int64_t end, std::int64_t of_contributions,
                 std::span<const std::byte* const> contributions);
  [[nodiscard]] const std::byte* own_bytes(const Part& part, std::int64_t begin, std::int64_t end);
  void place(const Part& part, std::int64_t begin, std::int64_t end, const Block& block) const;

  std::vector<Part> parts_;
  std::int64_t bytes_ = 0;
  std::int64_t rank_, ranks_;
  std::vector<double> total_, packed_;  // space for one block each; of double for its alignment
};

}  // namespace tessera::comm
