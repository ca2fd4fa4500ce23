// A communicator that forwards to another one and counts the calls, their bytes, the time that operations were under
// way and the time that callers waited for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/traffic.h"

namespace tessera::comm {

enum class OperationKind : std::uint8_t {
  gather_blocks,
  reduce_blocks,
  all_reduce,
  all_to_all_rows,
  broadcast,
  barrier
};
inline constexpr std::size_t operation_kinds = 6;

// Several Metered objects may wrap one communicator: each counts only the calls made through itself. An operation's
// call and bytes (traffic.h; a barrier has no bytes) count from its start, its times from its wait(). The host does not
// wait for operations on the GPU, so their times count once the GPU has passed them, or when traffic() is called. Only
// one thread at a time may use a Metered object and its handles. Groups made by make_group are not counted.
//
// Before each operation it passes its name on to the wrapped communicator, so that messages tell apart the Metered
// objects that share one.
class Metered final : public Communicator {
 public:
  explicit Metered(std::shared_ptr<Communicator> wrapped, std::string_view name = {});

  [[nodiscard]] std::int64_t rank() const override { return wrapped_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return wrapped_->size(); }
  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) override;
  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) override;
  Handle all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                    KeepAlive keep) override;
  Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements, ElementType type,
                         KeepAlive keep) override;
  Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root, KeepAlive keep) override;
  void barrier() override;
  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) override;
  void set_name(std::string_view name) override { name_ = name; }
  void set_label(std::string_view label) override { wrapped_->set_label(label); }

  // Returns the traffic since the start of all operations but barriers, which carry no data; or of one kind. Blocks
  // until the GPU has passed every operation whose wait() was called.
  [[nodiscard]] Traffic traffic() const;
  [[nodiscard]] Traffic traffic(OperationKind kind) const;
  [[nodiscard]] const std::shared_ptr<Communicator>& wrapped() const { return wrapped_; }

 private:
  class Counts;
  class MeteredOperation;

  // Returns the wrapped communicator after setting its name to this object's.
  [[nodiscard]] Communicator& named() const;
  // Counts a call of `kind` that sends `bytes` and returns a handle that will add the times of `started`.
  [[nodiscard]] Handle counted(OperationKind kind, std::int64_t bytes, Handle started);

  const std::shared_ptr<Communicator> wrapped_;
  std::string name_;
  const std::shared_ptr<Counts> counts_;  // handles may outlive this
};

}  // namespace tessera::comm
