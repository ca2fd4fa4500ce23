// If this failed, tests without a GPU would pass although NCCL is called in ways that its documentation forbids
// (wrong_sequences_test.cpp has the wrong sequences).
#include <array>
#include <cstdlib>
#include <thread>

#include "joined.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

// Gives up soon what cannot end.
class SoonStuck {
 public:
  SoonStuck() { set_stuck_after(2); }
  ~SoonStuck() { set_stuck_after(60); }
};

TEST_CASE("collectives in another order, of another type, root or reduction, are found") {
  Joined joined;
  if (joined.size == 1) return joined.destroy();
  const bool first = joined.rank == 0;
  const DeviceArray<float> data(std::vector<float>(12 * static_cast<std::size_t>(joined.size), 1));
  auto* const f = data.data();
  const auto found = blamed([&] {
    const auto c = joined.communicator;
    const auto gather = [&] { ncclAllGather(f + 3 * joined.rank, f, 3, ncclFloat32, c, joined.lane); };
    const auto reduce = [&] { ncclAllReduce(f, f, 3, ncclFloat32, ncclSum, c, joined.lane); };
    first ? gather() : reduce();
    first ? reduce() : gather();
    ncclAllReduce(f, f, 2, first ? ncclFloat32 : ncclInt32, ncclSum, c, joined.lane);
    ncclAllReduce(f, f, 2, ncclFloat32, first ? ncclSum : ncclMax, c, joined.lane);
    ncclBroadcast(f, f, 2, ncclFloat32, first ? 0 : 1, c, joined.lane);
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "wrong order of collectives: rank") &&
               has(found, "operation 1, ncclAllGather of 3 float32") &&
               has(found, "operation 1, ncclAllReduce of 3 float32"));
  CHECK_ON_ALL(has(found, "type mismatch") && has(found, "reduction mismatch") && has(found, "root mismatch"));
  joined.abort();
}

TEST_CASE("two threads that ask one communicator at a time are found") {
  const Joined joined;
  const auto found = blamed([&] {
    const auto ask = [&] {
      auto state = ncclSuccess;
      for (int k = 0; k < 200; ++k) ncclCommGetAsyncError(joined.communicator, &state);
    };
    std::thread other(ask);
    ask();
    other.join();
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "two threads use one communicator at a time: ncclCommGetAsyncError"));
}

TEST_CASE("a second communicator where the order of launches is not enforced is found") {
  const Joined first;
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  const auto found = blamed([&] { const Joined second; });
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  INFO(found);
  CHECK_ON_ALL(has(found, "a second communicator without NCCL_LAUNCH_ORDER_IMPLICIT=1"));
}

