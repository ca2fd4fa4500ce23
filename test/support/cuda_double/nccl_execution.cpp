#include "support/cuda_double/nccl_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_meeting.h"
#include "support/cuda_double/nccl_reduction.h"

namespace tessera::test::cuda_double {

namespace {

// One group call of one communicator, on the thread of its stream.
class Execution {
 public:
  Execution(std::vector<NcclOperation> operations, std::uint64_t launch)
      : operations_(std::move(operations)), communicator_(*operations_.front().communicator), launch_(launch) {}

  void run() {
    deadline_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(stuck_after_s));
    for (const auto& operation : operations_) post(operation);
    for (const auto& operation : operations_) {
      if (is_collective(operation.kind)) finish(operation);
      if (operation.kind == Kind::receive) take(operation);
    }
    for (const auto& operation : operations_)
      if (operation.kind == Kind::send) await_match(operation);
  }

 private:
  [[nodiscard]] Address from(int rank, Channel channel) const {
    return {communicator_.key, rank, communicator_.rank, channel};
  }

  void send(int rank, Channel channel, const Bytes& body) const {
    if (communicator_.given_up) return;
    mail().send(communicator_.processes[static_cast<std::size_t>(rank)],
                {communicator_.key, communicator_.rank, rank, channel}, body);
  }

  // The part of what it sends that is for `rank`.
  static ByteRange share_of(const NcclOperation& o, int rank) {
    const auto bytes = o.count * bytes_of_type(o.type);
    if (o.kind != Kind::reduce_scatter) return sent(o);
    return bytes_of(static_cast<const std::byte*>(o.send) + static_cast<std::size_t>(rank) * bytes, bytes);
  }

  [[nodiscard]] Bytes message(const NcclOperation& o, int rank) const {
    Bytes body;
    append(body, heading_of(o, launch_));
    const auto share = share_of(o, rank);
    if (!share.empty()) body.insert(body.end(), share.begin, share.end());
    return body;
  }

  void post(const NcclOperation& o) const {
    if (o.kind == Kind::send) send(o.peer, Channel::point_to_point, message(o, o.peer));
    if (!is_collective(o.kind)) return;
    for (int rank = 0; rank < communicator_.size; ++rank)
      if (rank != communicator_.rank) send(rank, Channel::collective, message(o, rank));
  }

  void break_off(const std::string& why) {
    if (communicator_.given_up.exchange(true)) return;
    communicator_.error = ncclInternalError;
    report_fault(why);
  }

  // Of rank `rank`; empty, and the communicator is given up, if it does not come or does not agree.
  Bytes meet(const NcclOperation& o, int rank, Channel channel) {
    auto body = mail().receive(from(rank, channel), deadline_, communicator_.given_up);
    if (!body || communicator_.given_up) {
      break_off(stuck(o, rank));
      return {};
    }
    const auto heading = value_at<Heading>(*body, 0);
    const auto process = communicator_.processes[static_cast<std::size_t>(rank)];
    auto why = disagreement(o, heading, rank);
    if (why.empty() && process != mail().process()) {
      const auto crossed = launch_order().meet(process, launch_, heading.launch);
      if (!crossed.empty()) report_fault(describe(o) + ": wrong order of communicators: " + crossed);
    }
    if (!why.empty()) {
      communicator_.error = ncclInvalidUsage;
      report_fault(std::move(why));
      return {};
    }
    body->erase(body->begin(), body->begin() + sizeof(Heading));
    return std::move(*body);
  }

  [[nodiscard]] std::string stuck(const NcclOperation& o, int rank) const {
    auto text = fmt::format("stuck: {} (operation {} on {}, on {}) has waited {} s for rank {}", describe(o), o.number,
                            describe(communicator_), o.stream->name, stuck_after_s.load(), rank);
    if (mail().has(from(rank, Channel::point_to_point)))
      text +=
          "; a message of that rank waits for an ncclRecv here: sends and receives that need one another must be in "
          "one ncclGroupStart/End";
    if (mail().has(from(rank, Channel::collective))) text += "; that rank is in a collective of the communicator";
    return text;
  }

