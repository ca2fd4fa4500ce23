// A communicator that waits a random while before it starts an operation and before it ends one, so that ranks meet in
// every order. It delivers the values of the communicator that it wraps.
#pragma once

#include <chrono>
#include <random>
#include <thread>

#include "comm/communicator.h"

namespace tessera::test {

class DelayingCommunicator final : public comm::Communicator {
 public:
  DelayingCommunicator(std::shared_ptr<comm::Communicator> wrapped, std::uint32_t seed)
      : wrapped_(std::move(wrapped)), random_(seed + 7919U * static_cast<std::uint32_t>(wrapped_->rank())) {}

  [[nodiscard]] std::int64_t rank() const override { return wrapped_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return wrapped_->size(); }

  comm::Handle gather_blocks(std::vector<comm::GatherBlock> blocks, comm::KeepAlive keep) override {
    delay();
    return delayed(wrapped_->gather_blocks(std::move(blocks), std::move(keep)));
  }
  comm::Handle reduce_blocks(std::vector<comm::ReduceBlock> blocks, comm::KeepAlive keep) override {
    delay();
    return delayed(wrapped_->reduce_blocks(std::move(blocks), std::move(keep)));
  }
  comm::Handle all_reduce(void* data, std::int64_t elements, comm::ElementType type, comm::ReduceOperation operation,
                          comm::KeepAlive keep) override {
    delay();
    return delayed(wrapped_->all_reduce(data, elements, type, operation, std::move(keep)));
  }
  comm::Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                               std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                               comm::ElementType type, comm::KeepAlive keep) override {
    delay();
    return delayed(
        wrapped_->all_to_all_rows(send, send_counts, receive, receive_counts, row_elements, type, std::move(keep)));
  }
  comm::Handle broadcast(void* data, std::int64_t elements, comm::ElementType type, std::int64_t root,
                         comm::KeepAlive keep) override {
    delay();
    return delayed(wrapped_->broadcast(data, elements, type, root, std::move(keep)));
  }
  void barrier() override {
    delay();
    wrapped_->barrier();
  }
  std::shared_ptr<comm::Communicator> make_group(std::span<const std::int64_t> ranks) override {
    delay();
    return std::make_shared<DelayingCommunicator>(wrapped_->make_group(ranks), random_());
  }
  void set_name(std::string_view name) override { wrapped_->set_name(name); }
  void set_label(std::string_view label) override { wrapped_->set_label(label); }

 private:
  using Delay = std::chrono::microseconds;

  class Delayed final : public comm::Operation {
   public:
    Delayed(comm::Handle wrapped, Delay delay) : wrapped_(std::move(wrapped)), delay_(delay) {}
    void wait() override {
      std::this_thread::sleep_for(delay_);
      wrapped_->wait();
    }
    [[nodiscard]] comm::Span span() const override { return wrapped_->span(); }
    [[nodiscard]] bool has_passed() const override { return wrapped_->has_passed(); }
    [[nodiscard]] std::optional<double> exposed_seconds() const override { return wrapped_->exposed_seconds(); }

   private:
    comm::Handle wrapped_;
    Delay delay_;
  };

  // Draws no delay half of the time, else up to 3 ms.
  [[nodiscard]] Delay next() {
    const auto drawn = static_cast<int>(random_() % 6000U);
    return Delay(drawn < 3000 ? 0 : drawn - 3000);
  }
  void delay() { std::this_thread::sleep_for(next()); }
  [[nodiscard]] comm::Handle delayed(comm::Handle handle) {
    return std::make_unique<Delayed>(std::move(handle), next());
  }

  std::shared_ptr<comm::Communicator> wrapped_;
  std::minstd_rand random_;
};

}  // namespace tessera::test
