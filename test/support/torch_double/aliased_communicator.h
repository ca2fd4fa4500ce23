// Runs a communicator of host memory on the double's memory, whose bytes the host finds at other addresses.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test {

// An operation is done when wait() returns, since the double computes at once. Refuses host memory, as NCCL would.
class AliasedCommunicator final : public comm::Communicator {
 public:
  explicit AliasedCommunicator(std::shared_ptr<comm::Communicator> host) : host_(std::move(host)) {}

  [[nodiscard]] std::int64_t rank() const override { return host_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return host_->size(); }

  comm::Handle gather_blocks(std::vector<comm::GatherBlock> blocks, comm::KeepAlive keep) override {
    for (auto& block : blocks) translate(block.pieces);
    return host_->gather_blocks(std::move(blocks), std::move(keep));
  }
  comm::Handle reduce_blocks(std::vector<comm::ReduceBlock> blocks, comm::KeepAlive keep) override {
    for (auto& block : blocks) {
      translate(block.pieces);
      block.sum.data = alias(block.sum.data);
    }
    return host_->reduce_blocks(std::move(blocks), std::move(keep));
  }
  comm::Handle all_reduce(void* data, std::int64_t elements, comm::ElementType type, comm::ReduceOperation operation,
                          comm::KeepAlive keep) override {
    return host_->all_reduce(alias(data), elements, type, operation, std::move(keep));
  }
  comm::Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                               std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                               comm::ElementType type, comm::KeepAlive keep) override {
    return host_->all_to_all_rows(alias(send), send_counts, alias(receive), receive_counts, row_elements, type,
                                  std::move(keep));
  }
  comm::Handle broadcast(void* data, std::int64_t elements, comm::ElementType type, std::int64_t root,
                         comm::KeepAlive keep) override {
    return host_->broadcast(alias(data), elements, type, root, std::move(keep));
  }
  void barrier() override { host_->barrier(); }
  std::shared_ptr<comm::Communicator> make_group(std::span<const std::int64_t> ranks) override {
    return std::make_shared<AliasedCommunicator>(host_->make_group(ranks));
  }
  void set_name(std::string_view name) override { host_->set_name(name); }
  void set_label(std::string_view label) override { host_->set_label(label); }

 private:
  // Null is allowed for zero elements.
  static void* alias(const void* data) {
    if (data == nullptr) return nullptr;
    base::expect(torch_double::is_device_memory(data), "memory of the host where the GPU's is asked for");
    return torch_double::alias_of(data);
  }
  static void translate(std::vector<comm::Strided>& pieces) {
    for (auto& piece : pieces) piece.data = alias(piece.data);
  }

  std::shared_ptr<comm::Communicator> host_;
};

}  // namespace tessera::test
