// CUDA Runtime API, "Stream Management" and "Event Management".
#include <fmt/format.h>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_groups.h"
#include "support/cuda_double/runtime.h"

using namespace tessera::test;
using namespace tessera::test::cuda_double;

namespace {

constexpr int least_priority = 0, greatest_priority = -5;

cudaError_t create(cudaStream_t* stream, unsigned int flags, int priority) {
  if (stream == nullptr) return remember(cudaErrorInvalidValue);
  if (flags != cudaStreamNonBlocking)
    report_fault("a stream without cudaStreamNonBlocking is ordered with the default stream behind one's back");
  if (priority > least_priority || priority < greatest_priority)
    report_fault(
        fmt::format("priority {} of a stream is not in [{}, {}]", priority, greatest_priority, least_priority));
  const std::lock_guard lock(runtime().mutex);
  *stream = runtime().create_stream(current_device());
  return cudaSuccess;
}

void host_knows(const VectorClock& clock, Runtime::Knows who) {
  const std::lock_guard lock(runtime().mutex);
  runtime().host_knows(clock, who);
}

struct Point {
  std::shared_ptr<Passage> passage;
  VectorClock clock;
};

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) { return create(stream, flags, 0); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return create(stream, flags, priority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = least_priority;
  if (greatest != nullptr) *greatest = greatest_priority;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(runtime().mutex);
  auto* stream = handle == nullptr ? nullptr : runtime().stream_of(handle, "cudaStreamDestroy");
  if (stream == nullptr || handle == cudaStreamLegacy) return remember(cudaErrorInvalidResourceHandle);
  runtime().before_use(*stream, "cudaStreamDestroy");
  runtime().destroy_stream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
  if (flags != cudaEventWaitDefault) return remember(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  auto* stream = runtime().stream_of(handle, "cudaStreamWaitEvent");
  const auto* event = runtime().event_of(event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  runtime().before_use(*stream, "cudaStreamWaitEvent");
  if (!event->passage) return cudaSuccess;  // never recorded: no wait
  stream->clock.join(event->clock);
  stream->enqueue([passage = event->passage] { passage->wait(); });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  check_no_open_group("cudaStreamSynchronize");
  Point point;
  {
    const std::lock_guard lock(runtime().mutex);
    auto* stream = runtime().stream_of(handle, "cudaStreamSynchronize");
    if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
    runtime().before_use(*stream, "cudaStreamSynchronize");
    point = {stream->mark(), stream->clock};
  }
  point.passage->wait();
  host_knows(point.clock, Runtime::Knows::all_threads);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  check_no_open_group("cudaStreamQuery");
  Point point;
  {
    const std::lock_guard lock(runtime().mutex);
    auto* stream = runtime().stream_of(handle, "cudaStreamQuery");
    if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
    runtime().before_use(*stream, "cudaStreamQuery");
    point = {stream->mark(), stream->clock};
  }
  std::this_thread::yield();
  if (!point.passage->has_passed()) return cudaErrorNotReady;
  host_knows(point.clock, Runtime::Knows::this_thread);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  constexpr unsigned int known = cudaEventBlockingSync | cudaEventDisableTiming;
  if (event == nullptr || (flags & ~known) != 0) return remember(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *event = runtime().create_event(flags, current_device());
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const std::lock_guard lock(runtime().mutex);
  auto* event = runtime().event_of(handle, "cudaEventDestroy");
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  runtime().destroy_event(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const std::lock_guard lock(runtime().mutex);
  auto* event = runtime().event_of(handle, "cudaEventRecord");
  auto* stream = runtime().stream_of(stream_handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  runtime().before_use(*stream, "cudaEventRecord");
  if (stream->device != event->device) {
    report_fault(fmt::format("cudaEventRecord: an event of device {} cannot be recorded in {} of device {}",
                             event->device, stream->name, stream->device));
    return remember(cudaErrorInvalidResourceHandle);
  }
  stream->clock.join(runtime().host());
  event->clock = stream->clock;
  event->passage = stream->mark();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto* event = runtime().event_of(handle, "cudaEventQuery");
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (event->passage && !event->passage->has_passed()) return cudaErrorNotReady;
  runtime().host_knows(event->clock, Runtime::Knows::this_thread);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  check_no_open_group("cudaEventSynchronize");
  Point point;
  {
    const std::lock_guard lock(runtime().mutex);
    const auto* event = runtime().event_of(handle, "cudaEventSynchronize");
    if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
    point = {event->passage, event->clock};
  }
  if (point.passage) point.passage->wait();
  host_knows(point.clock, Runtime::Knows::all_threads);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto* start = runtime().event_of(start_handle, "cudaEventElapsedTime");
  const auto* end = runtime().event_of(end_handle, "cudaEventElapsedTime");
  if (milliseconds == nullptr) return remember(cudaErrorInvalidValue);
  if (start == nullptr || end == nullptr || !start->timed || !end->timed || !start->passage || !end->passage)
    return remember(cudaErrorInvalidResourceHandle);
  if (!start->passage->has_passed() || !end->passage->has_passed()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(1000 * (end->passage->time() - start->passage->time()));
  return cudaSuccess;
}

}  // extern "C"
