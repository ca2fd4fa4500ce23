#include "comm/metered.h"

#include <array>
#include <deque>
#include <utility>

#include "base/clock.h"

namespace tessera::comm {

// The totals so far, and the operations whose times are not known yet.
class Metered::Counts {
 public:
  [[nodiscard]] Traffic& of(OperationKind kind) { return by_kind_[static_cast<std::size_t>(kind)]; }
  // Adds the times of an operation after its wait(), which blocked the caller for `blocked_s`.
  void add_times(std::shared_ptr<const Operation> operation, OperationKind kind, double blocked_s) {
    pending_.push_back({std::move(operation), kind, blocked_s});
    add_passed();
  }
  void add_passed() {
    while (!pending_.empty() && pending_.front().operation->has_passed()) add_first();
  }
  void add_all() {
    while (!pending_.empty()) add_first();
  }

 private:
  struct Pending {
    std::shared_ptr<const Operation> operation;
    OperationKind kind;
    double blocked_s;
  };
  void add_first() {
    const auto& first = pending_.front();
    const auto span = first.operation->span();
    auto& traffic = of(first.kind);
    traffic.seconds_exposed += first.operation->exposed_seconds().value_or(first.blocked_s);
    traffic.seconds_under_way += span.ended - span.started;
    pending_.pop_front();
  }

  std::array<Traffic, operation_kinds> by_kind_{};
  std::deque<Pending> pending_;  // in the order of their waits
};

class Metered::MeteredOperation final : public Operation {
 public:
  MeteredOperation(Handle wrapped, std::shared_ptr<Counts> counts, OperationKind kind)
      : wrapped_(std::move(wrapped)), counts_(std::move(counts)), kind_(kind) {}

  void wait() override {
    const auto began = base::seconds_now();
    wrapped_->wait();
    counts_->add_times(wrapped_, kind_, base::seconds_now() - began);
  }
  [[nodiscard]] Span span() const override { return wrapped_->span(); }
  [[nodiscard]] bool has_passed() const override { return wrapped_->has_passed(); }
  [[nodiscard]] std::optional<double> exposed_seconds() const override { return wrapped_->exposed_seconds(); }

 private:
  const std::shared_ptr<Operation> wrapped_;
  const std::shared_ptr<Counts> counts_;
  const OperationKind kind_;
};

Metered::Metered(std::shared_ptr<Communicator> wrapped, std::string_view name)
    : wrapped_(std::move(wrapped)), name_(name), counts_(std::make_shared<Counts>()) {}

Communicator& Metered::named() const {
  wrapped_->set_name(name_);
  return *wrapped_;
}

Handle Metered::counted(OperationKind kind, std::int64_t bytes, Handle started) {
  auto& traffic = counts_->of(kind);
  ++traffic.calls;
  traffic.bytes_sent += bytes;
  return std::make_unique<MeteredOperation>(std::move(started), counts_, kind);
}

Handle Metered::gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) {
  const auto sizes = blocks;
  auto started = named().gather_blocks(std::move(blocks), std::move(keep));
  return counted(OperationKind::gather_blocks, gather_bytes_sent(sizes, rank()), std::move(started));
}

Handle Metered::reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) {
  const auto sizes = blocks;
  auto started = named().reduce_blocks(std::move(blocks), std::move(keep));
  return counted(OperationKind::reduce_blocks, reduce_bytes_sent(sizes, rank()), std::move(started));
}

Handle Metered::all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                           KeepAlive keep) {
  return counted(OperationKind::all_reduce, all_reduce_bytes_sent(elements, type, rank(), size()),
                 named().all_reduce(data, elements, type, operation, std::move(keep)));
}

Handle Metered::all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                                std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                                ElementType type, KeepAlive keep) {
  return counted(
      OperationKind::all_to_all_rows, rows_bytes_sent(send_counts, row_elements, type, rank()),
      named().all_to_all_rows(send, send_counts, receive, receive_counts, row_elements, type, std::move(keep)));
}

Handle Metered::broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root, KeepAlive keep) {
  return counted(OperationKind::broadcast, broadcast_bytes_sent(elements, type, root, rank(), size()),
                 named().broadcast(data, elements, type, root, std::move(keep)));
}

void Metered::barrier() {
  const auto began = base::seconds_now();
  named().barrier();
  const auto seconds = base::seconds_now() - began;
  counts_->of(OperationKind::barrier) +=
      {.calls = 1, .bytes_sent = 0, .seconds_under_way = seconds, .seconds_exposed = seconds};
}

std::shared_ptr<Communicator> Metered::make_group(std::span<const std::int64_t> ranks) {
  return named().make_group(ranks);
}

Traffic Metered::traffic() const {
  Traffic all;
  for (std::size_t k = 0; k < operation_kinds; ++k)
    if (const auto kind = static_cast<OperationKind>(k); kind != OperationKind::barrier) all += traffic(kind);
  return all;
}

Traffic Metered::traffic(OperationKind kind) const {
  counts_->add_all();
  return counts_->of(kind);
}

}  // namespace tessera::comm
