#include "comm/staged.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/traffic.h"
#include "device/memory.h"
#include "device/stream.h"

namespace tessera::comm {

namespace {

enum class Moves : std::uint8_t { to_host, to_gpu, both };

// The pieces of GPU memory of one operation, and a copy of each in pinned memory, without gaps between rows.
class Mirror {
 public:
  explicit Mirror(KeepAlive keep) : keep_(std::move(keep)) {}

  void add(const Strided& piece, ElementType type, Moves moves) {
    constexpr std::int64_t alignment = 64;
    entries_.push_back({piece, static_cast<std::int64_t>(element_bytes(type)), bytes_, moves});
    bytes_ = (bytes_ + piece_bytes(piece, type) + alignment - 1) / alignment * alignment;
  }
  void add_elements(void* data, std::int64_t elements, ElementType type, Moves moves) {
    add({data, 1, elements, elements}, type, moves);
  }

  // Call it after the last add(). The values are in pinned memory when it returns.
  void bring_to_host() {
    pinned_ = device::allocate(device::MemoryKind::pinned, bytes_);
    copy(Moves::to_host);
  }
  void bring_to_gpu() const { copy(Moves::to_gpu); }

  // Returns the place in pinned memory of the k-th piece that was added.
  [[nodiscard]] Strided on_host(std::size_t k) const {
    const auto& entry = entries_[k];
    return {pinned_.get() + entry.place, entry.piece.rows, entry.piece.row_elements, entry.piece.row_elements};
  }

 private:
  struct Entry {
    Strided piece;
    std::int64_t element, place;
    Moves moves;
  };
  void copy(Moves direction) const {
    const auto compute = device::Stream::compute();
    for (const auto& entry : entries_) {
      if (entry.moves != direction && entry.moves != Moves::both) continue;
      const auto row = entry.piece.row_elements * entry.element, stride = entry.piece.stride_elements * entry.element;
      auto* const host = pinned_.get() + entry.place;
      if (direction == Moves::to_host)
        device::copy_rows(host, row, entry.piece.data, stride, row, entry.piece.rows, compute);
      else
        device::copy_rows(entry.piece.data, stride, host, row, row, entry.piece.rows, compute);
    }
    compute.synchronize();
  }

  KeepAlive keep_;
  std::vector<Entry> entries_;
  std::int64_t bytes_ = 0;
  device::Memory pinned_;
};

class StagedOperation final : public Operation {
 public:
  StagedOperation(Handle on_host, std::shared_ptr<const Mirror> mirror)
      : on_host_(std::move(on_host)), mirror_(std::move(mirror)) {}
  void wait() override {
    on_host_->wait();
    mirror_->bring_to_gpu();
    mirror_.reset();
  }
  [[nodiscard]] Span span() const override { return on_host_->span(); }

 private:
  const Handle on_host_;
  std::shared_ptr<const Mirror> mirror_;
};

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

class Staged final : public Communicator {
 public:
  explicit Staged(std::shared_ptr<Communicator> host) : host_(std::move(host)) {}

  [[nodiscard]] std::int64_t rank() const override { return host_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return host_->size(); }

  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) override {
    const auto mirror = std::make_shared<Mirror>(std::move(keep));
    for (const auto& block : blocks)
      for (std::size_t k = 0; k < block.pieces.size(); ++k)
        mirror->add(block.pieces[k], block.type, is_own(k) ? Moves::to_host : Moves::to_gpu);
    mirror->bring_to_host();
    std::size_t place = 0;
    for (auto& block : blocks)
      for (auto& piece : block.pieces) piece = mirror->on_host(place++);
    return staged(host_->gather_blocks(std::move(blocks), mirror), mirror);
  }

  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) override {
    const auto mirror = std::make_shared<Mirror>(std::move(keep));
    for (const auto& block : blocks) {
      for (const auto& piece : block.pieces) mirror->add(piece, block.type, Moves::to_host);
      mirror->add(block.sum, block.sum_type, Moves::both);
    }
    mirror->bring_to_host();
    std::size_t place = 0;
    for (auto& block : blocks) {
      for (auto& piece : block.pieces) piece = mirror->on_host(place++);
      block.sum = mirror->on_host(place++);
    }
    return staged(host_->reduce_blocks(std::move(blocks), mirror), mirror);
  }

  Handle all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                    KeepAlive keep) override {
    const auto mirror = std::make_shared<Mirror>(std::move(keep));
    mirror->add_elements(data, elements, type, Moves::both);
    mirror->bring_to_host();
    return staged(host_->all_reduce(mirror->on_host(0).data, elements, type, operation, mirror), mirror);
  }

  Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements, ElementType type,
                         KeepAlive keep) override {
    const auto mirror = std::make_shared<Mirror>(std::move(keep));
    mirror->add_elements(const_cast<void*>(send), sum_of(send_counts) * row_elements, type, Moves::to_host);
    mirror->add_elements(receive, sum_of(receive_counts) * row_elements, type, Moves::to_gpu);
    mirror->bring_to_host();
    return staged(host_->all_to_all_rows(mirror->on_host(0).data, send_counts, mirror->on_host(1).data, receive_counts,
                                         row_elements, type, mirror),
                  mirror);
  }

  Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root, KeepAlive keep) override {
    const auto mirror = std::make_shared<Mirror>(std::move(keep));
    mirror->add_elements(data, elements, type, rank() == root ? Moves::to_host : Moves::to_gpu);
    mirror->bring_to_host();
    return staged(host_->broadcast(mirror->on_host(0).data, elements, type, root, mirror), mirror);
  }

  void barrier() override { host_->barrier(); }
  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) override {
    return staged_communicator(host_->make_group(ranks));
  }
  void set_name(std::string_view name) override { host_->set_name(name); }
  void set_label(std::string_view label) override { host_->set_label(label); }

 private:
  [[nodiscard]] bool is_own(std::size_t k) const { return static_cast<std::int64_t>(k) == rank(); }
  // The host's operation keeps the mirror alive too: its messages use that memory even if the handle is dropped.
  static Handle staged(Handle on_host, std::shared_ptr<const Mirror> mirror) {
    return std::make_unique<StagedOperation>(std::move(on_host), std::move(mirror));
  }

  const std::shared_ptr<Communicator> host_;
};

}  // namespace

std::shared_ptr<Communicator> staged_communicator(std::shared_ptr<Communicator> host) {
  return std::make_shared<Staged>(std::move(host));
}

}  // namespace tessera::comm
