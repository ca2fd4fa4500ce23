// If this failed, a missing wait between streams would be found only by chance, or correct code would be reported.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "gpu_test.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a stream works in its order, and beside the others") {
  const Stream stream;
  const Memory memory(8);
  std::atomic<bool> go{false};
  std::vector<int> order;
  launch(stream, "first", {}, {memory.range()}, [&] {
    while (!go) std::this_thread::yield();
    order.push_back(1);
  });
  launch(stream, "second", {memory.range()}, {memory.range()}, [&] { order.push_back(2); });
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);  // the default stream does not wait for it
  go = true;
  cudaStreamSynchronize(stream);
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("accesses of two streams must be ordered if one writes") {
  const Stream a, b;
  const Memory memory(64);
  const auto found = [&](auto first, auto second) {
    return blamed([&] {
      first(a, memory.range(0, 32));
      second(b, memory.range(16, 32));
      rest({a, b});
    });
  };
  CHECK_THAT(found(writes, reads), ContainsSubstring("read before event: kernel 'read' on stream") &&
                                       ContainsSubstring("reads bytes [16, 48)") &&
                                       ContainsSubstring("writes (bytes [0, 32))") &&
                                       ContainsSubstring("(64 bytes of device memory)"));
  CHECK_THAT(found(writes, writes), ContainsSubstring("write before event: kernel 'write' on stream"));
  CHECK_THAT(found(reads, writes), ContainsSubstring("write before event: kernel 'write' on stream") &&
                                       ContainsSubstring("kernel 'read' on stream"));
  CHECK(found(reads, reads) == "none");
}

TEST_CASE("columns of one matrix are apart") {
  const Stream a, b;
  const Memory memory(70);
  const auto columns = [&](std::size_t from, std::size_t width) { return rows_of(memory.data() + from, width, 7, 10); };
  CHECK(blamed([&] {
          writes(a, columns(0, 4));
          writes(b, columns(4, 6));
          rest({a, b});
        }) == "none");
  CHECK_THAT(blamed([&] {
               writes(a, columns(0, 5));
               writes(b, columns(4, 6));
               rest({a, b});
             }),
             ContainsSubstring("7 rows of 6 bytes from byte 4, 10 apart"));
}

TEST_CASE("what orders: an event, a chain of events, the host") {
  const Stream a, b, c;
  const Event event, second;
  const Memory memory(16);
  const auto range = memory.range();
  CHECK(blamed([&] {
          writes(a, range);
          cudaEventRecord(event, a);
          cudaStreamWaitEvent(b, event, 0);
          cudaEventRecord(second, b);
          cudaStreamWaitEvent(c, second, 0);
          reads(c, range);
          reads(b, range);
        }) == "none");
  rest({b, c});
  CHECK(blamed([&] {
          writes(a, range);
          cudaStreamSynchronize(a);
          writes(b, range);
          cudaEventRecord(event, b);
          cudaEventSynchronize(event);
          writes(c, range);
          while (cudaStreamQuery(c) != cudaSuccess) std::this_thread::yield();
          writes(a, range);
          cudaEventRecord(event, a);
          while (cudaEventQuery(event) != cudaSuccess) std::this_thread::yield();
          writes(b, range);
        }) == "none");
  rest({b});
}

TEST_CASE("what does not order: an event of before, a wait of the other stream, a later record, waiting for another") {
  const Stream a, b, other;
  const Event event, never;
  const Memory memory(16);
  const auto range = memory.range();
  const auto found = [&](auto between) {
    return blamed([&] {
      cudaEventRecord(event, a);
      writes(a, range);
      between();
      reads(b, range);
      rest({a, b, other});
    });
  };
  const auto early = ContainsSubstring("read before event");
  CHECK_THAT(found([&] { cudaStreamWaitEvent(b, event, 0); }), early);
  CHECK_THAT(found([&] { cudaStreamWaitEvent(b, never, 0); }), early);
  CHECK_THAT(found([&] {
               cudaEventRecord(event, a);
               cudaStreamWaitEvent(other, event, 0);
             }),
             early);
  CHECK_THAT(found([&] {
               cudaStreamWaitEvent(b, event, 0);  // waits for the record of before, not for the next
               cudaEventRecord(event, a);
             }),
             early);
  CHECK_THAT(found([&] { cudaStreamSynchronize(other); }), early);
  CHECK_THAT(found([&] { cudaStreamSynchronize(nullptr); }), early);
}

