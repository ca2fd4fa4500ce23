// The communicator of a group of ranks over NCCL, on GPU memory (see nccl.h). A communicator of the same ranks on host
// memory exchanges the ids of cliques and serves barrier() and make_group().
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
  // Makes the group of the ranks of `host`; `members` are their ranks in the world.
  NcclCommunicator(std::shared_ptr<NcclLanes> lanes, std::shared_ptr<Communicator> host, std::vector<int> members);
  ~NcclCommunicator() override;

  [[nodiscard]] std::int64_t rank() const override { return host_->rank(); }
  [[nodiscard]] std::int64_t size() const override { return host_->size(); }

  // Gathers pieces that lie side by side in place, with one all-gather per row; others as NcclOptions::uneven_blocks
  // says.
  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) override;
  // Reduces pieces that lie side by side in place, with one reduce-scatter per row, and adds the result to the sum. For
  // other pieces, for bfloat16, and for floating-point sums under SumOrder::by_rank, each rank receives all
  // contributions to its piece and adds them.
  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) override;
  // Uses NCCL's all-reduce except for bfloat16, for floating-point maxima (NCCL's lose NaN), and for floating-point
  // sums under SumOrder::by_rank. For those, every rank gathers and reduces a short array whole; in a long array each
  // rank reduces a block and sends it to all (see reduced_whole_bytes).
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
  // Lets `enqueue` give its work to the lane of `kind`, after the work that the compute stream was given so far.
  // `bytes` is the number of bytes sent and received, for messages.
  [[nodiscard]] Handle start(LaneKind kind, std::string_view operation, std::int64_t bytes, KeepAlive keep,
                             const Enqueue& enqueue);
  // Returns the clique of a lane. The group's first operation, which is the same on all of its ranks, makes all
  // cliques: the others are split from the first one, in which nothing is under way then.
  [[nodiscard]] Clique& clique(LaneKind kind);

  // Called within Clique::in_group:
  void gather_rows(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const;
  void exchange_pieces(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const;
  void reduce_rows(const ReduceBlock& block, ncclComm_t comm, const Lane& lane) const;
  // Sends each rank this rank's contribution to its piece, and receives the contributions to this rank's piece, packed
  // at `received` by rank; this rank's own place there is not written.
  void send_contributions(const ReduceBlock& block, std::byte* received, ncclComm_t comm, const Lane& lane) const;
  // Call Clique::in_group themselves:
  void gather_padded(const std::vector<GatherBlock>& blocks, Lane& lane);
  void reduce(const std::vector<ReduceBlock>& blocks, Lane& lane);
  void all_reduce_whole(const RankOrderSum& sum, Lane& lane);
  void all_reduce_in_blocks(const RankOrderSum& sum, Lane& lane);

  // Returns whether NCCL's own reduction gives the required values and, under SumOrder::by_rank, the required bits.
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
