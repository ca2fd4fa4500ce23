// Sequences of bytes going to and coming from other ranks at once; what comes in is put in place, or summed in the
// order of the ranks as it arrives.
//
// Two ways, for each sequence on its own. In messages: consecutive memory is sent and received where it lies; other
// memory by way of a few messages' worth of staging per peer. Or, for large sequences within a host, by reading the
// other rank's memory: the sender announces where it lies (or, if it lies in short runs, that messages follow), and
// hears when it has been read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/byte_sequence.h"
#include "comm/mpi/peer_memory.h"
#include "comm/mpi/requests.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

// Where a transfer's messages go: all of one operation have one tag, and one for announcements and what answers them.
struct Posting {
  Requests& requests;
  std::shared_ptr<RequestOwner> owner;
  int tag, control_tag;
};

// Built by the thread that asks for the operation, driven by the one that owns the requests. Peers are ranks of the
// communicator of the requests.
class Transfer {
 public:
  // `memory` outlives this; null: all in messages. Sequences of fewer than `least_read_bytes` go in messages too.
  Transfer(std::int64_t message_bytes, const PeerMemory* memory, std::int64_t least_read_bytes = 0)
      : message_bytes_(message_bytes), memory_(memory), least_read_bytes_(least_read_bytes) {}

  void send(int peer, ByteSequence source);
  void receive(int peer, ByteSequence place);
  // Receives from every rank but `rank` of `peers` (in the order of the group) what `sum` adds up. At most once.
  void sum(std::span<const int> peers, std::int64_t rank, PieceSum sum);

  // Bytes that are sent and received.
  [[nodiscard]] std::int64_t bytes() const;
  void start(const Posting& posting);
  // A message of `stream` has ended; more may be posted.
  void ended(const Posting& posting, Direction direction, std::size_t stream, std::int64_t message);
  // Reads or sums some of what is there, not all at once: others wait for the thread too. False: nothing was there.
  bool advance(const Posting& posting);
  [[nodiscard]] bool done() const;

 private:
  enum class Way : std::uint8_t { messages, to_be_announced, reading };
  struct Announcement {
    std::int64_t bytes = 0;                     // of the sequence, to compare
    std::int64_t words_address = 0, words = 0;  // where ByteSequence::words() lie; no words: messages follow
  };
  // What passes between this rank and the sender's memory; heap memory, since requests point to it.
  struct Reading {
    Announcement announcement;
    std::vector<std::int64_t> words;  // the sender's
    ByteSequence source;              // the receiver's view of the sender's memory
    std::int64_t read = 0;            // bytes so far
  };
  // What goes to or comes from one peer. Message k has slot k % message_window from its posting until its release.
  struct Stream {
    Direction direction;
    int peer;
    ByteSequence bytes;  // empty where a sum takes what comes
    MessagePlan plan;
    Way way;
    std::int64_t posted = 0, released = 0;
    std::array<bool, message_window> ended{};
    std::array<std::unique_ptr<std::byte[]>, message_window> staging;
    std::unique_ptr<Reading> reading = {};
    int control_messages = 0;  // under way

    [[nodiscard]] std::size_t slot(std::int64_t message) const {
      return static_cast<std::size_t>(message % message_window);
    }
    [[nodiscard]] bool done() const;
  };
  struct Sum {
    PieceSum pieces;
    std::vector<std::size_t> streams;             // the place of each rank's stream; no meaning for this one's
    std::vector<const std::byte*> contributions;  // by rank
    std::int64_t rank;
    std::int64_t summed = 0;  // bytes
  };
  void add_stream(Direction direction, int peer, ByteSequence bytes, std::int64_t count);
  [[nodiscard]] bool is_summed(const Stream& stream) const { return sum_ && stream.direction == Direction::receive; }
  void post_more(const Posting& posting, std::size_t stream);
  [[nodiscard]] std::byte* place_of(Stream& stream, std::int64_t message) const;

  void announce(const Posting& posting, std::size_t stream);
  void post_control(const Posting& posting, std::size_t stream, Direction direction, std::int64_t what);
  void control_ended(const Posting& posting, std::size_t stream, Direction direction, std::int64_t what);
  void note_read(const Posting& posting, std::size_t stream, std::int64_t bytes);
  bool read_some(const Posting& posting);

  [[nodiscard]] bool all_have(std::int64_t message) const;
  bool add_some(const Posting& posting);
  [[nodiscard]] const std::byte* contribution(Stream& stream, std::int64_t message, std::int64_t begin,
                                              std::int64_t end);

  std::int64_t message_bytes_;
  const PeerMemory* memory_;
  std::int64_t least_read_bytes_;
  std::vector<Stream> streams_;
  std::optional<Sum> sum_;
  std::size_t reads_next_ = 0;  // the stream whose turn it is
};

}  // namespace tessera::comm
