// Collectives among the ranks of one group, on host memory (World) or GPU memory (nccl.h, staged.h). Arguments describe
// memory by pointer, type, rows and stride, never as tensors. One test suite runs on every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::comm {

enum class ElementType : std::uint8_t { float32, bfloat16, float64, int32, int64 };
[[nodiscard]] std::size_t element_bytes(ElementType type);

enum class ReduceOperation : std::uint8_t { add, max };

// Describes `rows` rows of `row_elements` consecutive elements each; the rows begin `stride_elements` apart. Empty if
// either count is 0.
struct Strided {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t stride_elements = 0;
};

// Describes a tensor to gather into its final place: pieces[k] is the place of rank k's piece. The caller fills in this
// rank's own piece before the call.
struct GatherBlock {
  ElementType type{};
  std::vector<Strided> pieces;
};

// Describes a tensor to reduce: pieces[k] is this rank's contribution to rank k's piece. The operation sums the ranks'
// contributions to this rank's piece in rank order and adds the total to `sum`, which has the shape of pieces[rank()].
// It sums bfloat16 pieces in float32.
struct ReduceBlock {
  ElementType type{};
  std::vector<Strided> pieces;
  ElementType sum_type{};
  Strided sum;
};

using KeepAlive = std::shared_ptr<const void>;

// The time during which an operation was under way on this rank, in base::seconds_now(): from its start until it was
// done, even if wait() came much later.
struct Span {
  double started = 0, ended = 0;
};

// An operation under way.
class Operation {
 public:
  virtual ~Operation() = default;
  // Host memory: blocks until the operation is done on this rank. GPU memory: makes the compute stream wait for the
  // operation before any work given to the stream later; the host need not wait. Call it once.
  virtual void wait() = 0;
  // Call it after wait(). In a group of one rank on the host both times are the time of the call that started the
  // operation. For an operation on the GPU the host blocks until has_passed().
  [[nodiscard]] virtual Span span() const = 0;
  // Call it after wait(). Returns whether span() and exposed_seconds() answer without blocking: always true except for
  // operations on the GPU.
  [[nodiscard]] virtual bool has_passed() const { return true; }
  // Call it after wait(). Returns for how long an operation on the GPU blocked the compute stream. Returns nothing for
  // other operations: they block the caller of wait(), which can measure that itself.
  [[nodiscard]] virtual std::optional<double> exposed_seconds() const { return std::nullopt; }
};
using Handle = std::unique_ptr<Operation>;

// Every function but rank(), size(), set_name() and set_label() is collective over the group: each rank calls it, in
// the same order, with counts and types that match those of the others. A function that returns a Handle only starts
// the operation: the caller leaves its memory untouched until the handle's wait(), and the operation keeps `keep` alive
// until then. Only one thread may use a communicator at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;

  // Callers pass all tensors of a unit in one call, one block each.
  [[nodiscard]] virtual Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) = 0;
  [[nodiscard]] virtual Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) = 0;
  // Reduces in place and in rank order: every rank gets the same bits, every time. bfloat16 is summed in float32 and
  // rounded once. NCCL may use its own order (nccl.h).
  [[nodiscard]] virtual Handle all_reduce(void* data, std::int64_t elements, ElementType type,
                                          ReduceOperation operation, KeepAlive keep) = 0;
  // Exchanges rows of `row_elements` elements: sends send_counts[k] rows to rank k and receives receive_counts[k] rows
  // from rank k. `send` and `receive` hold the rows consecutively, in rank order.
  [[nodiscard]] virtual Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts,
                                               void* receive, std::span<const std::int64_t> receive_counts,
                                               std::int64_t row_elements, ElementType type, KeepAlive keep) = 0;
  [[nodiscard]] virtual Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root,
                                         KeepAlive keep) = 0;
  virtual void barrier() = 0;  // returns when every rank has called it

  // Makes the communicator of a subgroup: its rank k is rank ranks[k] of this group. Each rank passes the subgroup that
  // it belongs to; the subgroups of two ranks are equal or disjoint. The result must not outlive the World.
  [[nodiscard]] virtual std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) = 0;

  // Both are for error messages about operations that fail or get stuck; neither is collective.
  // Sets the group's name ("ep_fsdp") for operations that start from now on; "" removes it.
  virtual void set_name(std::string_view name) = 0;
  // Sets what this rank is doing from now on ("Wait Gather layers.3.experts"), in all groups of its World.
  virtual void set_label(std::string_view label) = 0;
};

// Returns a group of one rank: it communicates nothing; it copies a rank's rows to itself and adds its contribution in
// reduce_blocks.
[[nodiscard]] std::shared_ptr<Communicator> solo_communicator();

}  // namespace tessera::comm
