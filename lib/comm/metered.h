// A communicator that counts what goes through it: calls, bytes, time under way, time that was waited for.
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

// Several may wrap one communicator: each counts what goes through it alone. Calls and bytes (traffic.h; none for a
// barrier) count when an operation starts, its times when it has been waited for; of an operation on the GPU, which the
// host does not wait for, when it has passed there, or is asked for by traffic(). One thread at a time, handles
// included. The groups that make_group makes are not counted.
//
// A meter's name is set at what it wraps before each operation, so that meters which share it differ in messages.
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

  // Since the start: of all operations together, without barriers, which carry nothing; or of one kind. Waits for those
  // of the GPU that wait() was called for.
  [[nodiscard]] Traffic traffic() const;
  [[nodiscard]] Traffic traffic(OperationKind kind) const;
  [[nodiscard]] const std::shared_ptr<Communicator>& wrapped() const { return wrapped_; }

 private:
  class Counts;
  class MeteredOperation;

  // What is wrapped, by the name of this meter.
  [[nodiscard]] Communicator& named() const;
  [[nodiscard]] Handle counted(OperationKind kind, std::int64_t bytes, Handle started);

  const std::shared_ptr<Communicator> wrapped_;
  std::string name_;
  const std::shared_ptr<Counts> counts_;  // handles may outlive this
};

}  // namespace tessera::comm
