// The reductions of NcclCommunicator.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/nccl/kernels.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/nccl/pieces.h"
#include "comm/traffic.h"

namespace tessera::comm {

namespace {

bool is_floating(ElementType type) { return type != ElementType::int32 && type != ElementType::int64; }

}  // namespace

bool NcclCommunicator::may_nccl_reduce(ElementType type, ReduceOperation operation) const {
  if (!is_floating(type)) return true;
  return type != ElementType::bfloat16 && operation == ReduceOperation::add &&
         lanes_->options().sum_order == SumOrder::any;
}

Handle NcclCommunicator::reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) {
  auto bytes = reduce_bytes_sent(blocks, rank());
  for (const auto& block : blocks) {
    const auto own = summed_piece(block, rank(), size()).own;
    bytes += piece_bytes(own, block.type) * (size() - 1);
  }
  return start(LaneKind::reduce, "reduce_blocks", bytes, std::move(keep), [&](Lane& lane) { reduce(blocks, lane); });
}

void NcclCommunicator::reduce(const std::vector<ReduceBlock>& blocks, Lane& lane) {
  const auto by_nccl = [&](const ReduceBlock& block) {
    return size() > 1 && may_nccl_reduce(block.type, ReduceOperation::add) &&
           lie_side_by_side(block.pieces, block.type);
  };
  // The place of each block's contributions in the staging memory; unused for blocks that NCCL sums.
  std::vector<std::int64_t> places;
  std::int64_t bytes = 0;
  for (const auto& block : blocks) {
    places.push_back(bytes);
    if (size() > 1 && !by_nccl(block))
      bytes += aligned(piece_bytes(block.pieces[size_of(rank())], block.type) * size());
  }
  auto* const staging = bytes > 0 ? lane.staging(bytes) : nullptr;
  if (size() > 1)
    clique(LaneKind::reduce).in_group([&](ncclComm_t comm) {
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        if (by_nccl(blocks[b]))
          reduce_rows(blocks[b], comm, lane);
        else
          send_contributions(blocks[b], staging + places[b], comm, lane);
      }
    });
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto piece = summed_piece(blocks[b], rank(), size());
    const bool is_summed = size() == 1 || by_nccl(blocks[b]);
    launch_rank_order_sum({.type = piece.type,
                           .operation = piece.operation,
                           .total_goes = piece.total_goes,
                           .rows = piece.own.rows,
                           .row_elements = piece.own.row_elements,
                           .own = piece.own.data,
                           .own_stride = piece.own.stride_elements,
                           .received = staging + places[b],
                           .target = piece.target.data,
                           .target_stride = piece.target.stride_elements,
                           .rank = is_summed ? 0 : rank(),
                           .ranks = is_summed ? 1 : size()},
                          lane.stream());
  }
}

void NcclCommunicator::reduce_rows(const ReduceBlock& block, ncclComm_t comm, const Lane& lane) const {
  const auto& first = block.pieces.front();
  const auto stride = bytes_of(first.stride_elements, block.type), piece = bytes_of(first.row_elements, block.type);
  for (std::int64_t row = 0; row < first.rows; ++row) {
    auto* const begin = static_cast<std::byte*>(first.data) + row * stride;
    check_nccl(ncclReduceScatter(begin, begin + rank() * piece, size_of(first.row_elements), nccl_type(block.type),
                                 ncclSum, comm, lane.stream().native()),
               "ncclReduceScatter", comm);
  }
}

