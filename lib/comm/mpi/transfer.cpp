#include "comm/mpi/transfer.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::comm {

namespace {

// Numbers of the messages that go with a sequence that is read.
constexpr std::int64_t announcement_message = -1, has_read_message = -2;

constexpr std::int64_t bytes_in_turn = 512 << 10;   // read before others have their turn
constexpr std::int64_t summed_at_once = 128 << 10;  // of each rank, where they are read: stays in the cache

}  // namespace

bool Transfer::Stream::done() const {
  if (control_messages > 0) return false;
  if (way == Way::messages) return released == plan.count();
  return way == Way::reading && (direction == Direction::send || reading->read == reading->announcement.bytes);
}

void Transfer::add_stream(Direction direction, int peer, ByteSequence bytes, std::int64_t count) {
  const bool reads = memory_ != nullptr && count >= least_read_bytes_ && memory_->reaches(peer, count);
  const auto way = reads ? Way::to_be_announced : Way::messages;
  streams_.push_back({.direction = direction,
                      .peer = peer,
                      .bytes = std::move(bytes),
                      .plan = MessagePlan(count, message_bytes_),
                      .way = way});
  if (way == Way::messages) return;
  streams_.back().reading = std::make_unique<Reading>();
  streams_.back().reading->announcement.bytes = count;
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
  // Receives first: a message that finds its receive posted is not stored in between. And so announcements, which peers
  // send first, meet the receives that are meant for them.
  for (const auto direction : {Direction::receive, Direction::send})
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      const auto& stream = streams_[k];
      if (stream.direction != direction) continue;
      if (stream.way == Way::messages)
        post_more(posting, k);
      else if (direction == Direction::receive)
        post_control(posting, k, Direction::receive, announcement_message);
      else
        announce(posting, k);
    }
}

void Transfer::ended(const Posting& posting, Direction direction, std::size_t index, std::int64_t message) {
  if (message < 0) return control_ended(posting, index, direction, message);
  auto& stream = streams_[index];
  const auto slot = stream.slot(message);
  stream.ended[slot] = true;
  if (is_summed(stream)) return;  // until advance
  const auto begin = stream.plan.begin(message), end = stream.plan.end(message);
  const bool is_staged = stream.bytes.run(begin, end).bytes < end - begin;
  if (direction == Direction::receive && is_staged) stream.bytes.unpack(begin, end, stream.staging[slot].get());
  while (stream.released < stream.posted && stream.ended[stream.slot(stream.released)])
    stream.ended[stream.slot(stream.released++)] = false;
  post_more(posting, index);
}

bool Transfer::advance(const Posting& posting) { return sum_ ? add_some(posting) : read_some(posting); }

bool Transfer::done() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.done(); });
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

// ---- reading

void Transfer::announce(const Posting& posting, std::size_t index) {
  auto& stream = streams_[index];
  auto& reading = *stream.reading;
  if (!memory_->is_worth_reading(stream.bytes)) {
    stream.way = Way::messages;
    post_control(posting, index, Direction::send, announcement_message);
    return post_more(posting, index);
  }
  stream.way = Way::reading;
  reading.words = stream.bytes.words();
  reading.announcement.words_address = reinterpret_cast<std::int64_t>(reading.words.data());
  reading.announcement.words = static_cast<std::int64_t>(reading.words.size());
  post_control(posting, index, Direction::send, announcement_message);
  post_control(posting, index, Direction::receive, has_read_message);
}

void Transfer::post_control(const Posting& posting, std::size_t index, Direction direction, std::int64_t what) {
  auto& stream = streams_[index];
  const bool is_empty = what == has_read_message;
  ++stream.control_messages;
  posting.requests.post({.owner = posting.owner,
                         .direction = direction,
                         .peer = stream.peer,
                         .tag = posting.control_tag,
                         .stream = index,
                         .number = what,
                         .data = is_empty ? nullptr : reinterpret_cast<std::byte*>(&stream.reading->announcement),
                         .bytes = is_empty ? 0 : static_cast<int>(sizeof(Announcement))});
}

void Transfer::control_ended(const Posting& posting, std::size_t index, Direction direction, std::int64_t what) {
  auto& stream = streams_[index];
  --stream.control_messages;
  if (direction == Direction::send || what == has_read_message) return;
  auto& reading = *stream.reading;
  auto& announced = reading.announcement;
  if (announced.bytes != stream.plan.bytes()) fail_of_counts(stream.peer, announced.bytes, stream.plan.bytes());
  if (announced.words == 0) {
    stream.way = Way::messages;
    return post_more(posting, index);
  }
  // The sender's words are read like its bytes.
  reading.words.resize(static_cast<std::size_t>(announced.words));
  ByteSequence words;
  words.append({reinterpret_cast<void*>(announced.words_address), 1, announced.words, announced.words},
               ElementType::int64);
  memory_->read(stream.peer, words, 0, words.bytes(),
                {{reinterpret_cast<std::byte*>(reading.words.data()), words.bytes()}});
  reading.source = ByteSequence::from_words(reading.words);
  stream.way = Way::reading;
}

void Transfer::note_read(const Posting& posting, std::size_t index, std::int64_t bytes) {
  auto& reading = *streams_[index].reading;
  reading.read += bytes;
  if (reading.read == reading.announcement.bytes) post_control(posting, index, Direction::send, has_read_message);
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
    return s.direction == Direction::send || s.way == Way::reading ||
           (s.way == Way::messages && message < s.posted && s.ended[s.slot(message)]);
  });
}

const std::byte* Transfer::contribution(Stream& stream, std::int64_t message, std::int64_t begin, std::int64_t end) {
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
      } else if (end == plan.end(message)) {
        stream.ended[stream.slot(message)] = false;
        ++stream.released;
        post_more(posting, k);
      }
    }
  }
  return done > 0;
}

}  // namespace tessera::comm
