// Collectives on memory of the GPU, over NCCL. nccl/nccl_communicator.cpp, or no_nccl.cpp in a program without CUDA.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace tessera::comm {

class World;

// How pieces that are not of one size, or do not lie side by side, are gathered: each rank sends its piece to each
// other one; or all pieces are packed at the size of the largest in one all-gather, and unpacked where they belong. The
// first moves no byte in vain and copies nothing; the second is one collective, which NCCL can route through rings and
// switches. Which is faster when is for measurement on several GPUs to say; until then the first is what runs.
enum class UnevenBlocks : std::uint8_t { send_receive, padded };

// any: sums of float32 and float64 may be NCCL's, in its order. by_rank: in the order of the ranks, with the bits of
// the MPI backend; slower, since the values of all ranks come to the one that adds them.
enum class SumOrder : std::uint8_t { any, by_rank };

struct NcclOptions {
  UnevenBlocks uneven_blocks = UnevenBlocks::send_receive;
  SumOrder sum_order = SumOrder::any;
};

// Collective over the world, after device::use_gpu() with a GPU of its own on every rank. All ranks of the world, in
// its order; what passes between hosts to set it up goes over the world's communicator. Neither it nor a group made of
// it, nor a handle of theirs, may outlive the world.
//
// An operation begins after what device::Stream::compute() was given before the call, on a lane of its own: gathers and
// broadcasts, rows, reductions. Its handle's wait() makes the compute stream, not the host, wait for its end. Lanes are
// one stream each for all groups, so all ranks start their operations of all groups in one total order (DESIGN 8), not
// only in one order a group.
//
// Beyond Communicator: relative to each other a block's pieces lie alike on all ranks; a rank's own piece of a
// ReduceBlock is overwritten.
[[nodiscard]] std::shared_ptr<Communicator> nccl_communicator(World& world, const NcclOptions& options = {});

}  // namespace tessera::comm
