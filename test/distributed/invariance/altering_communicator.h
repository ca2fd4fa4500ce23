// A communicator that alters what it delivers, to test that a comparison notices.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace tessera::test {

// Each function is called with the group's name; one that is not set alters nothing.
struct Alterations {
  std::function<void(const std::string& group, const std::vector<comm::GatherBlock>& blocks)> gathered;
  std::function<bool(const std::string& group)> reduces_twice;
  // `before` holds this rank's contribution.
  std::function<void(const std::string& group, comm::ElementType type, void* data, const void* before,
                     std::size_t bytes)>
      reduced;
  std::function<void(const std::string& group, comm::ElementType type, void* received, std::int64_t rows,
                     std::int64_t row_elements)>
      rows_received;
};

class AlteringCommunicator final : public comm::Communicator {
 public:
  AlteringCommunicator(std::shared_ptr<comm::Communicator> wrapped, std::shared_ptr<const Alterations> alterations)
      : wrapped_(std::move(wrapped)), alterations_(std::move(alterations)) {}

  [[nodiscard]] std::int64_t rank() const override { return wrapped_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return wrapped_->size(); }

  comm::Handle gather_blocks(std::vector<comm::GatherBlock> blocks, comm::KeepAlive keep) override {
    auto handle = wrapped_->gather_blocks(blocks, std::move(keep));
    if (!alterations_->gathered) return handle;
    return then(std::move(handle), [this, name = name_, blocks] { alterations_->gathered(name, blocks); });
  }
  comm::Handle reduce_blocks(std::vector<comm::ReduceBlock> blocks, comm::KeepAlive keep) override {
    if (alterations_->reduces_twice && alterations_->reduces_twice(name_))
      wrapped_->reduce_blocks(blocks, keep)->wait();
    return wrapped_->reduce_blocks(std::move(blocks), std::move(keep));
  }
  comm::Handle all_reduce(void* data, std::int64_t elements, comm::ElementType type, comm::ReduceOperation operation,
                          comm::KeepAlive keep) override {
    const auto bytes = static_cast<std::size_t>(elements) * comm::element_bytes(type);
    std::vector<char> before(bytes);
    if (bytes > 0) std::memcpy(before.data(), data, bytes);
    auto handle = wrapped_->all_reduce(data, elements, type, operation, std::move(keep));
    if (!alterations_->reduced) return handle;
    return then(std::move(handle), [this, name = name_, type, data, before = std::move(before)] {
      alterations_->reduced(name, type, data, before.data(), before.size());
    });
  }
  comm::Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                               std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                               comm::ElementType type, comm::KeepAlive keep) override {
    std::int64_t rows = 0;
    for (const auto count : receive_counts) rows += count;
    auto handle =
        wrapped_->all_to_all_rows(send, send_counts, receive, receive_counts, row_elements, type, std::move(keep));
    if (!alterations_->rows_received) return handle;
    return then(std::move(handle), [this, name = name_, type, receive, rows, row_elements] {
      alterations_->rows_received(name, type, receive, rows, row_elements);
    });
  }
  comm::Handle broadcast(void* data, std::int64_t elements, comm::ElementType type, std::int64_t root,
                         comm::KeepAlive keep) override {
    return wrapped_->broadcast(data, elements, type, root, std::move(keep));
  }
  void barrier() override { wrapped_->barrier(); }
  std::shared_ptr<comm::Communicator> make_group(std::span<const std::int64_t> ranks) override {
    return std::make_shared<AlteringCommunicator>(wrapped_->make_group(ranks), alterations_);
  }
  void set_name(std::string_view name) override {
    name_ = name;
    wrapped_->set_name(name);
  }
  void set_label(std::string_view label) override { wrapped_->set_label(label); }

 private:
  class Then final : public comm::Operation {
   public:
    Then(comm::Handle wrapped, std::function<void()> action)
        : wrapped_(std::move(wrapped)), action_(std::move(action)) {}
    void wait() override {
      wrapped_->wait();
      action_();
    }
    [[nodiscard]] comm::Span span() const override { return wrapped_->span(); }

   private:
    comm::Handle wrapped_;
    std::function<void()> action_;
  };
  static comm::Handle then(comm::Handle handle, std::function<void()> action) {
    return std::make_unique<Then>(std::move(handle), std::move(action));
  }

  std::shared_ptr<comm::Communicator> wrapped_;
  std::shared_ptr<const Alterations> alterations_;
  std::string name_;
};

}  // namespace tessera::test
