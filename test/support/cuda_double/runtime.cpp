#include "support/cuda_double/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_communicator.h"
#include "support/cuda_double/nccl_groups.h"
#include "support/cuda_double/nccl_mail.h"
#include "support/cuda_double/nccl_meeting.h"

namespace tessera::test::cuda_double {

namespace {

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

template <class Handle>
Handle* find_handle(const std::vector<std::unique_ptr<Handle>>& all, const Handle* handle) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.get() == handle; });
  return found == all.end() ? nullptr : found->get();
}

template <class Handle>
std::unique_ptr<Handle> take_handle(std::vector<std::unique_ptr<Handle>>& all, const Handle* handle) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.get() == handle; });
  if (found == all.end()) return nullptr;
  auto taken = std::move(*found);
  all.erase(found);
  return taken;
}

}  // namespace

Runtime& runtime() {
  static Runtime runtime;
  return runtime;
}

Runtime::Runtime() {
  // Made first, gone last.
  static_cast<void>(faults());
  static_cast<void>(mail());
  static_cast<void>(launch_order());
  static_cast<void>(count_living_communicators());
  set_delays(static_cast<std::uint32_t>(environment_number("TESSERA_TEST_CUDA_DELAY_SEED")),
             environment_number("TESSERA_TEST_CUDA_DELAY_US"));
}

Runtime::~Runtime() {
  report_leaked_communicators();
  streams_.clear();
  destroyed_.clear();
  default_streams_.clear();
  end_if_faulty();
}

void Runtime::set_delays(std::uint32_t seed, int longest_us) {
  random_.seed(seed);
  longest_delay_us_ = longest_us;
}

// No delay half of the time.
int Runtime::next_delay_us() {
  if (longest_delay_us_ <= 0) return 0;
  const auto drawn = static_cast<int>(random_() % static_cast<unsigned>(2 * longest_delay_us_ + 1));
  return std::max(0, drawn - longest_delay_us_);
}

CUstream_st* Runtime::stream_of(cudaStream_t handle, std::string_view call) {
  if (handle == cudaStreamPerThread) {
    report_fault(fmt::format("{}: the per-thread default stream is not the one that LibTorch computes on", call));
    return nullptr;
  }
  if (handle == nullptr || handle == cudaStreamLegacy) {
    const auto device = static_cast<std::size_t>(current_device());
    if (default_streams_.size() <= device) default_streams_.resize(device + 1);
    auto& stream = default_streams_[device];
    if (!stream) stream = std::make_unique<CUstream_st>(++actors_, current_device(), "the default stream");
    return stream.get();
  }
  auto* stream = find_handle(streams_, handle);
  if (stream != nullptr) return stream;
  const auto* destroyed = find_handle(destroyed_, handle);
  report_fault(fmt::format("{}: {}", call,
                           destroyed == nullptr ? std::string("the stream is none")
                                                : fmt::format("{} has been destroyed", destroyed->name)));
  return nullptr;
}

CUevent_st* Runtime::event_of(cudaEvent_t handle, std::string_view call) {
  auto* event = find_handle(events_, handle);
  if (event == nullptr) report_fault(fmt::format("{}: the event is none, or has been destroyed", call));
  return event;
}

CUstream_st* Runtime::create_stream(int device) {
  streams_.push_back(std::make_unique<CUstream_st>(++actors_, device, fmt::format("stream {}", ++streams_made_)));
  return streams_.back().get();
}

void Runtime::destroy_stream(CUstream_st* stream) { destroyed_.push_back(take_handle(streams_, stream)); }

CUevent_st* Runtime::create_event(unsigned int flags, int device) {
  events_.push_back(std::make_unique<CUevent_st>());
  events_.back()->device = device;
  events_.back()->timed = (flags & cudaEventDisableTiming) == 0;
  return events_.back().get();
}

void Runtime::destroy_event(CUevent_st* event) { take_handle(events_, event); }

