// If this failed, work on a GPU would begin before its inputs are ready, or memory would be reused while it is in use.
// Runs on the double of CUDA.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "device/buffer_pool.h"
#include "device/memory.h"
#include "device/stream.h"
#include "support/catch.h"
#include "support/cuda_double/cuda_double.h"

namespace tessera::device {
namespace {

// Numbers 0 to count - 1 in pinned memory.
Memory counting(std::size_t count) {
  auto memory = allocate(MemoryKind::pinned, static_cast<std::int64_t>(count * sizeof(float)));
  auto* const numbers = reinterpret_cast<float*>(memory.get());
  std::iota(numbers, numbers + count, 0.0F);
  return memory;
}

std::vector<float> read(const Memory& pinned, std::size_t count) {
  std::vector<float> numbers(count);
  std::memcpy(numbers.data(), pinned.get(), count * sizeof(float));
  return numbers;
}

TEST_CASE("rows go to the GPU and back, and nothing between them is touched") {
  constexpr std::int64_t row = 3 * 4, apart = 5 * 4, rows = 4;
  const auto compute = Stream::compute();
  const auto source = counting(12), back = counting(20);
  const auto on_gpu = allocate(MemoryKind::cuda, 12 * 4);
  copy_rows(on_gpu.get(), row, source.get(), row, row, rows, compute);
  copy_rows(back.get(), apart, on_gpu.get(), row, row, rows, compute);
  compute.synchronize();
  const auto numbers = read(back, 20);
  for (std::size_t k = 0; k < 20; ++k) {
    const auto in_row = k % 5 < 3;
    CHECK(numbers[k] == static_cast<float>(in_row ? k / 5 * 3 + k % 5 : k));
  }
  copy_rows(nullptr, 0, nullptr, 0, 0, 7, compute);
  copy_rows(nullptr, 0, nullptr, 0, 7, 0, compute);
}

TEST_CASE("a lane goes on after an event of another stream, which the host need not wait for") {
  test::set_delays(3, 2000);
  const auto compute = Stream::compute(), lane = Stream::lane();
  const auto source = counting(100), back = allocate(MemoryKind::pinned, 400);
  const auto first = allocate(MemoryKind::cuda, 400), second = allocate(MemoryKind::cuda, 400);
  copy_rows(first.get(), 400, source.get(), 400, 400, 1, compute);
  const auto there = compute.record();
  lane.wait(there);
  const auto began = lane.record();
  copy_rows(second.get(), 400, first.get(), 400, 400, 1, lane);
  const auto copied = lane.record();
  compute.wait(copied);
  copy_rows(back.get(), 400, second.get(), 400, 400, 1, compute);
  compute.synchronize();
  test::set_delays(3, 0);
  CHECK(there.has_passed());
  CHECK(copied.has_passed());
  CHECK(copied.seconds_since(began) >= 0);
  CHECK(copied.seconds_since(there) >= copied.seconds_since(began));
  CHECK(read(back, 100) == read(source, 100));
}

TEST_CASE("an event has not passed before its stream has come so far") {
  const auto lane = Stream::lane(), other = Stream::lane();
  bool may_go = false;
  std::mutex mutex;
  std::condition_variable changed;
  test::launch(lane.native(), "a kernel that lasts", {}, {}, [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_go; });
  });
  const auto ended = lane.record();
  other.wait(ended);
  const auto behind = other.record();
  CHECK_FALSE(ended.has_passed());
  CHECK_FALSE(behind.has_passed());
  {
    const std::lock_guard lock(mutex);
    may_go = true;
  }
  changed.notify_one();
  behind.synchronize();
  CHECK(ended.has_passed());
}

TEST_CASE("less memory on the GPU than is asked for is the user's error, with the bytes and the way out") {
  test::set_device_bytes(1 << 20);
  const auto first = allocate(MemoryKind::cuda, 600 << 10);
  try {
    static_cast<void>(allocate(MemoryKind::cuda, 600 << 10));
    FAIL("there was so much");
  } catch (const base::Error& error) {
    CHECK(error.code() == base::ExitCode::bad_input);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("not enough GPU memory for a buffer of 600 KiB"));
  }
  test::set_device_bytes(1 << 30);
}

TEST_CASE("what CUDA refuses is an error in its words") {
  const auto lane = Stream::lane();
  const auto memory = allocate(MemoryKind::cuda, 400);
  try {
    const test::ExpectFaults expected;
    copy_rows(memory.get(), 4, memory.get() + 100, 2, 3, 2, lane);  // rows of 3 bytes, 2 apart
    FAIL("CUDA took it");
  } catch (const base::Error& error) {
    CHECK(error.code() == base::ExitCode::rank_failed);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("cudaMemcpy2DAsync") &&
                                 Catch::Matchers::ContainsSubstring("cudaErrorInvalidPitchValue"));
  }
}

TEST_CASE("slots of a pool on the GPU are filled with NaN in the order of the compute stream") {
  const auto compute = Stream::compute();
  BufferPool pool("tests", {{64, 1}}, Poison::fill_with_nan, Place::cuda);
  auto* const slot = pool.take(64);
  const auto numbers = counting(16);
  const auto back = allocate(MemoryKind::pinned, 64);
  const auto look = [&] {
    copy_rows(back.get(), 64, slot, 64, 64, 1, compute);
    compute.synchronize();
    return read(back, 16);
  };
  CHECK(std::isnan(look()[15]));
  copy_rows(slot, 64, numbers.get(), 64, 64, 1, compute);
  CHECK(look()[15] == 15);
  pool.give_back(slot, 64);
  const auto freed = look();
  CHECK(std::all_of(freed.begin(), freed.end(), [](float x) { return std::isnan(x); }));
}

}  // namespace
}  // namespace tessera::device
