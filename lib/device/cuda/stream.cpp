#include "device/stream.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/cuda/check.h"

namespace tessera::device {

void Event::synchronize() const {
  if (event_ != nullptr) check_cuda(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
}

bool Event::has_passed() const {
  if (event_ == nullptr) return true;
  const auto result = cudaEventQuery(event_.get());
  if (result != cudaErrorNotReady) {
    check_cuda(result, "cudaEventQuery");
    return true;
  }
  static_cast<void>(cudaGetLastError());  // clears cudaErrorNotReady, which counts as an error
  return false;
}

double Event::seconds_since(const Event& earlier) const {
  base::expect(event_ != nullptr && earlier.event_ != nullptr, "time between events that were not recorded");
  earlier.synchronize();
  synchronize();
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, earlier.event_.get(), event_.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

Stream Stream::compute() { return Stream(nullptr); }

Stream Stream::lane() {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  // Non-blocking: the stream does not wait for the default stream implicitly.
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
  return Stream({stream, [](cudaStream_t lane) { static_cast<void>(cudaStreamDestroy(lane)); }});
}

void Stream::wait(const Event& event) const {
  if (event.native() == nullptr) return;
  check_cuda(cudaStreamWaitEvent(native(), event.native(), 0), "cudaStreamWaitEvent");
}

Event Stream::record() const {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  const std::shared_ptr<CUevent_st> recorded(event, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); });
  check_cuda(cudaEventRecord(event, native()), "cudaEventRecord");
  return Event(recorded);
}

void Stream::synchronize() const { check_cuda(cudaStreamSynchronize(native()), "cudaStreamSynchronize"); }

}  // namespace tessera::device