void NcclCommunicator::send_contributions(const ReduceBlock& block, std::byte* received, ncclComm_t comm,
                                          const Lane& lane) const {
  const auto type = nccl_type(block.type);
  const auto& own = block.pieces[size_of(rank())];
  const auto own_bytes = piece_bytes(own, block.type);
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank()) continue;
    const auto peer = static_cast<int>(k);
    for (const auto& run : runs_of(block.pieces[size_of(k)], block.type))
      check_nccl(ncclSend(run.data, size_of(run.elements), type, peer, comm, lane.stream().native()), "ncclSend", comm);
    // Receives in the same runs in which the sender sends, since the piece has the same shape and stride there.
    auto* to = received + k * own_bytes;
    for (const auto& run : runs_of(own, block.type)) {
      check_nccl(ncclRecv(to, size_of(run.elements), type, peer, comm, lane.stream().native()), "ncclRecv", comm);
      to += bytes_of(run.elements, block.type);
    }
  }
}

Handle NcclCommunicator::all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                                    KeepAlive keep) {
  base::expect(elements >= 0, "{} elements", elements);
  const auto bytes = 2 * all_reduce_bytes_sent(elements, type, rank(), size());
  return start(LaneKind::reduce, "all_reduce", bytes, std::move(keep), [&](Lane& lane) {
    if (size() == 1 || elements == 0) return;
    if (may_nccl_reduce(type, operation))
      return clique(LaneKind::reduce).in_group([&](ncclComm_t comm) {
        check_nccl(ncclAllReduce(data, data, size_of(elements), nccl_type(type), nccl_operation(operation), comm,
                                 lane.stream().native()),
                   "ncclAllReduce", comm);
      });
    const RankOrderSum whole{.type = type,
                             .operation = operation,
                             .total_goes = TotalGoes::stored,
                             .rows = 1,
                             .row_elements = elements,
                             .own = data,
                             .own_stride = elements,
                             .target = data,
                             .target_stride = elements,
                             .rank = rank(),
                             .ranks = size()};
    if (bytes_of(elements, type) <= reduced_whole_bytes)
      all_reduce_whole(whole, lane);
    else
      all_reduce_in_blocks(whole, lane);
  });
}

void NcclCommunicator::all_reduce_whole(const RankOrderSum& sum, Lane& lane) {
  const auto bytes = bytes_of(sum.row_elements, sum.type);
  auto* const staging = lane.staging(bytes * size());
  auto* const own = staging + rank() * bytes;
  device::copy_rows(own, bytes, sum.own, bytes, bytes, 1, lane.stream());
  clique(LaneKind::reduce).in_group([&](ncclComm_t comm) {
    check_nccl(
        ncclAllGather(own, staging, size_of(sum.row_elements), nccl_type(sum.type), comm, lane.stream().native()),
        "ncclAllGather", comm);
  });
  auto of_all = sum;
  of_all.received = staging;
  launch_rank_order_sum(of_all, lane.stream());
}

void NcclCommunicator::all_reduce_in_blocks(const RankOrderSum& sum, Lane& lane) {
  GatherBlock gather{.type = sum.type, .pieces = {}};
  for (std::int64_t k = 0; k < size(); ++k) {
    const auto range = all_reduce_block(sum.row_elements, k, size());
    const auto elements = range.end - range.begin;
    gather.pieces.push_back(
        {static_cast<std::byte*>(sum.target) + bytes_of(range.begin, sum.type), 1, elements, elements});
  }
  const auto& own = gather.pieces[size_of(rank())];
  const ReduceBlock reduce{.type = sum.type, .pieces = gather.pieces};
  auto* const staging = lane.staging(std::max(piece_bytes(own, sum.type), std::int64_t{1}) * size());
  auto& reducing = clique(LaneKind::reduce);
  reducing.in_group([&](ncclComm_t comm) { send_contributions(reduce, staging, comm, lane); });
  auto of_block = sum;
  of_block.row_elements = own.row_elements;
  of_block.own = of_block.target = own.data;
  of_block.received = staging;
  launch_rank_order_sum(of_block, lane.stream());
  reducing.in_group([&](ncclComm_t comm) {
    if (lie_side_by_side(gather.pieces, gather.type))
      gather_rows(gather, comm, lane);
    else
      exchange_pieces(gather, comm, lane);
  });
}

}  // namespace tessera::comm
