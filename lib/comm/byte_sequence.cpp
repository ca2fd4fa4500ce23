#include "comm/byte_sequence.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tessera::comm {

void ByteSequence::append(const Strided& piece, ElementType type) {
  base::expect(piece.rows >= 0 && piece.row_elements >= 0, "a piece of {} x {}", piece.rows, piece.row_elements);
  if (piece.rows == 0 || piece.row_elements == 0) return;
  base::expect(piece.rows == 1 || piece.stride_elements >= piece.row_elements, "rows of {} elements {} apart",
               piece.row_elements, piece.stride_elements);
  const auto element = static_cast<std::int64_t>(element_bytes(type));
  const auto row_bytes = piece.row_elements * element;
  const auto total = piece.rows * row_bytes;
  const bool one_run = piece.rows == 1 || piece.stride_elements == piece.row_elements;
  pieces_.push_back({.begin = bytes_,
                     .data = static_cast<std::byte*>(piece.data),
                     .row_bytes = one_run ? total : row_bytes,
                     .stride_bytes = one_run ? total : piece.stride_elements * element,
                     .rows = one_run ? 1 : piece.rows});
  bytes_ += total;
}

Run ByteSequence::run(std::int64_t begin, std::int64_t end) const {
  base::expect(0 <= begin && begin < end && end <= bytes_, "bytes {} to {} of {}", begin, end, bytes_);
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                      [](std::int64_t at, const Piece& piece) { return at < piece.begin; });
  const auto& piece = *(after - 1);
  const auto row = (begin - piece.begin) / piece.row_bytes;
  const auto within = (begin - piece.begin) % piece.row_bytes;
  const auto bytes = std::min(piece.row_bytes - within, end - begin);
  return {piece.data + row * piece.stride_bytes + within, bytes};
}

std::vector<Run> ByteSequence::runs(std::int64_t begin, std::int64_t end) const {
  std::vector<Run> all;
  for (; begin < end; begin += all.back().bytes) all.push_back(run(begin, end));
  return all;
}

std::int64_t ByteSequence::runs() const {
  return std::accumulate(pieces_.begin(), pieces_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Piece& piece) { return sum + piece.rows; });
}

std::vector<std::int64_t> ByteSequence::words() const {
  std::vector<std::int64_t> words;
  for (const auto& p : pieces_)
    words.insert(words.end(), {reinterpret_cast<std::int64_t>(p.data), p.row_bytes, p.stride_bytes, p.rows});
  return words;
}

ByteSequence ByteSequence::from_words(std::span<const std::int64_t> words) {
  ByteSequence sequence;
  for (std::size_t k = 0; k + 3 < words.size(); k += 4) {
    sequence.pieces_.push_back({.begin = sequence.bytes_,
                                .data = reinterpret_cast<std::byte*>(words[k]),
                                .row_bytes = words[k + 1],
                                .stride_bytes = words[k + 2],
                                .rows = words[k + 3]});
    sequence.bytes_ += words[k + 1] * words[k + 3];
  }
  return sequence;
}

void ByteSequence::pack(std::int64_t begin, std::int64_t end, std::byte* to) const {
  while (begin < end) {
    const auto source = run(begin, end);
    std::memcpy(to, source.data, static_cast<std::size_t>(source.bytes));
    to += source.bytes;
    begin += source.bytes;
  }
}

void ByteSequence::unpack(std::int64_t begin, std::int64_t end, const std::byte* from) const {
  while (begin < end) {
    const auto target = run(begin, end);
    std::memcpy(target.data, from, static_cast<std::size_t>(target.bytes));
    from += target.bytes;
    begin += target.bytes;
  }
}

MessagePlan::MessagePlan(std::int64_t bytes, std::int64_t message_bytes)
    : bytes_(bytes), message_bytes_(message_bytes) {
  base::expect(is_legal_message(message_bytes), "messages of {} bytes", message_bytes);
}

std::int64_t MessagePlan::end(std::int64_t message) const { return std::min(bytes_, begin(message) + message_bytes_); }

bool is_legal_message(std::int64_t bytes) {
  return bytes > 0 && bytes % 8 == 0 && bytes <= std::numeric_limits<int>::max();
}

std::int64_t message_bytes_for(std::int64_t ranks) {
  constexpr std::int64_t budget = 32 << 20, most = 1 << 20, least = 64 << 10;
  const auto peers = std::max<std::int64_t>(1, ranks - 1);
  return std::clamp(budget / (peers * message_window) / 8 * 8, least, most);
}

}  // namespace tessera::comm
