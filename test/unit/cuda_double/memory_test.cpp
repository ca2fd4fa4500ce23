// If this failed, tests without a GPU would pass although they read memory that was not allocated, was freed or was
// never written.
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "gpu_test.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("new memory is NaN, aligned, and counted") {
  std::size_t before = 0, after = 0, total = 0;
  cudaMemGetInfo(&before, &total);
  const Memory memory(1000);
  cudaMemGetInfo(&after, &total);
  CHECK(before - after == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0);
  std::vector<float> values(250);
  copy_from_device(values.data(), memory.data(), 1000);
  CHECK(std::isnan(values.front()));
  CHECK(std::isnan(values.back()));
}

TEST_CASE("more than there is is refused, and the error is kept until it is asked for") {
  set_device_bytes(1000);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 1001) == cudaErrorMemoryAllocation);
  CHECK(memory == nullptr);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  set_device_bytes(std::size_t{1} << 30);
}

TEST_CASE("copies move rows, and nothing beside them") {
  const Memory memory(12), pinned(20, On::host);
  for (int k = 0; k < 20; ++k) pinned.data()[k] = static_cast<std::byte>(k);
  CHECK(cudaMemsetAsync(memory.data(), 99, 12, nullptr) == cudaSuccess);
  CHECK(cudaMemcpy2DAsync(memory.data(), 4, pinned.data() + 1, 6, 3, 3, cudaMemcpyHostToDevice, nullptr) ==
        cudaSuccess);
  std::array<std::uint8_t, 12> values{};
  copy_from_device(values.data(), memory.data(), 12);
  CHECK(values == std::array<std::uint8_t, 12>{1, 2, 3, 99, 7, 8, 9, 99, 13, 14, 15, 99});
  CHECK(cudaMemcpy2DAsync(memory.data(), 2, pinned.data(), 6, 3, 3, cudaMemcpyDefault, nullptr) ==
        cudaErrorInvalidPitchValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("copies and kernels stay within memory that is there") {
  std::array<std::byte, 16> pageable{};
  const Memory memory(16), pinned(16, On::host);
  std::byte* freed = nullptr;
  {
    const Memory gone(16);
    freed = gone.data();
  }
  const auto found = blamed([&] {
    cudaMemcpyAsync(memory.data(), pageable.data(), 16, cudaMemcpyHostToDevice, nullptr);
    cudaMemcpyAsync(memory.data() + 4, pinned.data(), 16, cudaMemcpyHostToDevice, nullptr);
    reads(nullptr, bytes_of(freed, 16));
    writes(nullptr, memory.range(16, 1));
    cudaMemcpyAsync(memory.data(), pinned.data(), 16, cudaMemcpyDeviceToHost, nullptr);
    cudaMemcpyAsync(memory.data() + 4, memory.data(), 8, cudaMemcpyDeviceToDevice, nullptr);
    cudaStreamSynchronize(nullptr);
  });
  INFO(found);
  CHECK_THAT(found, ContainsSubstring("cudaMemcpyAsync on the default stream reads memory that it may not: ") &&
                        ContainsSubstring("is neither device nor pinned memory"));
  CHECK_THAT(found, ContainsSubstring("its 16 bytes from byte 4 end 4 bytes behind allocation"));
  CHECK_THAT(found, ContainsSubstring("(16 bytes of device memory) has been freed"));
  CHECK_THAT(found, ContainsSubstring("kernel 'write' on the default stream writes memory that it may not"));
  CHECK_THAT(found, ContainsSubstring("the memory is not where cudaMemcpyKind 2 says"));
  CHECK_THAT(found, ContainsSubstring("source and destination overlap"));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("memory is freed once, by who gave it out, and when nothing uses it any more") {
  const Stream stream;
  void *device = nullptr, *pinned = nullptr, *used = nullptr, *over = nullptr;
  cudaMalloc(&device, 16);
  cudaMalloc(&over, 16);
  cudaHostAlloc(&pinned, 16, cudaHostAllocDefault);
  cudaMalloc(&used, 16);
  const auto found = blamed([&] {
    cudaFree(device);
    CHECK(cudaFree(device) == cudaErrorInvalidValue);
    CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
    writes(stream, bytes_of(used, 16));
    CHECK(cudaFree(used) == cudaSuccess);
    launch(stream, "overrun", {}, {bytes_of(over, 16)}, [=] { std::memset(over, 0, 17); });
    cudaStreamSynchronize(stream);
    cudaFree(over);
  });
  INFO(found);
  CHECK_THAT(found, ContainsSubstring("is not what it gave out, or has been freed"));
  CHECK_THAT(found, ContainsSubstring("while kernel 'write' on stream") && ContainsSubstring("may still write it"));
  CHECK_THAT(found, ContainsSubstring("something wrote behind the end of allocation"));
  CHECK(cudaFree(nullptr) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a free waits for what is under way, as CUDA does") {
  const Stream stream;
  bool done = false;
  launch(stream, "late", {}, {}, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  { const Memory memory(16); }
  CHECK(done);
}

TEST_CASE("a device is chosen per thread, and memory and streams are of it") {
  int device = -1, count = 0;
  cudaGetDeviceCount(&count);
  CHECK(count == 8);
  cudaSetDevice(3);
  std::thread([&] { cudaGetDevice(&device); }).join();
  CHECK(device == 0);
  cudaGetDevice(&device);
  CHECK(device == 3);
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
  {
    const Event event;
    cudaSetDevice(0);
    CHECK_THAT(blamed([&] { cudaEventRecord(event, nullptr); }),
               ContainsSubstring("cannot be recorded in the default"));
    static_cast<void>(cudaGetLastError());
  }
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 1) == cudaSuccess);
  CHECK(std::string(properties.name) == "host double");
}

}  // namespace
}  // namespace tessera::test
