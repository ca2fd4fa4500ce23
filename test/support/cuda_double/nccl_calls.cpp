// NCCL's calls: communicators, and what moves data. (NCCL user guide, "NCCL API".)
#include <nccl.h>

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_creation.h"
#include "support/cuda_double/nccl_groups.h"
#include "support/cuda_double/nccl_mail.h"
#include "support/cuda_double/nccl_rules.h"

using namespace tessera::test;
using namespace tessera::test::cuda_double;

namespace {

using Life = ncclComm::Life;

ncclResult_t refuse() {
  if (in_group()) fail_group();
  return ncclInvalidArgument;
}

ncclResult_t call(NcclOperation operation, ncclComm_t communicator, cudaStream_t stream) {
  const auto name = call_name(operation.kind);
  const std::lock_guard lock(runtime().mutex);
  operation.communicator = ready(communicator, name);
  if (operation.communicator == nullptr) return refuse();
  operation.stream = runtime().stream_of(stream, name);
  if (operation.stream == nullptr || check_arguments(operation) != ncclSuccess) return refuse();
  Runtime::check_not_owed(*operation.stream, name);
  check_one_thread(operation.communicator->device, name);
  if (!in_group()) return begin_operation(operation);
  add_to_group(operation);
  return ncclSuccess;
}

// Creation that has begun.
ncclResult_t finish_or_queue(ncclComm_t made) {
  if (!in_group()) return finish_creation(*made);
  add_creation_to_group(made);
  return ncclSuccess;
}

void forget_owed(ncclComm& communicator, CUstream_st& stream) {
  if (stream.owed_by == &communicator) stream.owed_by = nullptr;
}

}  // namespace

extern "C" {

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  {
    const std::lock_guard lock(runtime().mutex);
    expect_launch_order();
    const auto result = begin_joining(made, size, id, rank, config);
    if (result != ncclSuccess) return result;
  }
  return finish_or_queue(*made);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  ncclComm_t part = nullptr;
  {
    const std::lock_guard lock(runtime().mutex);
    auto* from = ready(parent, "ncclCommSplit");
    if (from == nullptr || made == nullptr) return refuse();
    expect_launch_order();
    const auto result = begin_split(*from, color, key, made, &part, config);
    if (result != ncclSuccess) return result;
    if (!from->blocking) return in_group() ? ncclSuccess : ncclInProgress;
    if (color != NCCL_SPLIT_NOCOLOR) *made = part;
  }
  return finish_or_queue(part);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  ncclComm* communicator = nullptr;
  {
    const std::lock_guard lock(runtime().mutex);
    communicator = ready(handle, "ncclCommFinalize");
    if (communicator == nullptr) return ncclInvalidArgument;
    communicator->life = Life::finalized;
    communicator->poll_once_more = !communicator->blocking;
  }
  if (!communicator->blocking) return ncclInProgress;
  wait_for_operations(*communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  ncclComm* communicator = nullptr;
  {
    const std::lock_guard lock(runtime().mutex);
    communicator = living(handle, "ncclCommDestroy");
    if (communicator == nullptr) return ncclInvalidArgument;
    if (communicator->life == Life::creating || communicator->owed || communicator->poll_once_more)
      report_fault(fmt::format("ncclCommDestroy: {} does not block, and was not seen to have ended its last call",
                               communicator->name));
    if (is_queued_in_group(*communicator))
      report_fault(fmt::format("ncclCommDestroy: {} has operations in the open group", communicator->name));
  }
  wait_for_operations(*communicator);
  const std::lock_guard lock(runtime().mutex);
  communicator->life = Life::destroyed;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  ncclComm* communicator = nullptr;
  {
    const std::lock_guard lock(runtime().mutex);
    communicator = living(handle, "ncclCommAbort");
    if (communicator == nullptr) return ncclInvalidArgument;
    communicator->given_up = true;
    communicator->owed = nullptr;
    runtime().for_each_stream([&](CUstream_st& stream) { forget_owed(*communicator, stream); });
  }
  mail().wake();
  wait_for_operations(*communicator);
  const std::lock_guard lock(runtime().mutex);
  communicator->life = Life::aborted;
  return ncclSuccess;
}

// The real call completes and frees what is pending, so two threads in it at a time are a fault. It takes a while here,
// so that they meet.
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const OneThread alone(handle, "ncclCommGetAsyncError");
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  const std::lock_guard lock(runtime().mutex);
  auto* communicator = living(handle, "ncclCommGetAsyncError");
  if (communicator == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = poll(*communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  const std::lock_guard lock(runtime().mutex);
  const auto* communicator = ready(handle, "ncclCommCount");
  if (communicator == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = communicator->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  const std::lock_guard lock(runtime().mutex);
  const auto* communicator = ready(handle, "ncclCommUserRank");
  if (communicator == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  const std::lock_guard lock(runtime().mutex);
  const auto* communicator = ready(handle, "ncclCommCuDevice");
  if (communicator == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = communicator->device;
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = last_fault();
  return text.c_str();
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return call({.kind = Kind::all_gather, .send = send, .receive = receive, .count = count, .type = type}, communicator,
              stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
  return call({.kind = Kind::reduce_scatter,
               .send = send,
               .receive = receive,
               .count = count,
               .type = type,
               .reduction = reduction},
              communicator, stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
  return call({.kind = Kind::all_reduce,
               .send = send,
               .receive = receive,
               .count = count,
               .type = type,
               .reduction = reduction},
              communicator, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return call({.kind = Kind::broadcast, .send = send, .receive = receive, .count = count, .type = type, .peer = root},
              communicator, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return call({.kind = Kind::send, .send = send, .count = count, .type = type, .peer = peer}, communicator, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return call({.kind = Kind::receive, .receive = receive, .count = count, .type = type, .peer = peer}, communicator,
              stream);
}

}  // extern "C"
