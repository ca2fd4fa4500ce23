// ncclGroupStart and ncclGroupEnd. (NCCL user guide, "Group Calls" and "Nonblocking Group Operation".) A group is of
// the thread that opened it. Checked: each start has its end before anything waits for a stream of the group's, or uses
// one; creation of communicators is in no group with operations; one thread at a time calls operations of a GPU;
// communicators that block and others are in no group together.
#pragma once

#include <string_view>

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

[[nodiscard]] bool in_group();
// Of the calling thread's group, which is open.
void add_to_group(NcclOperation operation);
void add_creation_to_group(ncclComm* communicator);
// An operation was refused: the group will begin nothing.
void fail_group();
// Outside a group: as a group of its own.
ncclResult_t begin_operation(NcclOperation operation);

// A fault, once a group, if a group of this thread is open. At the end of each thread too.
void check_no_open_group(std::string_view where);
// A fault if another thread has an open group with operations for the GPU. ("Thread Safety".) Under the lock of the
// runtime.
void check_one_thread(int device, std::string_view call);
// A fault if the open group has an operation for the stream.
void check_not_queued_in_group(const Stream& stream, std::string_view call);
[[nodiscard]] bool is_queued_in_group(const ncclComm& communicator);

}  // namespace tessera::test::cuda_double
