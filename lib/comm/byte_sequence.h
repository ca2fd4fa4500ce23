// Strided pieces of memory read one after the other as one sequence of bytes, and the messages that it is sent in.
// Arithmetic only: both ends of a transfer cut alike because both know the number of bytes.
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

  // The longest run that begins at byte `begin` of the sequence and does not pass `end`; begin < end <= bytes().
  [[nodiscard]] Run run(std::int64_t begin, std::int64_t end) const;
  // All of them from `begin` to `end`; and how many there are in the whole sequence.
  [[nodiscard]] std::vector<Run> runs(std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::int64_t runs() const;
  // Copies bytes begin to end out of the pieces, or into them.
  void pack(std::int64_t begin, std::int64_t end, std::byte* to) const;
  void unpack(std::int64_t begin, std::int64_t end, const std::byte* from) const;

  // The sequence in numbers, for another process of this host; and such a sequence, whose memory is the other's.
  [[nodiscard]] std::vector<std::int64_t> words() const;
  [[nodiscard]] static ByteSequence from_words(std::span<const std::int64_t> words);

 private:
  struct Piece {
    std::int64_t begin;  // in the sequence
    std::byte* data;
    std::int64_t row_bytes, stride_bytes, rows;
  };
  std::vector<Piece> pieces_;  // none is empty
  std::int64_t bytes_ = 0;
};

// A sequence of bytes cut into messages of `message_bytes`, the last one shorter. No bytes: no messages.
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

// A multiple of 8 (no message begins within an element) that MPI's counts, which are int, can hold.
[[nodiscard]] bool is_legal_message(std::int64_t bytes);

// How many messages to or from one rank are under way at once.
inline constexpr std::int64_t message_window = 4;

// Bytes of a message in a group of `ranks`: up to 1 MiB, less in large groups so that the messages under way from all
// ranks together, which a reduction must hold, stay near 32 MiB; at least 64 KiB.
[[nodiscard]] std::int64_t message_bytes_for(std::int64_t ranks);

}  // namespace tessera::comm
