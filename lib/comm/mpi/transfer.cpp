#include "comm/mpi/transfer.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::comm {

void Transfer::send(int peer, ByteSequence source) {
  const MessagePlan plan(source.bytes(), message_bytes_);
  streams_.push_back({.direction = Direction::send, .peer = peer, .bytes = std::move(source), .plan = plan});
}

void Transfer::receive(int peer, ByteSequence place) {
  base::expect(!sum_, "what comes in is either summed or put in place");
  const MessagePlan plan(place.bytes(), message_bytes_);
  streams_.push_back({.direction = Direction::receive, .peer = peer, .bytes = std::move(place), .plan = plan});
}

void Transfer::sum(std::span<const int> peers, std::int64_t rank, PieceSum sum) {
  base::expect(!sum_, "one sum a transfer");
  const MessagePlan plan(sum.bytes(), message_bytes_);
  Sum added{.pieces = std::move(sum), .streams = {}, .contributions = {}, .rank = rank};
  for (std::size_t k = 0; k < peers.size(); ++k) {
    added.streams.push_back(streams_.size());
    if (static_cast<std::int64_t>(k) != rank)
      streams_.push_back({.direction = Direction::receive, .peer = peers[k], .bytes = {}, .plan = plan});
  }
  added.contributions.resize(peers.size());
  sum_ = std::move(added);
}

std::int64_t Transfer::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& stream : streams_)
    if (stream.plan.count() > 0) bytes += stream.plan.end(stream.plan.count() - 1);
  return bytes;
}

void Transfer::start(const Posting& posting) {
  // Receives first: a message that finds its receive posted is not stored in between.
  for (const auto direction : {Direction::receive, Direction::send})
    for (std::size_t k = 0; k < streams_.size(); ++k)
      if (streams_[k].direction == direction) post_more(posting, k);
}

void Transfer::ended(const Posting& posting, Direction direction, std::size_t index, std::int64_t message) {
  auto& stream = streams_[index];
  const auto slot = stream.slot(message);
  stream.ended[slot] = true;
  if (is_summed(stream)) return add_arrived(posting);
  const auto begin = stream.plan.begin(message), end = stream.plan.end(message);
  const bool is_staged = stream.bytes.run(begin, end).bytes < end - begin;
  if (direction == Direction::receive && is_staged) stream.bytes.unpack(begin, end, stream.staging[slot].get());
  while (stream.released < stream.posted && stream.ended[stream.slot(stream.released)])
    stream.ended[stream.slot(stream.released++)] = false;
  post_more(posting, index);
}

bool Transfer::done() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.released == s.plan.count(); });
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

bool Transfer::all_have(std::int64_t message) const {
  return std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return s.direction == Direction::send || (message < s.posted && s.ended[s.slot(message)]);
  });
}

void Transfer::add_arrived(const Posting& posting) {
  while (all_have(summed_)) {
    for (std::size_t k = 0; k < sum_->contributions.size(); ++k)
      if (static_cast<std::int64_t>(k) != sum_->rank) {
        const auto& stream = streams_[sum_->streams[k]];
        sum_->contributions[k] = stream.staging[stream.slot(summed_)].get();
      }
    const MessagePlan plan(sum_->pieces.bytes(), message_bytes_);
    sum_->pieces.add(plan.begin(summed_), plan.end(summed_), sum_->contributions);
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      auto& stream = streams_[k];
      if (stream.direction == Direction::send) continue;
      stream.ended[stream.slot(summed_)] = false;
      ++stream.released;
      post_more(posting, k);
    }
    ++summed_;
  }
}

}  // namespace tessera::comm
