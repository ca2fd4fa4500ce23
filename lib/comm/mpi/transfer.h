// Sequences of bytes going to and coming from other ranks at once, in messages; what comes in is put in place, or
// summed in the order of the ranks as it arrives. Consecutive memory is sent and received where it lies; other memory
// by way of a few messages' worth of staging per peer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/byte_sequence.h"
#include "comm/mpi/requests.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

// Where a transfer's messages go: all of one operation have one tag.
struct Posting {
  Requests& requests;
  std::shared_ptr<RequestOwner> owner;
  int tag;
};

// Built by the thread that asks for the operation, driven by the one that owns the requests. Peers are ranks of the
// communicator of the requests.
class Transfer {
 public:
  explicit Transfer(std::int64_t message_bytes) : message_bytes_(message_bytes) {}

  void send(int peer, ByteSequence source);
  void receive(int peer, ByteSequence place);
  // Receives from every rank but `rank` of `peers` (in the order of the group) what `sum` adds up. At most once.
  void sum(std::span<const int> peers, std::int64_t rank, PieceSum sum);

  // Bytes that are sent and received.
  [[nodiscard]] std::int64_t bytes() const;
  void start(const Posting& posting);
  // A message of `stream` has ended; more may be posted.
  void ended(const Posting& posting, Direction direction, std::size_t stream, std::int64_t message);
  [[nodiscard]] bool done() const;

 private:
  // Messages to or from one peer. Message k has slot k % message_window from its posting until its release.
  struct Stream {
    Direction direction;
    int peer;
    ByteSequence bytes;  // empty where a sum takes what comes
    MessagePlan plan;
    std::int64_t posted = 0, released = 0;
    std::array<bool, message_window> ended{};
    std::array<std::unique_ptr<std::byte[]>, message_window> staging;

    [[nodiscard]] std::size_t slot(std::int64_t message) const {
      return static_cast<std::size_t>(message % message_window);
    }
  };
  struct Sum {
    PieceSum pieces;
    std::vector<std::size_t> streams;             // the place of each rank's stream; no meaning for this one's
    std::vector<const std::byte*> contributions;  // by rank
    std::int64_t rank;
  };
  [[nodiscard]] bool is_summed(const Stream& stream) const { return sum_ && stream.direction == Direction::receive; }
  void post_more(const Posting& posting, std::size_t stream);
  [[nodiscard]] std::byte* place_of(Stream& stream, std::int64_t message) const;
  [[nodiscard]] bool all_have(std::int64_t message) const;
  void add_arrived(const Posting& posting);

  std::int64_t message_bytes_;
  std::vector<Stream> streams_;
  std::optional<Sum> sum_;
  std::int64_t summed_ = 0;  // messages of each peer
};

}  // namespace tessera::comm
