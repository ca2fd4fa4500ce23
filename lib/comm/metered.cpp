#include "comm/metered.h"

#include <utility>

#include "base/clock.h"

namespace tessera::comm {

class Metered::MeteredOperation final : public Operation {
 public:
  MeteredOperation(Handle wrapped, std::shared_ptr<Counts> counts, OperationKind kind)
      : wrapped_(std::move(wrapped)), counts_(std::move(counts)), kind_(kind) {}

  void wait() override {
    const auto began = base::seconds_now();
    wrapped_->wait();
    auto& traffic = (*counts_)[static_cast<std::size_t>(kind_)];
    traffic.seconds_exposed += base::seconds_now() - began;
    const auto span = wrapped_->span();
    traffic.seconds_under_way += span.ended - span.started;
  }
  [[nodiscard]] Span span() const override { return wrapped_->span(); }

 private:
  const Handle wrapped_;
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
  auto& traffic = (*counts_)[static_cast<std::size_t>(kind)];
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
  (*counts_)[static_cast<std::size_t>(OperationKind::barrier)] +=
      {.calls = 1, .bytes_sent = 0, .seconds_under_way = seconds, .seconds_exposed = seconds};
}

std::shared_ptr<Communicator> Metered::make_group(std::span<const std::int64_t> ranks) {
  return named().make_group(ranks);
}

Traffic Metered::traffic() const {
  Traffic all;
  for (std::size_t kind = 0; kind < operation_kinds; ++kind)
    if (static_cast<OperationKind>(kind) != OperationKind::barrier) all += (*counts_)[kind];
  return all;
}

Traffic Metered::traffic(OperationKind kind) const { return (*counts_)[static_cast<std::size_t>(kind)]; }

}  // namespace tessera::comm
