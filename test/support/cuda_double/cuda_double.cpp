#include "support/cuda_double/cuda_double.h"

#include <cstring>
#include <memory>

#include "support/cuda_double/nccl_communicator.h"
#include "support/cuda_double/nccl_groups.h"
#include "support/cuda_double/runtime.h"

namespace tessera::test {

using cuda_double::runtime;

void launch(cudaStream_t stream, std::string_view name, std::vector<ByteRange> reads, std::vector<ByteRange> writes,
            std::function<void()> body) {
  const std::lock_guard lock(runtime().mutex);
  const auto kernel = "kernel '" + std::string(name) + "'";
  auto* on = runtime().stream_of(stream, kernel);
  if (on == nullptr) return;
  runtime().before_use(*on, kernel);
  runtime().issue(*on, {{kernel, std::move(reads), std::move(writes)}}, runtime().host(), std::move(body));
}

namespace {

void host_access(const cuda_double::Part& part) {
  const std::lock_guard lock(runtime().mutex);
  runtime().check_host_accesses(part);
}

}  // namespace

void host_reads(ByteRange range, std::string_view what) { host_access({std::string(what), {range}, {}}); }
void host_writes(ByteRange range, std::string_view what) { host_access({std::string(what), {}, {range}}); }

void copy_to_device(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  launch(nullptr, "copy of the test to the device", {}, {bytes_of(device, bytes)},
         [=] { std::memcpy(device, host, bytes); });
  cudaStreamSynchronize(nullptr);
}

void copy_from_device(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  launch(nullptr, "copy of the test from the device", {bytes_of(device, bytes)}, {},
         [=] { std::memcpy(host, device, bytes); });
  cudaStreamSynchronize(nullptr);
}

void set_delays(std::uint32_t seed, int longest_us) {
  const std::lock_guard lock(runtime().mutex);
  runtime().set_delays(seed, longest_us);
}

void set_stuck_after(double seconds) { cuda_double::stuck_after_s = seconds; }

void set_device_bytes(std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  runtime().memory.device_bytes = bytes;
}

void check_at_rest(std::string_view where) {
  const std::lock_guard lock(runtime().mutex);
  cuda_double::check_no_open_group(where);
  cuda_double::report_unpolled_communicators(where);
}

int living_communicators() {
  const std::lock_guard lock(runtime().mutex);
  return cuda_double::count_living_communicators();
}

}  // namespace tessera::test
