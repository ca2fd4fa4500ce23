#include "comm/mpi/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::comm {

namespace {

// Message numbers of control messages; data messages are numbered from 0.
constexpr std::int64_t head_message = -1, has_read_message = -2;

constexpr std::int64_t bytes_in_turn = 512 << 10;   // read or summed before other transfers have their turn
constexpr std::int64_t summed_at_once = 128 << 10;  // of each rank: stays in the cache

template <class... Args>
[[noreturn]] void fail_apart(fmt::format_string<Args...> format, Args&&... args) {
  throw base::Error(base::ExitCode::rank_failed, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

bool Transfer::Stream::done() const {
  if (control_messages > 0) return false;
  switch (way) {
    case Way::unknown: return false;
    case Way::in_head: return true;
    case Way::messages: return released == plan.count();
    case Way::reading: return direction == Direction::send || reading->read == plan.bytes();
  }
  return false;
}

void Transfer::add_stream(Direction direction, int peer, ByteSequence bytes, std::int64_t count) {
  streams_.push_back(
      {.direction = direction, .peer = peer, .bytes = std::move(bytes), .plan = MessagePlan(count, message_bytes_)});
}

void Transfer::send(int peer, ByteSequence source) {
  const auto count = source.bytes();
  add_stream(Direction::send, peer, std::move(source), count);
}

void Transfer::receive(int peer, ByteSequence place) {
  base::expect(!sum_, "what comes in is either summed or put in place");
  const auto count = place.bytes();
  add_stream(Direction::receive, peer, std::move(place), count);
}

void Transfer::sum(std::span<const int> peers, std::int64_t rank, PieceSum sum) {
  base::expect(!sum_, "one sum a transfer");
  Sum added{.pieces = std::move(sum), .streams = {}, .contributions = {}, .rank = rank};
  for (std::size_t k = 0; k < peers.size(); ++k) {
    added.streams.push_back(streams_.size());
    if (static_cast<std::int64_t>(k) != rank) add_stream(Direction::receive, peers[k], {}, added.pieces.bytes());
  }
  added.contributions.resize(peers.size());
  sum_ = std::move(added);
}

std::int64_t Transfer::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& stream : streams_) bytes += stream.plan.bytes();
  return bytes;
}

void Transfer::start(const Posting& posting) {
  // Receives first: MPI need not buffer a head whose receive is already posted. It also lets the first control message
  // of each peer, its head, match the receive for a head and not the one for has_read_message.
  for (const auto direction : {Direction::receive, Direction::send})
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      if (streams_[k].direction != direction) continue;
      if (direction == Direction::receive)
        post_head(posting, k);
      else
        send_head(posting, k);
    }
}

void Transfer::ended(const Posting& posting, Direction direction, std::size_t index, std::int64_t message,
                     std::int64_t bytes) {
  auto& stream = streams_[index];
  if (message < 0) {
    --stream.control_messages;
    if (direction == Direction::receive && message == head_message) take_head(posting, index, bytes);
    return;
  }
  const auto begin = stream.plan.begin(message), end = stream.plan.end(message);
  if (bytes != end - begin) fail_apart("rank {} sent {} bytes of {}", stream.peer, bytes, end - begin);
  const auto slot = stream.slot(message);
  stream.ended[slot] = true;
  if (is_summed(stream)) return;  // advance() sums and releases it
  const bool is_staged = stream.bytes.run(begin, end).bytes < end - begin;
  if (direction == Direction::receive && is_staged) stream.bytes.unpack(begin, end, stream.staging[slot].get());
  while (stream.released < stream.posted && stream.ended[stream.slot(stream.released)])
    stream.ended[stream.slot(stream.released++)] = false;
  post_more(posting, index);
}

bool Transfer::advance(const Posting& posting) { return sum_ ? add_some(posting) : read_some(posting); }

bool Transfer::done() const {
  return (!sum_ || sum_->summed == sum_->pieces.bytes()) &&
         std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.done(); });
}

void Transfer::post_more(const Posting& posting, std::size_t index) {
  auto& stream = streams_[index];
  while (stream.posted < stream.plan.count() && stream.posted - stream.released < message_window) {
    const auto message = stream.posted++;
    posting.requests.post({.owner = posting.owner,
                           .direction = stream.direction,
                           .peer = stream.peer,
                           .tag = posting.tag,
                           .stream = index,
                           .number = message,
                           .data = place_of(stream, message),
                           .bytes = static_cast<int>(stream.plan.end(message) - stream.plan.begin(message))});
  }
}