TEST_CASE("communicators that two ranks use in another order are found") {
  const Joined a, b;
  if (a.size == 1) return;
  const DeviceArray<float> of_a(std::vector<float>(3, 1)), of_b(std::vector<float>(3, 1));
  const auto reduce = [](const Joined& joined, const DeviceArray<float>& data) {
    ncclAllReduce(data.data(), data.data(), 3, ncclFloat32, ncclSum, joined.communicator, joined.lane);
  };
  const auto found = blamed([&] {
    if (a.rank == 0) reduce(a, of_a);
    reduce(b, of_b);
    if (a.rank != 0) reduce(a, of_a);
    cudaStreamSynchronize(a.lane);
    cudaStreamSynchronize(b.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "wrong order of communicators"));
}

TEST_CASE("sends that wait for each other outside a group are found, and end") {
  const SoonStuck soon;
  Joined joined;
  const DeviceArray<float> send(std::vector<float>(5, 1)), receive(5);
  const auto found = blamed([&] {
    ncclSend(send.data(), 5, ncclFloat32, joined.next(), joined.communicator, joined.lane);
    ncclRecv(receive.data(), 5, ncclFloat32, joined.previous(), joined.communicator, joined.lane);
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "stuck: ncclSend of 5 float32 to rank " + std::to_string(joined.next())));
  // Of three ranks and more it is another rank than the one that is waited for.
  CHECK_ON_ALL(joined.size > 2 || has(found, "must be in one ncclGroupStart/End"));
  joined.abort();
}

TEST_CASE("operations of one group do not touch what another writes") {
  const Joined joined;
  const DeviceArray<float> send(std::vector<float>(10, 1)), receive(10);
  const auto found = blamed([&] {
    ncclGroupStart();
    ncclSend(send.data(), 5, ncclFloat32, joined.next(), joined.communicator, joined.lane);
    ncclRecv(send.data() + 4, 5, ncclFloat32, joined.previous(), joined.communicator, joined.lane);
    ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "are of one group, which runs them at the same time"));
}

TEST_CASE("two threads do not call for one GPU at the same time") {
  const Joined joined;
  const DeviceArray<float> a(std::vector<float>(5, 1)), b(std::vector<float>(5, 1));
  const auto reduce = [&](const DeviceArray<float>& data) {
    ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
  };
  const auto found = blamed([&] {
    ncclGroupStart();
    reduce(a);
    std::thread([&] { reduce(b); }).join();
    ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "ncclAllReduce: another thread has an open group with operations for GPU"));
  CHECK_ON_ALL(a.values() == b.values());
}

TEST_CASE("a group that is open when its thread ends is found") {
  const auto found = blamed([] { std::thread([] { ncclGroupStart(); }).join(); });
  CHECK_ON_ALL(has(found, "missing group end: the end of the thread while 1 ncclGroupStart"));
}

TEST_CASE("a stream is not used in the middle of a group that has operations for it") {
  const Joined joined;
  const DeviceArray<float> data(std::vector<float>(5, 1));
  const auto found = blamed([&] {
    ncclGroupStart();
    ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    order(joined.lane, nullptr);
    ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "cudaEventRecord on stream") && has(found, "will begin after it, at ncclGroupEnd"));
}

TEST_CASE("arguments that are none of NCCL's are refused") {
  const Joined joined;
  const DeviceArray<float> data(std::vector<float>(5, 1));
  std::array<float, 5> of_the_host{};
  auto* const f = data.data();
  const auto c = joined.communicator;
  const auto found = blamed([&] {
    ncclBroadcast(f, f, 5, ncclFloat32, joined.size, c, joined.lane);
    ncclSend(f, 5, ncclFloat32, -1, c, joined.lane);
    ncclAllReduce(f, f, 6, ncclFloat32, ncclSum, c, joined.lane);
    ncclAllReduce(of_the_host.data(), f, 5, ncclFloat32, ncclSum, c, joined.lane);
    ncclAllReduce(f, nullptr, 5, ncclFloat32, ncclSum, c, joined.lane);
    ncclAllReduce(f, f, 5, ncclNumTypes, ncclSum, c, joined.lane);
    ncclAllReduce(f, f, 5, ncclFloat32, ncclNumOps, c, joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "root " + std::to_string(joined.size) + " is not in [0, "));
  CHECK_ON_ALL(has(found, "peer -1 is not in [0, "));
  CHECK_ON_ALL(has(found, "its 24 bytes from byte 0 end 4 bytes behind allocation"));
  CHECK_ON_ALL(has(found, "is neither device nor pinned memory") && has(found, "recvbuff is null"));
  CHECK_ON_ALL(has(found, "data type 12 is none") && has(found, "reduction 5 is none"));
}

TEST_CASE("a group of which an operation was refused begins nothing") {
  const Joined joined;
  const DeviceArray<float> data(std::vector<float>(5, 1));
  ncclResult_t end = ncclSuccess;
  const auto found = blamed([&] {
    ncclGroupStart();
    ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    ncclAllReduce(data.data(), data.data(), 6, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    end = ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
  });
  CHECK_ON_ALL(end == ncclInvalidArgument && has(found, "behind allocation"));
  CHECK_ON_ALL(data.values() == std::vector<float>(5, 1));
}

}  // namespace
}  // namespace tessera::test
