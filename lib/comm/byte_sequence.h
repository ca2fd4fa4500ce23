// A list of strided pieces of memory treated as one sequence of bytes, and its division into messages. This is
// arithmetic only: sender and receiver divide a sequence alike because both know its number of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

// Consecutive bytes of memory.
struct Run {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

class ByteSequence {
 public:
  // Precondition: no negative count; stride >= row_elements where there are several rows.
  void append(const Strided& piece, ElementType type);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  // Returns the longest run that begins at byte `begin` of the sequence and does not pass `end`. Precondition:
  // 0 <= begin < end <= bytes().
  [[nodiscard]] Run run(std::int64_t begin, std::int64_t end) const;
  // Returns the runs that make up bytes [begin, end).
  [[nodiscard]] std::vector<Run> runs(std::int64_t begin, std::int64_t end) const;
  // Returns the number of runs of the whole sequence.
  [[nodiscard]] std::int64_t runs() const;
  // pack copies bytes [begin, end) of the sequence to consecutive memory; unpack copies them back into the pieces.
  void pack(std::int64_t begin, std::int64_t end, std::byte* to) const;
  void unpack(std::int64_t begin, std::int64_t end, const std::byte* from) const;

  // words() encodes the addresses and strides of the sequence for another process of this host; from_words() decodes
  // them there into a sequence whose addresses are valid only in the first process.
  [[nodiscard]] std::vector<std::int64_t> words() const;
  [[nodiscard]] static ByteSequence from_words(std::span<const std::int64_t> words);

 private:
  struct Piece {
    std::int64_t begin;  // its first byte, counted in the sequence
    std::byte* data;
    std::int64_t row_bytes, stride_bytes, rows;
  };
  std::vector<Piece> pieces_;  // without empty ones
  std::int64_t bytes_ = 0;
};

// Divides a sequence of bytes into messages of `message_bytes`; the last one may be shorter. An empty sequence has no
// messages.
class MessagePlan {
 public:
  // Precondition: is_legal_message(message_bytes).
  MessagePlan(std::int64_t bytes, std::int64_t message_bytes);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t count() const { return (bytes_ + message_bytes_ - 1) / message_bytes_; }
  [[nodiscard]] std::int64_t begin(std::int64_t message) const { return message * message_bytes_; }
  [[nodiscard]] std::int64_t end(std::int64_t message) const;

 private:
  std::int64_t bytes_, message_bytes_;
};

// Returns whether `bytes` may be a message's size: a positive multiple of 8, so that no message begins within an
// element, which fits into an int, the type of MPI's counts.
[[nodiscard]] bool is_legal_message(std::int64_t bytes);

// The largest number of messages under way at once to, or from, one rank.
inline constexpr std::int64_t message_window = 4;

// Returns the bytes of a message in a group of `ranks`: between 64 KiB and 1 MiB. Large groups use smaller messages, so
// that a reduction, which holds the messages under way from all ranks, needs about 32 MiB for them.
[[nodiscard]] std::int64_t message_bytes_for(std::int64_t ranks);

}  // namespace tessera::comm