std::byte* Transfer::place_of(Stream& stream, std::int64_t message) const {
  const auto begin = stream.plan.begin(message), end = stream.plan.end(message);
  const bool summed = is_summed(stream);
  if (!summed) {
    const auto run = stream.bytes.run(begin, end);
    if (run.bytes == end - begin) return run.data;
  }
  auto& staging = stream.staging[stream.slot(message)];
  const auto largest = stream.plan.end(0);
  if (staging == nullptr) staging = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(largest));
  if (stream.direction == Direction::send) stream.bytes.pack(begin, end, staging.get());
  return staging.get();
}

// ---- heads

// Returns the length up to which a sequence travels with its head: 16 KiB, less in large groups, since every peer's
// head needs a buffer with room for it.
std::int64_t Transfer::short_bytes() const { return message_bytes_ / 64; }

Transfer::Head Transfer::head_of(const Posting& posting, const Stream& stream) const {
  Head head{.number = posting.number, .whole_bytes = whole_bytes_, .bytes = stream.plan.bytes()};
  posting.operation.copy(head.operation.data(), head.operation.size() - 1);
  return head;
}

void Transfer::post_head(const Posting& posting, std::size_t index) {
  auto& stream = streams_[index];
  const auto room = static_cast<std::int64_t>(sizeof(Head)) + short_bytes();
  stream.head = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room));
  new (stream.head.get()) Head;
  post_control(posting, index, Direction::receive, head_message, room);
}

void Transfer::send_head(const Posting& posting, std::size_t index) {
  auto& stream = streams_[index];
  const auto count = stream.plan.bytes();
  auto head = head_of(posting, stream);
  if (count <= short_bytes()) {
    stream.way = Way::in_head;
  } else if (memory_ != nullptr && count >= least_read_bytes_ && memory_->reaches(stream.peer, count) &&
             memory_->is_worth_reading(stream.bytes)) {
    stream.way = Way::reading;
    stream.reading = std::make_unique<Reading>();
    stream.reading->words = stream.bytes.words();
    head.words_address = reinterpret_cast<std::int64_t>(stream.reading->words.data());
    head.words = static_cast<std::int64_t>(stream.reading->words.size());
  } else {
    stream.way = Way::messages;
  }
  const auto with_head = stream.way == Way::in_head ? count : 0;
  const auto bytes = static_cast<std::int64_t>(sizeof(Head)) + with_head;
  stream.head = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  std::memcpy(stream.head.get(), &head, sizeof(Head));
  stream.bytes.pack(0, with_head, stream.head.get() + sizeof(Head));
  post_control(posting, index, Direction::send, head_message, bytes);
  if (stream.way == Way::messages) post_more(posting, index);
  if (stream.way == Way::reading) post_control(posting, index, Direction::receive, has_read_message, 0);
}

void Transfer::take_head(const Posting& posting, std::size_t index, std::int64_t bytes) {
  auto& stream = streams_[index];
  Head head;
  std::memcpy(&head, stream.head.get(), sizeof(Head));
  const auto expected = head_of(posting, stream);
  const auto peer = stream.peer, own = posting.requests.rank();
  if (head.operation != expected.operation)
    fail_apart("rank {} is in {} where rank {} is in {}: the ranks disagree on the order of their collectives", peer,
               std::string_view(head.operation.data()), own, posting.operation);
  if (head.number != expected.number)
    fail_apart("rank {} is in operation {} of the group where rank {} is in {}: one of them has skipped some", peer,
               head.number, own, expected.number);
  if (head.whole_bytes != expected.whole_bytes)
    fail_apart("rank {} passes {} bytes and rank {} passes {}: the ranks disagree on the counts of a collective", peer,
               head.whole_bytes, own, expected.whole_bytes);
  if (head.bytes != expected.bytes)
    fail_apart("rank {} sends {} bytes to rank {}, which expects {}: the ranks disagree on the counts of a collective",
               peer, head.bytes, own, expected.bytes);
  const auto with_head = expected.bytes <= short_bytes() ? expected.bytes : 0;
  if (bytes != static_cast<std::int64_t>(sizeof(Head)) + with_head)
    fail_apart("rank {} sent a head of {} bytes", peer, bytes);

  if (with_head == expected.bytes) {
    stream.way = Way::in_head;
    if (!is_summed(stream)) stream.bytes.unpack(0, with_head, stream.head.get() + sizeof(Head));
  } else if (head.words > 0) {
    begin_reading(stream, head);
  } else {
    stream.way = Way::messages;
    post_more(posting, index);
  }
}

