// ncclGroupStart and ncclGroupEnd. (NCCL user guide, "Group Calls" and "Nonblocking Group Operation".) A group belongs
// to the thread that opened it. Checks: each start has its end before anything waits for, or uses, a stream of the
// group; a group with operations creates no communicators; only one thread at a time calls operations of a GPU; a group
// has either communicators that block or others, not both.
#pragma once

#include <string_view>

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

[[nodiscard]] bool in_group();
// Both add to the calling thread's open group.
void add_to_group(NcclOperation operation);
void add_creation_to_group(ncclComm* communicator);
// Records that an operation was refused, so that the group begins nothing.
void fail_group();
// Begins an operation; outside a group as a group of its own.
ncclResult_t begin_operation(NcclOperation operation);

// Reports a fault, once per group, if this thread has an open group. Runs at the end of each thread too.
void check_no_open_group(std::string_view where);
// Reports a fault if another thread has an open group with operations for the GPU. ("Thread Safety".) The caller holds
// the lock of the runtime.
void check_one_thread(int device, std::string_view call);
// Reports a fault if the open group has an operation for the stream.
void check_not_queued_in_group(const Stream& stream, std::string_view call);
[[nodiscard]] bool is_queued_in_group(const ncclComm& communicator);

}  // namespace tessera::test::cuda_double
