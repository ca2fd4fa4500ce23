// The communicator of a group of ranks over NCCL, in memory of their GPUs (see nccl.h). What it needs of the host (the
// ids of cliques, barriers, the making of groups) goes over the communicator of the same ranks there.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/calls.h"
#include "comm/nccl/lanes.h"
#include "comm/nccl/rank_order_sum.h"

namespace tessera::comm {

class NcclCommunicator final : public Communicator {
 public:
  // The ranks of `host`, which are `members` of the world.
  NcclCommunicator(std::shared_ptr<NcclLanes> lanes, std::shared_ptr<Communicator> host, std::vector<int> members);
  ~NcclCommunicator() override;

  [[nodiscard]] std::int64_t rank() const override { return host_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return host_->size(); }

  // In place. Pieces that lie side by side: an all-gather a row; others as NcclOptions::uneven_blocks says.
  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) override;
  // Pieces that lie side by side, in place: a reduce-scatter a row, whose result is then added to the sum. Other
  // pieces, bfloat16, and sums of floating types by rank: each rank gets all contributions to its piece, and adds them.
  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) override;
  // NCCL's, but for bfloat16, for maxima of floating types (NCCL's lose NaN), and for sums of floating types by rank:
  // all get all values of a short array; of a long one each adds a block, and sends it to all.
  Handle all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                    KeepAlive keep) override;
  Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements, ElementType type,
                         KeepAlive keep) override;
  Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root, KeepAlive keep) override;
  void barrier() override { host_->barrier(); }
  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) override;
  void set_name(std::string_view name) override;
  void set_label(std::string_view label) override;

 private:
  using Enqueue = std::function<void(Lane& lane)>;
  // Gives `enqueue`'s work to the lane, after what the compute stream was given so far. `bytes` are sent and received.
  [[nodiscard]] Handle start(LaneKind kind, std::string_view operation, std::int64_t bytes, KeepAlive keep,
                             const Enqueue& enqueue);
  // The clique of a lane. Made at the group's first operation, which is the same on all of its ranks: nothing is under
  // way then in the first clique, of which the others are split.
  [[nodiscard]] Clique& clique(LaneKind kind);

  // Within a group of calls:
  void gather_rows(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const;
  void exchange_pieces(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const;
  void reduce_rows(const ReduceBlock& block, ncclComm_t comm, const Lane& lane) const;
  // To each rank its piece; what comes is packed at `received`, but for this rank's own.
  void send_contributions(const ReduceBlock& block, std::byte* received, ncclComm_t comm, const Lane& lane) const;
  // Of their own:
  void gather_padded(const std::vector<GatherBlock>& blocks, Lane& lane);
  void reduce(const std::vector<ReduceBlock>& blocks, Lane& lane);
  void all_reduce_whole(const RankOrderSum& sum, Lane& lane);
  void all_reduce_in_blocks(const RankOrderSum& sum, Lane& lane);

  // Whether NCCL's own sums and maxima have the values, and where it matters the bits, that are asked for.
  [[nodiscard]] bool may_nccl_reduce(ElementType type, ReduceOperation operation) const;
  void expect_ranks(std::size_t count, const char* of) const;

  const std::shared_ptr<NcclLanes> lanes_;
  const std::shared_ptr<Communicator> host_;
  const std::vector<int> members_;
  const std::string description_;  // "ranks 0, 2"
  std::string name_;
  std::array<std::unique_ptr<Clique>, lane_kinds> cliques_;
};

}  // namespace tessera::comm