void Transfer::post_control(const Posting& posting, std::size_t index, Direction direction, std::int64_t what,
                            std::int64_t bytes) {
  auto& stream = streams_[index];
  ++stream.control_messages;
  posting.requests.post({.owner = posting.owner,
                         .direction = direction,
                         .peer = stream.peer,
                         .tag = posting.control_tag,
                         .stream = index,
                         .number = what,
                         .data = bytes == 0 ? nullptr : stream.head.get(),
                         .bytes = static_cast<int>(bytes)});
}

// ---- reading

// Reads the sender's words, which describe its sequence, from its memory too.
void Transfer::begin_reading(Stream& stream, const Head& head) const {
  stream.way = Way::reading;
  stream.reading = std::make_unique<Reading>();
  auto& reading = *stream.reading;
  reading.words.resize(static_cast<std::size_t>(head.words));
  ByteSequence words;
  words.append({reinterpret_cast<void*>(head.words_address), 1, head.words, head.words}, ElementType::int64);
  memory_->read(stream.peer, words, 0, words.bytes(),
                {{reinterpret_cast<std::byte*>(reading.words.data()), words.bytes()}});
  reading.source = ByteSequence::from_words(reading.words);
}

void Transfer::note_read(const Posting& posting, std::size_t index, std::int64_t bytes) {
  auto& reading = *streams_[index].reading;
  reading.read += bytes;
  if (reading.read == streams_[index].plan.bytes()) post_control(posting, index, Direction::send, has_read_message, 0);
}

bool Transfer::read_some(const Posting& posting) {
  for (std::size_t tried = 0; tried < streams_.size(); ++tried) {
    const auto index = (reads_next_ + tried) % streams_.size();
    auto& stream = streams_[index];
    if (stream.direction == Direction::send || stream.way != Way::reading) continue;
    const auto begin = stream.reading->read, end = std::min(begin + bytes_in_turn, stream.plan.bytes());
    if (begin == end) continue;
    memory_->read(stream.peer, stream.reading->source, begin, end, stream.bytes.runs(begin, end));
    note_read(posting, index, end - begin);
    reads_next_ = index + 1;
    return true;
  }
  return false;
}

// ---- sums

bool Transfer::all_have(std::int64_t message) const {
  return std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return s.direction == Direction::send || s.way == Way::in_head || s.way == Way::reading ||
           (s.way == Way::messages && message < s.posted && s.ended[s.slot(message)]);
  });
}

const std::byte* Transfer::contribution(Stream& stream, std::int64_t message, std::int64_t begin, std::int64_t end) {
  if (stream.way == Way::in_head) return stream.head.get() + sizeof(Head) + begin;
  if (stream.way == Way::messages)
    return stream.staging[stream.slot(message)].get() + (begin - stream.plan.begin(message));
  auto& staging = stream.staging[0];
  if (staging == nullptr) staging = std::make_unique_for_overwrite<std::byte[]>(summed_at_once);
  memory_->read(stream.peer, stream.reading->source, begin, end, {{staging.get(), end - begin}});
  return staging.get();
}

bool Transfer::add_some(const Posting& posting) {
  auto& sum = *sum_;
  const MessagePlan plan(sum.pieces.bytes(), message_bytes_);
  std::int64_t done = 0;
  while (sum.summed < plan.bytes() && done < bytes_in_turn) {
    const auto message = sum.summed / message_bytes_;
    if (!all_have(message)) break;
    const auto begin = sum.summed, end = std::min(begin + summed_at_once, plan.end(message));
    for (std::size_t k = 0; k < sum.contributions.size(); ++k)
      if (static_cast<std::int64_t>(k) != sum.rank)
        sum.contributions[k] = contribution(streams_[sum.streams[k]], message, begin, end);
    sum.pieces.add(begin, end, sum.contributions);
    sum.summed = end;
    done += (end - begin) * static_cast<std::int64_t>(sum.contributions.size());
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      auto& stream = streams_[k];
      if (stream.direction == Direction::send) continue;
      if (stream.way == Way::reading) {
        note_read(posting, k, end - begin);
      } else if (stream.way == Way::messages && end == plan.end(message)) {
        stream.ended[stream.slot(message)] = false;
        ++stream.released;
        post_more(posting, k);
      }
    }
  }
  return done > 0;
}

}  // namespace tessera::comm
