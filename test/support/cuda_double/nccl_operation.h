// A call of NCCL that moves data.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/cuda_double/byte_range.h"
#include "support/cuda_double/nccl_communicator.h"
#include "support/cuda_double/runtime.h"

namespace tessera::test::cuda_double {

enum class Kind : std::int32_t { all_gather, reduce_scatter, all_reduce, broadcast, send, receive };

struct NcclOperation {
  Kind kind{};
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // as it was passed
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  // the other rank of a send or receive, or the root of a broadcast
  ncclComm* communicator = nullptr;
  CUstream_st* stream = nullptr;
  std::uint64_t number = 0;  // counts its communicator's operations on this rank from 1; set when enqueued
};

[[nodiscard]] bool is_collective(Kind kind);
[[nodiscard]] bool reduces(Kind kind);
[[nodiscard]] std::string_view call_name(Kind kind);  // "ncclAllGather"
[[nodiscard]] std::size_t bytes_of_type(ncclDataType_t type);
[[nodiscard]] std::string_view name_of_type(ncclDataType_t type);

// The bytes that it reads and writes on this rank, as NCCL documents its buffers; for an operation in place they are
// equal or one contains the other.
[[nodiscard]] ByteRange sent(const NcclOperation& operation);
[[nodiscard]] ByteRange received(const NcclOperation& operation);

// "ncclAllGather of 5 float32 of communicator 2".
[[nodiscard]] std::string describe(const NcclOperation& operation);

}  // namespace tessera::test::cuda_double
