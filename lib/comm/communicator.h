// Collectives among the ranks of one group, on memory of the host (World), or of the GPU (nccl.h, staged.h).
//
// Every operation but rank(), size() is collective over the group: every rank calls it, in the same order. Operations
// that return a Handle only start; their memory must stay untouched until its wait() (the keep-alive is held so long).
// Memory is spoken of as pointer, type, rows and stride, never as tensors. One suite of tests runs on every backend.
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

// `rows` runs of `row_elements` consecutive elements, their starts `stride_elements` apart. Empty if either count is 0.
struct Strided {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t stride_elements = 0;
};

// A tensor to be gathered into its final place: pieces[k] is where rank k's piece belongs. This rank's own is filled in
// before the call.
struct GatherBlock {
  ElementType type{};
  std::vector<Strided> pieces;
};

// A tensor to be reduced: pieces[k] is what this rank contributes to rank k's piece; the sum over ranks, in rank order,
// of this rank's piece is added to `sum`, which has the shape of pieces[rank()] (bfloat16 pieces are summed in
// float32).
struct ReduceBlock {
  ElementType type{};
  std::vector<Strided> pieces;
  ElementType sum_type{};
  Strided sum;
};

using KeepAlive = std::shared_ptr<const void>;

// When an operation was under way on this rank, in base::seconds_now(): from its first message until it was done,
// however much later it was waited for.
struct Span {
  double started = 0, ended = 0;
};

// An operation under way.
class Operation {
 public:
  virtual ~Operation() = default;
  // Returns when the operation is done on this rank: of memory of the GPU, when what the compute stream is given from
  // now on comes after it; the host goes on. Called once.
  virtual void wait() = 0;
  // After wait(). In a group of one rank on the host both times are that of the call. Of an operation on the GPU: the
  // host waits until has_passed().
  [[nodiscard]] virtual Span span() const = 0;
  // After wait(): whether span() and exposed_seconds() answer at once. Always, but for operations on the GPU.
  [[nodiscard]] virtual bool has_passed() const { return true; }
  // After wait(), of an operation on the GPU: for how long the compute stream was blocked by it. Else nothing: the
  // caller of wait() was blocked, and knows for how long.
  [[nodiscard]] virtual std::optional<double> exposed_seconds() const { return std::nullopt; }
};
using Handle = std::unique_ptr<Operation>;

// Every operation is collective: each rank of the group calls it, in the same order, with counts and types that fit. It
// only starts: its memory must stay as it is, and `keep` (which the handle holds) alive, until the handle has been
// waited for. One thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;

  // One call per unit, with a block per tensor.
  [[nodiscard]] virtual Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) = 0;
  [[nodiscard]] virtual Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) = 0;
  // In place, in rank order: the same bits on every rank, every time (bfloat16 is summed in float32 and rounded once).
  [[nodiscard]] virtual Handle all_reduce(void* data, std::int64_t elements, ElementType type,
                                          ReduceOperation operation, KeepAlive keep) = 0;
  // Rows of `row_elements` elements: send_counts[k] rows to rank k from consecutive memory, receive_counts[k] from rank
  // k.
  [[nodiscard]] virtual Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts,
                                               void* receive, std::span<const std::int64_t> receive_counts,
                                               std::int64_t row_elements, ElementType type, KeepAlive keep) = 0;
  [[nodiscard]] virtual Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root,
                                         KeepAlive keep) = 0;
  virtual void barrier() = 0;  // returns when every rank has called it

  // The communicator of a part of this group: its rank k is rank ranks[k] of this group. Each rank passes the part that
  // it belongs to itself; the parts of different ranks are equal or have no rank in common. Lives no longer than the
  // World.
  [[nodiscard]] virtual std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) = 0;

  // For the message about an operation that is stuck; not collective.
  // The group's name ("ep_fsdp") in operations that start from now on; "": none.
  virtual void set_name(std::string_view name) = 0;
  // What this rank does from now on ("Wait Gather layers.3.experts"), in all groups of its World.
  virtual void set_label(std::string_view label) = 0;
};

// The group of one rank: moves nothing, and adds what is to be added.
[[nodiscard]] std::shared_ptr<Communicator> solo_communicator();

}  // namespace tessera::comm
