// Sends sequences of bytes to other ranks and receives others from them at the same time. Received bytes go to their
// place, or are summed in rank order as they arrive.
//
// Each sequence begins with a head that describes it; the receiver checks it before it gives the caller's memory to
// MPI. If a sequence belongs to another operation or has another length than expected, the receiver fails and writes
// nothing of it.
//
// Each sequence takes one of three ways. A short one travels in the message of its head. Others travel in messages of
// their own: consecutive memory is sent and received in place, other memory through staging for a few messages per
// peer. Large sequences within a host are read from the sender's memory: the head says where it lies, and the receiver
// tells the sender when it has read all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/byte_sequence.h"
#include "comm/mpi/peer_memory.h"
#include "comm/mpi/requests.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

// The operation that a transfer belongs to, and how to post its messages. An operation has two tags: `tag` for data,
// `control_tag` for heads and the notes that a sequence has been read.
struct Posting {
  Requests& requests;
  std::shared_ptr<RequestOwner> owner;
  std::string_view operation;
  std::int64_t number;  // counts the operations of the group
  int tag, control_tag;
};

// The thread that starts the operation builds a Transfer; the thread that owns the requests drives it. Peers are ranks
// of the requests' communicator.
class Transfer {
 public:
  // `memory` outlives this; null: all sequences travel in messages, as do those of fewer than `least_read_bytes`.
  Transfer(std::int64_t message_bytes, const PeerMemory* memory, std::int64_t least_read_bytes = 0)
      : message_bytes_(message_bytes), memory_(memory), least_read_bytes_(least_read_bytes) {}

  void send(int peer, ByteSequence source);
  void receive(int peer, ByteSequence place);
  // Receives from each of `peers` (the members of the group, in order) but this rank, `rank`, its contribution to
  // `sum`, and adds them up. Call it at most once.
  void sum(std::span<const int> peers, std::int64_t rank, PieceSum sum);

  // Declares that each rank passes `bytes` bytes to the operation; a rank that declares another number is an error.
  void all_pass(std::int64_t bytes) { whole_bytes_ = bytes; }

  // Returns the bytes that are sent and received, without heads.
  [[nodiscard]] std::int64_t bytes() const;
  void start(const Posting& posting);
  // Takes note that a message of `stream`, of `bytes` bytes, has ended, and posts more messages. Throws
  // Error(rank_failed) if the sender's operation or byte count does not match.
  void ended(const Posting& posting, Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes);
  // Reads or sums a limited part of the data that is ready, as other transfers need the thread too. Returns false if
  // none was ready.
  bool advance(const Posting& posting);
  [[nodiscard]] bool done() const;

 private:
  enum class Way : std::uint8_t { unknown, in_head, messages, reading };
  struct Head {
    std::array<char, 16> operation{};
    std::int64_t number = 0;
    std::int64_t whole_bytes = 0;
    std::int64_t bytes = 0;                     // of the sequence
    std::int64_t words_address = 0, words = 0;  // address and number of ByteSequence::words(); 0: not to be read
  };
  // The state of a sequence that is read from the sender's memory.
  struct Reading {
    std::vector<std::int64_t> words;  // the sender's ByteSequence::words()
    ByteSequence source;              // on the receiver: the sender's memory
    std::int64_t read = 0;            // bytes so far
  };
  // The sequence to or from one peer. Message k uses slot k % message_window from its posting until its release.
  struct Stream {
    Direction direction;
    int peer;
    ByteSequence bytes;  // empty where the received bytes are summed
    MessagePlan plan;
    Way way = Way::unknown;
    std::unique_ptr<std::byte[]> head = {};  // Head, then the bytes of a short sequence; requests point to this memory
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
    std::vector<std::size_t> streams;             // the index of each rank's stream; meaningless for this rank's
    std::vector<const std::byte*> contributions;  // by rank
    std::int64_t rank;
    std::int64_t summed = 0;  // bytes
  };
  void add_stream(Direction direction, int peer, ByteSequence bytes, std::int64_t count);
  [[nodiscard]] bool is_summed(const Stream& stream) const { return sum_ && stream.direction == Direction::receive; }
  void post_more(const Posting& posting, std::size_t stream);
  [[nodiscard]] std::byte* place_of(Stream& stream, std::int64_t message) const;

  [[nodiscard]] std::int64_t short_bytes() const;
  [[nodiscard]] Head head_of(const Posting& posting, const Stream& stream) const;
  void post_head(const Posting& posting, std::size_t stream);
  void send_head(const Posting& posting, std::size_t stream);
  void take_head(const Posting& posting, std::size_t stream, std::int64_t bytes);
  void begin_reading(Stream& stream, const Head& head) const;
  void post_control(const Posting& posting, std::size_t stream, Direction direction, std::int64_t what,
                    std::int64_t bytes);
  void note_read(const Posting& posting, std::size_t stream, std::int64_t bytes);
  bool read_some(const Posting& posting);

  [[nodiscard]] bool all_have(std::int64_t message) const;
  bool add_some(const Posting& posting);
  [[nodiscard]] const std::byte* contribution(Stream& stream, std::int64_t message, std::int64_t begin,
                                              std::int64_t end);

  std::int64_t message_bytes_;
  const PeerMemory* memory_;
  std::int64_t least_read_bytes_;
  std::int64_t whole_bytes_ = 0;
  std::vector<Stream> streams_;
  std::optional<Sum> sum_;
  std::size_t reads_next_ = 0;  // the stream whose turn it is
};

}  // namespace tessera::comm
