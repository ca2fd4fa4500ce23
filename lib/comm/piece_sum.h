// Sums (or maxima) over the ranks of strided pieces, a stretch of bytes at a time, in the order of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/byte_sequence.h"
#include "comm/communicator.h"

namespace tessera::comm {

enum class TotalGoes : std::uint8_t { added, stored };

// One tensor's part that this rank sums. `own` is what this rank contributes; `target` has its shape, and
// total_type(type) where the total is added to what is there, `type` where it is stored.
struct SummedPiece {
  ElementType type{};
  Strided own;
  Strided target;
  ReduceOperation operation = ReduceOperation::add;
  TotalGoes total_goes = TotalGoes::added;
};

// The same as a block of Communicator::reduce_blocks of `ranks` ranks. Throws std::logic_error if its shapes or types
// do not fit.
[[nodiscard]] SummedPiece summed_piece(const ReduceBlock& block, std::int64_t rank, std::int64_t ranks);

class PieceSum {
 public:
  // Precondition: no piece has larger elements than the one before it, so that no element is misaligned within the
  // sequence of bytes. `rank` of `ranks` is this one.
  PieceSum(std::vector<SummedPiece> pieces, std::int64_t rank, std::int64_t ranks);
  // Bytes that each rank contributes.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  // Sums bytes begin to end of all contributions. contributions[k] points to these bytes as rank k sent them; this
  // rank's own place is not read. Precondition: begin is a multiple of 8, and no stretch is summed twice.
  void add(std::int64_t begin, std::int64_t end, std::span<const std::byte* const> contributions);

 private:
  struct Part {
    ElementType type;
    ReduceOperation operation;
    TotalGoes total_goes;
    std::int64_t begin;  // in the sequence of bytes
    ByteSequence own, target;
  };
  // What there is of a block: a total so far, and what is still to be combined with it (null: nothing).
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
  std::vector<double> total_, packed_;  // a block each; double for the alignment
};

}  // namespace tessera::comm