  void finish(const NcclOperation& o) {
    std::vector<Bytes> parts;
    bool complete = true;
    for (int rank = 0; rank < communicator_.size; ++rank) {
      const bool own = rank == communicator_.rank;
      const auto share = share_of(o, rank);
      parts.push_back(own ? Bytes(share.begin, share.empty() ? share.begin : share.end())
                          : meet(o, rank, Channel::collective));
      // Those that come with nothing: of a count of 0, and to whom only the root sends.
      const bool expects = o.count > 0 && (o.kind != Kind::broadcast || rank == o.peer);
      complete = complete && (!expects || !parts.back().empty());
    }
    if (complete && o.count > 0) combine(o, parts);
  }

  static void combine(const NcclOperation& o, const std::vector<Bytes>& parts) {
    auto* to = static_cast<std::byte*>(o.receive);
    if (o.kind == Kind::broadcast) {
      const auto& root = parts[static_cast<std::size_t>(o.peer)];
      std::memcpy(to, root.data(), root.size());
      return;
    }
    if (o.kind == Kind::all_gather) {
      for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
      return;
    }
    auto sum = parts.front();
    for (std::size_t k = 1; k < parts.size(); ++k)
      reduce_into(sum.data(), parts[k].data(), o.count, o.type, o.reduction);
    std::memcpy(to, sum.data(), sum.size());
  }

  void take(const NcclOperation& o) {
    const auto body = meet(o, o.peer, Channel::point_to_point);
    if (!body.empty()) std::memcpy(o.receive, body.data(), body.size());
    send(o.peer, Channel::matched, {});
  }

  // A send blocks its stream until the other rank receives.
  void await_match(const NcclOperation& o) {
    if (!mail().receive(from(o.peer, Channel::matched), deadline_, communicator_.given_up)) break_off(stuck(o, o.peer));
  }

  std::vector<NcclOperation> operations_;
  ncclComm& communicator_;
  std::uint64_t launch_;
  Clock::time_point deadline_;
};

std::uint64_t next_launch() {
  static std::uint64_t launches = 0;
  return ++launches;
}

std::vector<CUstream_st*> streams_of(const std::vector<NcclOperation>& operations) {
  std::vector<CUstream_st*> streams;
  for (const auto& operation : operations)
    if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end())
      streams.push_back(operation.stream);
  return streams;
}

void wait_for(CUstream_st& stream, const CUstream_st& other, std::shared_ptr<Passage> passage) {
  stream.clock.join(other.clock);
  stream.enqueue([passage = std::move(passage)] { passage->wait(); });
}

}  // namespace

void enqueue_operations(std::vector<NcclOperation> operations, const VectorClock& host) {
  auto& communicator = *operations.front().communicator;
  const auto streams = streams_of(operations);
  auto& leader = *streams.front();
  for (auto* other : streams)
    if (other != &leader) wait_for(leader, *other, other->mark());

  std::vector<Part> parts;
  for (auto& operation : operations) {
    operation.number = ++communicator.operations;
    parts.push_back({describe(operation), {sent(operation)}, {received(operation)}});
  }
  ++communicator.running;
  // One after the other, on whatever stream.
  const auto done = std::make_shared<Passage>();
  const auto before = std::exchange(communicator.last, done);
  runtime().issue(leader, parts, host,
                  [execution = Execution(std::move(operations), next_launch()), before, done, &communicator]() mutable {
                    if (before) before->wait();
                    execution.run();
                    done->pass();
                    --communicator.running;
                  });
  communicator.last_actor = leader.actor;
  communicator.last_time = leader.clock.of(leader.actor);
  for (auto* other : streams)
    if (other != &leader) wait_for(*other, leader, leader.mark());
}

}  // namespace tessera::test::cuda_double
