// If this failed, tests without a GPU would pass although NCCL is called in sequences that hang or spoil values on
// GPUs.
#include "joined.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("a count that the ranks do not share is found") {
  Joined joined;
  const DeviceArray<float> send(std::vector<float>(8, 1)), receive(8);
  const auto between_two = blamed([&] {
    ncclGroupStart();
    ncclSend(send.data(), 5, ncclFloat32, joined.next(), joined.communicator, joined.lane);
    ncclRecv(receive.data(), 6, ncclFloat32, joined.previous(), joined.communicator, joined.lane);
    ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
  });
  INFO(between_two);
  CHECK_ON_ALL(has(between_two, "count mismatch") && has(between_two, "ncclRecv of 6 float32") &&
               has(between_two, "ncclSend of 5 float32"));
  joined.abort();
}

TEST_CASE("a count of a collective that the ranks do not share is found") {
  Joined joined;
  if (joined.size == 1) return joined.destroy();
  const DeviceArray<float> data(std::vector<float>(8, 1));
  const auto count = joined.rank == 0 ? std::size_t{5} : std::size_t{6};
  const auto found = blamed([&] {
    ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  const auto disagrees = has(found, "count mismatch") && has(found, "of 5 float32") && has(found, "of 6 float32");
  CHECK_ON_ALL(disagrees);
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(joined.communicator, &error);
  CHECK_ON_ALL(error == ncclInvalidUsage);
  joined.abort();
}

TEST_CASE("a group without its end is found before the host waits for it") {
  const Joined joined;
  const DeviceArray<float> data(std::vector<float>(5, 1));
  const auto found = blamed([&] {
    ncclGroupStart();
    ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    cudaStreamSynchronize(joined.lane);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "missing group end") && has(found, "1 operations were not begun"));
  const auto at_rest = blamed([&] { check_at_rest("the end of a step"); });
  CHECK_ON_ALL(at_rest == "none");  // once a group
  CHECK_ON_ALL(ncclGroupEnd() == ncclSuccess);
  cudaStreamSynchronize(joined.lane);
  CHECK_ON_ALL(data.values() == std::vector<float>(5, static_cast<float>(joined.size)));
  CHECK_ON_ALL(blamed([] { ncclGroupEnd(); }) == "ncclGroupEnd without ncclGroupStart");
}

TEST_CASE("a group that is open at the end of a step is found") {
  const auto found = blamed([&] {
    ncclGroupStart();
    check_at_rest("the end of step 3");
    ncclGroupEnd();
  });
  CHECK_ON_ALL(has(found, "missing group end: the end of step 3"));
}

TEST_CASE("reading before the event is found, on both sides of a collective, however it went") {
  const Joined joined;
  const auto size = static_cast<std::size_t>(joined.size);
  const DeviceArray<float> own(5), all(5 * size);
  const auto write = [&] {
    launch(nullptr, "write own", {}, {own.range()}, [&] { std::fill_n(own.data(), 5, 2.0F); });
  };
  const auto gather = [&] { ncclAllGather(own.data(), all.data(), 5, ncclFloat32, joined.communicator, joined.lane); };
  const auto read = [&] { launch(nullptr, "read all", {all.range()}, {}, [] {}); };
  const auto synchronize = [&] {
    cudaStreamSynchronize(joined.lane);
    cudaStreamSynchronize(nullptr);
  };

  const auto before = blamed([&] {
    write();
    gather();  // the lane has not waited
    order(joined.lane, nullptr);
    read();
    synchronize();
  });
  INFO(before);
  CHECK_ON_ALL(has(before, "read before event: ncclAllGather of 5 float32") && has(before, "kernel 'write own'") &&
               !has(before, "read all"));
  const auto after = blamed([&] {
    write();
    order(nullptr, joined.lane);
    gather();
    read();  // the compute stream has not waited
    synchronize();
  });
  INFO(after);
  CHECK_ON_ALL(has(after, "read before event: kernel 'read all' on the default stream") &&
               has(after, "ncclAllGather of 5 float32"));
  const auto right = blamed([&] {
    write();
    order(nullptr, joined.lane);
    gather();
    order(joined.lane, nullptr);
    read();
    synchronize();
  });
  CHECK_ON_ALL(right == "none");
}

TEST_CASE("writing into what a collective still reads is found") {
  const Joined joined;
  const DeviceArray<float> data(std::vector<float>(5, 1));
  const auto found = blamed([&] {
    ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    cudaMemsetAsync(data.data(), 0, 5 * sizeof(float), nullptr);
    cudaStreamSynchronize(joined.lane);
    cudaStreamSynchronize(nullptr);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "write before event: cudaMemsetAsync on the default stream"));
}

TEST_CASE("in place is only at rank * count") {
  const Joined joined;
  const auto size = static_cast<std::size_t>(joined.size), rank = static_cast<std::size_t>(joined.rank);
  const DeviceArray<float> data(std::vector<float>(5 * size + 3, 1));
  std::vector<ncclResult_t> results;
  const auto found = blamed([&] {
    results = {ncclAllGather(data.data() + 5 * rank + 1, data.data(), 5, ncclFloat32, joined.communicator, joined.lane),
               ncclReduceScatter(data.data(), data.data() + 5 * rank + 1, 5, ncclFloat32, ncclSum, joined.communicator,
                                 joined.lane),
               ncclAllReduce(data.data(), data.data() + 2, 5, ncclFloat32, ncclSum, joined.communicator, joined.lane)};
  });
  INFO(found);
  const auto bytes = std::to_string(20 * rank + 4) + " bytes apart, not " + std::to_string(20 * rank);
  CHECK_ON_ALL(results == std::vector<ncclResult_t>(3, ncclInvalidArgument));
  CHECK_ON_ALL(has(found, "ncclAllGather of 5 float32 of ") && has(found, "wrong in-place offset") &&
               has(found, "sendbuff == recvbuff + rank * sendcount must hold; they are " + bytes) &&
               has(found, "recvbuff == sendbuff + rank * recvcount must hold; they are " + bytes) &&
               has(found, "sendbuff == recvbuff must hold; they are 8 bytes apart, not 0"));
}

TEST_CASE("a communicator that was freed is not used") {
  Joined destroyed, aborted;
  const auto first = destroyed.communicator, second = aborted.communicator;
  destroyed.destroy();
  aborted.abort();
  const DeviceArray<float> data(5);
  ncclResult_t result = ncclSuccess;
  const auto found = blamed([&] {
    result = ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, first, destroyed.lane);
    ncclBroadcast(data.data(), data.data(), 5, ncclFloat32, 0, second, aborted.lane);
    ncclCommDestroy(first);
  });
  INFO(found);
  CHECK_ON_ALL(result == ncclInvalidArgument);
  CHECK_ON_ALL(has(found, "freed communicator: ncclAllReduce uses communicator") && has(found, "has been destroyed") &&
               has(found, "freed communicator: ncclBroadcast") && has(found, "has been aborted") &&
               has(found, "freed communicator: ncclCommDestroy"));
}

}  // namespace
}  // namespace tessera::test