TEST_CASE("a read that is ordered after a write does not hide that another write is not") {
  const Stream a, b, c;
  const Event event;
  const Memory memory(16);
  const auto found = blamed([&] {
    reads(a, memory.range());
    writes(b, memory.range(8, 8));  // not ordered after a
    cudaEventRecord(event, b);
    cudaStreamWaitEvent(c, event, 0);
    writes(c, memory.range());  // after b, not after a
    rest({a, b, c});
  });
  CHECK_THAT(found, ContainsSubstring("kernel 'write' on stream") && ContainsSubstring("reads (bytes [0, 16))"));
  CHECK(std::count(found.begin(), found.end(), '\n') == 1);  // two faults
}

TEST_CASE("threads know what another has waited for, not what it asked about") {
  const Stream a, b;
  const Memory memory(16);
  const auto found = [&](auto other_thread) {
    return blamed([&] {
      writes(a, memory.range());
      std::thread(other_thread).join();
      reads(b, memory.range());
      rest({a, b});
    });
  };
  CHECK(found([&] { cudaStreamSynchronize(a); }) == "none");
  CHECK_THAT(found([&] {
               while (cudaStreamQuery(a) != cudaSuccess) std::this_thread::yield();
             }),
             ContainsSubstring("read before event"));
}

TEST_CASE("the host reads pinned memory when it has waited for the copy") {
  const Stream stream;
  const Memory memory(16), pinned(16, On::host);
  CHECK_THAT(blamed([&] {
               cudaMemcpyAsync(pinned.data(), memory.data(), 16, cudaMemcpyDeviceToHost, stream);
               host_reads(pinned.range(), "the metrics");
               rest({stream});
             }),
             ContainsSubstring("read before event: the metrics on the host"));
  CHECK(blamed([&] {
          host_writes(pinned.range(), "the batch");
          cudaMemcpyAsync(memory.data(), pinned.data(), 16, cudaMemcpyHostToDevice, stream);
          cudaStreamSynchronize(stream);
          host_writes(pinned.range(), "the next batch");
        }) == "none");
  CHECK_THAT(blamed([&] {
               cudaMemcpyAsync(memory.data(), pinned.data(), 16, cudaMemcpyHostToDevice, stream);
               host_writes(pinned.range(), "the next batch");
               rest({stream});
             }),
             ContainsSubstring("write before event: the next batch on the host"));
}

TEST_CASE("the same faults are found however late the operations begin") {
  const Stream a, b;
  const Memory memory(16);
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    set_delays(seed, 500);
    const auto found = blamed([&] {
      writes(a, memory.range());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // surely over, and yet not ordered
      reads(b, memory.range());
      rest({a, b});
    });
    CHECK_THAT(found, ContainsSubstring("read before event"));
  }
  set_delays(0, 0);
}

TEST_CASE("times of events") {
  const Stream stream;
  const Event begin, end, untimed(cudaEventDisableTiming), never;
  float milliseconds = -1;
  cudaEventRecord(begin, stream);
  launch(stream, "sleep", {}, {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  cudaEventRecord(end, stream);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  cudaEventSynchronize(end);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
  CHECK(milliseconds >= 20);
  cudaEventRecord(untimed, stream);
  cudaStreamSynchronize(stream);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, never) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(never) == cudaSuccess);
}

TEST_CASE("streams and events that were destroyed, or would order more than they say") {
  cudaStream_t stream = nullptr, blocking = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaStreamDestroy(stream);
  cudaEventDestroy(event);
  const auto found = blamed([&] {
    CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(event, nullptr) == cudaErrorInvalidResourceHandle);
    cudaStreamCreateWithFlags(&blocking, cudaStreamDefault);
    cudaDeviceSynchronize();
  });
  CHECK_THAT(found, ContainsSubstring("cudaStreamSynchronize: stream") && ContainsSubstring("has been destroyed"));
  CHECK_THAT(found, ContainsSubstring("cudaEventRecord: the event is none, or has been destroyed"));
  CHECK_THAT(found, ContainsSubstring("a stream without cudaStreamNonBlocking"));
  CHECK_THAT(found, ContainsSubstring("cudaDeviceSynchronize: a step waits for events"));
  cudaStreamDestroy(blocking);
}

}  // namespace
}  // namespace tessera::test