void Runtime::before_use(const CUstream_st& stream, std::string_view call) {
  check_not_queued_in_group(stream, call);
  check_not_owed(stream, call);
}

void Runtime::check_not_owed(const CUstream_st& stream, std::string_view call) {
  if (stream.owed_by != nullptr)
    report_fault(
        fmt::format("{}: {} does not block, and has not enqueued on {} what it was given: poll "
                    "ncclCommGetAsyncError until it says ncclSuccess before the stream is used",
                    call, stream.owed_by->name, stream.name));
}

Runtime::HostThread& Runtime::this_thread() {
  auto& thread = threads_[std::this_thread::get_id()];
  if (thread.actor == 0) thread.actor = ++actors_;
  return thread;
}

const VectorClock& Runtime::host() {
  auto& thread = this_thread();
  thread.clock.join(all_threads_know_);
  return thread.clock;
}

void Runtime::host_knows(const VectorClock& clock, Knows who) {
  (who == Knows::all_threads ? all_threads_know_ : this_thread().clock).join(clock);
}

void Runtime::issue(CUstream_st& stream, const std::vector<Part>& parts, const VectorClock& host,
                    std::function<void()> work) {
  stream.clock.join(host);
  stream.clock.advance(stream.actor);
  check_accesses(parts, {stream.actor, stream.name, stream.clock, host});
  stream.enqueue([delay = next_delay_us(), work = std::move(work)] {
    if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    work();
  });
}

void Runtime::check_host_accesses(const Part& part) {
  const auto& clock = host();
  auto& thread = this_thread();
  thread.clock.advance(thread.actor);
  check_accesses({part}, {thread.actor, "the host", clock, clock});
}

void Runtime::check_accesses(const std::vector<Part>& parts, const Accessor& accessor) {
  const auto check = [&](const Part& part, const ByteRange& range, AccessKind kind) {
    if (range.empty()) return;
    const auto operation = fmt::format("{} on {}", part.name, accessor.where);
    const auto why = memory.why_not(range);
    if (!why.empty()) {
      report_fault(fmt::format("{} {} memory that it may not: {}", operation,
                               kind == AccessKind::read ? "reads" : "writes", why));
      return;
    }
    auto& allocation = *memory.at(range.begin);
    const auto time = accessor.clock.of(accessor.actor);
    const auto fault = allocation.accesses.add({range, kind, accessor.actor, time, operation}, accessor.clock,
                                               accessor.host, allocation.storage.get());
    if (fault) report_fault(*fault + "; of " + allocation.name());
  };
  for (const auto& part : parts) {
    for (const auto& range : part.reads) check(part, range, AccessKind::read);
    for (const auto& range : part.writes) check(part, range, AccessKind::write);
  }
}

void Runtime::for_each_stream(const std::function<void(CUstream_st&)>& action) {
  for (const auto* streams : {&streams_, &destroyed_, &default_streams_})
    for (const auto& stream : *streams)
      if (stream) action(*stream);
}

void Runtime::wait_for_device(int device) {
  std::vector<std::shared_ptr<Passage>> passages;
  {
    const std::lock_guard lock(mutex);
    for_each_stream([&](CUstream_st& stream) {
      if (stream.device != device) return;
      passages.push_back(stream.mark());
      host_knows(stream.clock, Knows::all_threads);
    });
  }
  for (const auto& passage : passages) passage->wait();
}

namespace {
thread_local int the_device = 0;
thread_local cudaError_t the_last_error = cudaSuccess;
}  // namespace

int current_device() { return the_device; }
void set_current_device(int device) { the_device = device; }

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) the_last_error = error;
  return error;
}

}  // namespace tessera::test::cuda_double

extern "C" {

cudaError_t cudaGetLastError() {
  using namespace tessera::test::cuda_double;
  return std::exchange(the_last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() { return tessera::test::cuda_double::the_last_error; }

}  // extern "C"
