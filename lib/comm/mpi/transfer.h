// Sequences of bytes going to and coming from other ranks at once; what comes in is put in place, or summed in the
// order of the ranks as it arrives.
//
// Each sequence begins with a head, for which every receiver has room: it says what follows, before memory of the
// caller is given to MPI. A sequence of another length than its place has, or of another operation, is an error of the
// receiver, and nothing of it is written.
//
// Three ways, for each sequence on its own. A short one comes with its head. Or in messages: consecutive memory is sent
// and received where it lies; other memory by way of a few messages' worth of staging per peer. Or, for large sequences
// within a host, by reading the other rank's memory: the head says where it lies, and the sender hears when it has been
// read.
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

// Of which operation a transfer is, and where its messages go: all of one operation have one tag, and one for heads and
// what answers them.
struct Posting {
  Requests& requests;
  std::shared_ptr<RequestOwner> owner;
  std::string_view operation;
  std::int64_t number;  // of the operation, in its group
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

  // Every rank passes so many bytes to the operation as a whole: one that passes another number is found out.
  void all_pass(std::int64_t bytes) { whole_bytes_ = bytes; }

  // Bytes that are sent and received, without heads.
  [[nodiscard]] std::int64_t bytes() const;
  void start(const Posting& posting);
  // A message of `stream`, of so many bytes, has ended; more may be posted. Throws Error(rank_failed) if what the
  // sender has to say does not fit.
  void ended(const Posting& posting, Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes);
  // Reads or sums some of what is there, not all at once: others wait for the thread too. False: nothing was there.
  bool advance(const Posting& posting);
  [[nodiscard]] bool done() const;

 private:
  enum class Way : std::uint8_t { unknown, in_head, messages, reading };
  struct Head {
    std::array<char, 16> operation{};
    std::int64_t number = 0;
    std::int64_t whole_bytes = 0;
    std::int64_t bytes = 0;                     // of the sequence
    std::int64_t words_address = 0, words = 0;  // where ByteSequence::words() lie, if it is to be read
  };
  // What is read of the sender's memory.
  struct Reading {
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
    Way way = Way::unknown;
    std::unique_ptr<std::byte[]> head = {};  // and the bytes of a short sequence; heap memory: requests point to it
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
