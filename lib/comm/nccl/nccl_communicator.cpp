#include "comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "comm/nccl/pieces.h"
#include "comm/purpose.h"
#include "comm/traffic.h"

namespace tessera::comm {

namespace {

void copy_piece(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                const Strided& piece, ElementType type, const Lane& lane) {
  device::copy_rows(to, to_stride, from, from_stride, bytes_of(piece.row_elements, type), piece.rows, lane.stream());
}

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

std::shared_ptr<Communicator> nccl_communicator(World& world, const NcclOptions& options) {
  // Without it NCCL promises no progress for operations of several communicators on one GPU. What the user sets stays.
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  std::vector<int> members(static_cast<std::size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  return std::make_shared<NcclCommunicator>(std::make_shared<NcclLanes>(world, options), world.communicator(),
                                            std::move(members));
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclLanes> lanes, std::shared_ptr<Communicator> host,
                                   std::vector<int> members)
    : lanes_(std::move(lanes)),
      host_(std::move(host)),
      members_(std::move(members)),
      description_(describe_ranks(members_)) {
  expect_ranks(members_.size(), "members");
}

NcclCommunicator::~NcclCommunicator() {
  for (auto& clique : cliques_)
    if (clique != nullptr) lanes_->watch().remove(*clique);
}

void NcclCommunicator::expect_ranks(std::size_t count, const char* of) const {
  base::expect(static_cast<std::int64_t>(count) == size(), "{} {} for {} ranks", count, of, size());
}

void NcclCommunicator::set_name(std::string_view name) {
  name_ = name;
  host_->set_name(name);
}

void NcclCommunicator::set_label(std::string_view label) {
  lanes_->set_label(label);
  host_->set_label(label);
}

Clique& NcclCommunicator::clique(LaneKind kind) {
  if (cliques_.front() == nullptr) {
    cliques_.front() = std::make_unique<Clique>(*host_, lanes_->timeout_s(), lanes_->watch().call_lock());
    for (std::size_t k = 1; k < lane_kinds; ++k) cliques_[k] = std::make_unique<Clique>(*cliques_.front());
    for (auto& made : cliques_) lanes_->watch().add(*made);
  }
  return *cliques_[index_of(kind)];
}

Handle NcclCommunicator::start(LaneKind kind, std::string_view operation, std::int64_t bytes, KeepAlive keep,
                               const Enqueue& enqueue) {
  auto& lane = lanes_->lane(kind);
  lane.stream().wait(device::Stream::compute().record());
  const auto started = lane.stream().record();
  enqueue(lane);
  const auto ended = lane.stream().record();
  const Purpose purpose{.operation = operation, .ranks = description_, .group = name_, .label = lanes_->label()};
  lanes_->watch().add(describe(purpose, bytes), started, ended);
  return std::make_unique<GpuOperation>(lanes_->clock(), started, ended, std::move(keep));
}

Handle NcclCommunicator::gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) {
  for (const auto& block : blocks) expect_ranks(block.pieces.size(), "pieces");
  std::int64_t received = 0;
  for (const auto& block : blocks)
    for (std::int64_t k = 0; k < size(); ++k)
      if (k != rank()) received += piece_bytes(block.pieces[size_of(k)], block.type);
  const auto bytes = gather_bytes_sent(blocks, rank()) + received;
  return start(LaneKind::gather, "gather_blocks", bytes, std::move(keep), [&](Lane& lane) {
    if (size() == 1) return;
    std::vector<GatherBlock> padded;
    clique(LaneKind::gather).in_group([&](ncclComm_t comm) {
      for (const auto& block : blocks) {
        if (lie_side_by_side(block.pieces, block.type))
          gather_rows(block, comm, lane);
        else if (lanes_->options().uneven_blocks == UnevenBlocks::send_receive)
          exchange_pieces(block, comm, lane);
        else if (largest_piece_bytes(block.pieces, block.type) > 0)
          padded.push_back(block);
      }
    });
    if (!padded.empty()) gather_padded(padded, lane);
  });
}

void NcclCommunicator::gather_rows(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const {
  const auto& first = block.pieces.front();
  const auto stride = bytes_of(first.stride_elements, block.type), piece = bytes_of(first.row_elements, block.type);
  for (std::int64_t row = 0; row < first.rows; ++row) {
    auto* const begin = static_cast<std::byte*>(first.data) + row * stride;
    check_nccl(ncclAllGather(begin + rank() * piece, begin, size_of(first.row_elements), nccl_type(block.type), comm,
                             lane.stream().native()),
               "ncclAllGather", comm);
  }
}

void NcclCommunicator::exchange_pieces(const GatherBlock& block, ncclComm_t comm, const Lane& lane) const {
  const auto type = nccl_type(block.type);
  const auto own = runs_of(block.pieces[size_of(rank())], block.type);
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank()) continue;
    const auto peer = static_cast<int>(k);
    for (const auto& run : own)
      check_nccl(ncclSend(run.data, size_of(run.elements), type, peer, comm, lane.stream().native()), "ncclSend", comm);
    for (const auto& run : runs_of(block.pieces[size_of(k)], block.type))
      check_nccl(ncclRecv(run.data, size_of(run.elements), type, peer, comm, lane.stream().native()), "ncclRecv", comm);
  }
}

// Gathers all blocks in one all-gather of bytes. Each rank's part has room for the largest piece of each block.
void NcclCommunicator::gather_padded(const std::vector<GatherBlock>& blocks, Lane& lane) {
  std::vector<std::int64_t> places;
  std::int64_t part = 0;
  for (const auto& block : blocks) {
    places.push_back(part);
    part += aligned(largest_piece_bytes(block.pieces, block.type));
  }
  auto* const staging = lane.staging(part * size());
  const auto copy = [&](std::size_t of_block, std::int64_t k) {
    const auto& block = blocks[of_block];
    const auto& piece = block.pieces[size_of(k)];
    auto* const packed = staging + k * part + places[of_block];
    auto* const unpacked = static_cast<std::byte*>(piece.data);
    const auto row = bytes_of(piece.row_elements, block.type), stride = bytes_of(piece.stride_elements, block.type);
    if (k == rank())
      copy_piece(packed, row, unpacked, stride, piece, block.type, lane);
    else
      copy_piece(unpacked, stride, packed, row, piece, block.type, lane);
  };
  for (std::size_t b = 0; b < blocks.size(); ++b) copy(b, rank());
  clique(LaneKind::gather).in_group([&](ncclComm_t comm) {
    check_nccl(ncclAllGather(staging + rank() * part, staging, size_of(part), ncclUint8, comm, lane.stream().native()),
               "ncclAllGather", comm);
  });
  for (std::int64_t k = 0; k < size(); ++k)
    for (std::size_t b = 0; k != rank() && b < blocks.size(); ++b) copy(b, k);
}

Handle NcclCommunicator::all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                                         ElementType type, KeepAlive keep) {
  expect_ranks(send_counts.size(), "counts of rows to send");
  expect_ranks(receive_counts.size(), "counts of rows to receive");
  const auto own = size_of(rank());
  base::expect(send_counts[own] == receive_counts[own], "a rank sends itself what it receives");
  for (const auto counts : {send_counts, receive_counts})
    base::expect(std::all_of(counts.begin(), counts.end(), [](std::int64_t c) { return c >= 0; }), "a negative count");
  base::expect(row_elements >= 0, "rows of {} elements", row_elements);
  const auto bytes =
      bytes_of((sum_of(send_counts) + sum_of(receive_counts) - 2 * send_counts[own]) * row_elements, type);
  return start(LaneKind::exchange, "all_to_all_rows", bytes, std::move(keep), [&](Lane& lane) {
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(receive);
    const auto row_bytes = bytes_of(row_elements, type);
    const auto exchange = [&](ncclComm_t comm) {
      for (std::size_t k = 0; k < send_counts.size(); ++k) {
        const auto sent = send_counts[k] * row_elements, received = receive_counts[k] * row_elements;
        const auto peer = static_cast<int>(k);
        auto* const stream = lane.stream().native();
        if (k != own && sent > 0)
          check_nccl(ncclSend(from, size_of(sent), nccl_type(type), peer, comm, stream), "ncclSend", comm);
        if (k != own && received > 0)
          check_nccl(ncclRecv(to, size_of(received), nccl_type(type), peer, comm, stream), "ncclRecv", comm);
        from += send_counts[k] * row_bytes;
        to += receive_counts[k] * row_bytes;
      }
    };
    const auto own_bytes = send_counts[own] * row_bytes;
    const auto before = [&](std::span<const std::int64_t> counts) { return sum_of(counts.first(own)) * row_bytes; };
    const auto* own_from = from + before(send_counts);
    auto* own_to = to + before(receive_counts);
    if (size() > 1) clique(LaneKind::exchange).in_group(exchange);
    if (own_from != own_to) device::copy_rows(own_to, own_bytes, own_from, own_bytes, own_bytes, 1, lane.stream());
  });
}

Handle NcclCommunicator::broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root,
                                   KeepAlive keep) {
  base::expect(0 <= root && root < size(), "rank {} of a group of {}", root, size());
  base::expect(elements >= 0, "{} elements", elements);
  const auto bytes = bytes_of(elements, type) * (rank() == root ? size() - 1 : 1);
  return start(LaneKind::gather, "broadcast", bytes, std::move(keep), [&](Lane& lane) {
    if (size() == 1 || elements == 0) return;
    clique(LaneKind::gather).in_group([&](ncclComm_t comm) {
      check_nccl(ncclBroadcast(data, data, size_of(elements), nccl_type(type), static_cast<int>(root), comm,
                               lane.stream().native()),
                 "ncclBroadcast", comm);
    });
  });
}

std::shared_ptr<Communicator> NcclCommunicator::make_group(std::span<const std::int64_t> ranks) {
  auto host = host_->make_group(ranks);
  std::vector<int> members;
  for (const auto rank : ranks) members.push_back(members_[size_of(rank)]);
  return std::make_shared<NcclCommunicator>(lanes_, std::move(host), std::move(members));
}

}  // namespace tessera::comm
