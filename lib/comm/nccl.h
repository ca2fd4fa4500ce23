// Collectives on GPU memory over NCCL. Implemented in nccl/nccl_communicator.cpp, or in no_nccl.cpp where the program
// is built without CUDA.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace tessera::comm {

class World;

// The way to gather pieces of unequal size, or that do not lie side by side. send_receive: each rank sends its piece to
// each other rank, without padding or copies. padded: one all-gather of pieces padded to the size of the largest, which
// are then copied to their places; NCCL can route this one collective through rings and switches. Only measurements on
// several GPUs can tell when each is faster; until then send_receive is the default.
enum class UnevenBlocks : std::uint8_t { send_receive, padded };

// The order of floating-point sums. any: NCCL may sum float32 and float64 in its own order. by_rank: sums in rank
// order, with the bits of the MPI backend; slower, since each rank receives the values of all ranks for the part that
// it sums.
enum class SumOrder : std::uint8_t { any, by_rank };

struct NcclOptions {
  UnevenBlocks uneven_blocks = UnevenBlocks::send_receive;
  SumOrder sum_order = SumOrder::any;
};

// Collective over the world. Returns a communicator of all ranks of the world, in the world's order. Precondition:
// every rank has called device::use_gpu() with a GPU that no other rank uses. The set-up communicates over the world's
// own communicator. Neither the result, nor groups made from it, nor their handles may outlive the world.
//
// An operation begins after the work that device::Stream::compute() was given before the call. It runs on one of three
// lanes: gathers and broadcasts, row exchanges, reductions. Its handle's wait() makes the compute stream, not the host,
// wait for its end. All groups share the lanes, one stream each, so all ranks must start the operations of all groups
// in one total order, as a program has it; the same order within each group is not enough. NCCL then makes progress
// with several groups at a time: NCCL_LAUNCH_ORDER_IMPLICIT is set to 1, unless the environment has another value.
//
// It requires more than Communicator does: the pieces of a block have the same offsets from each other on all ranks,
// and an operation may overwrite a rank's own piece of a ReduceBlock.
[[nodiscard]] std::shared_ptr<Communicator> nccl_communicator(World& world, const NcclOptions& options = {});

}  // namespace tessera::comm
