// A host double of the CUDA runtime and of NCCL: it defines their functions that lib/device/cuda/{stream,memory} and
// lib/comm/nccl call, against their own headers, and checks every call against their documented rules.
//
// Streams are threads, device memory is host memory full of NaN, ranks are the processes of mpirun (or one process),
// and MPI carries the data of NCCL. It checks these rules; a violation is a fault (faults.h) that names the operations:
//   - order: two operations that touch the same bytes, one writing, must be ordered by events or synchronization. Found
//     when the second is enqueued, whatever the timing (access_order.h).
//   - memory: kernels, copies and NCCL touch only memory that was allocated and not freed, within its bounds; host
//     memory of a copy is pinned; memory is freed only when the host knows that nothing uses it.
//   - NCCL: nccl_rules.h, nccl_groups.h, nccl_execution.h, nccl_creation.h.
//   - never cudaDeviceSynchronize; no stream that is ordered with the default one by itself; no leaked communicator.
//
// A kernel is a function on the host, whose launcher calls launch() and lists the memory that the kernel touches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/cuda_double/byte_range.h"
#include "support/cuda_double/faults.h"

namespace tessera::test {

// Launches a kernel: `body` runs on the stream's thread, in the stream's order. Whatever `body` refers to must live
// until then.
void launch(cudaStream_t stream, std::string_view name, std::vector<ByteRange> reads, std::vector<ByteRange> writes,
            std::function<void()> body);

// Reports that the host itself reads or writes pinned memory now.
void host_reads(ByteRange range, std::string_view what);
void host_writes(ByteRange range, std::string_view what);

// Copies between plain host memory and device memory, in the order of the default stream; the host waits. With them
// tests set and read values; the default stream must have waited for the stream that wrote these.
void copy_to_device(void* device, const void* host, std::size_t bytes);
void copy_from_device(void* host, const void* device, std::size_t bytes);

// From now on half of the operations, chosen at random, begin up to `longest_us` later than they could; 0 turns delays
// off. The environment's TESSERA_TEST_CUDA_DELAY_US and TESSERA_TEST_CUDA_DELAY_SEED set this at the start.
void set_delays(std::uint32_t seed, int longest_us);
// Sets how long an NCCL operation, or the creation of a communicator, may wait for the other ranks before it is a fault
// and given up: 60 at the start.
void set_stuck_after(double seconds);
// Sets the memory of each device: 1 GiB at the start.
void set_device_bytes(std::size_t bytes);

// Reports a fault for each open group and for each operation that a communicator was given and has not enqueued. Call
// it at the end of a step or a test.
void check_at_rest(std::string_view where);
// Returns the number of communicators that are neither destroyed nor aborted.
[[nodiscard]] int living_communicators();

}  // namespace tessera::test
