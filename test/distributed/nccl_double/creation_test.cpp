// If this failed, tests without a GPU would pass although communicators are created, polled or destroyed in ways that
// hang on GPUs.
#include "joined.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("a communicator knows its ranks") {
  for (const auto calls : {Calls::block, Calls::return_at_once}) {
    const Joined joined(calls);
    int count = 0, rank = -1, device = -1;
    ncclCommCount(joined.communicator, &count);
    ncclCommUserRank(joined.communicator, &rank);
    ncclCommCuDevice(joined.communicator, &device);
    CHECK_ON_ALL(count == joined.size && rank == joined.rank && device == joined.rank);
  }
  CHECK_ON_ALL(living_communicators() == 0);
  CHECK_ON_ALL(faults().empty());
}

TEST_CASE("an id makes one communicator") {
  const Joined joined;
  const auto id = shared_id();
  ncclComm_t first = nullptr, second = nullptr;
  ncclCommInitRankConfig(&first, joined.size, id, joined.rank, nullptr);
  const auto found = blamed([&] {
    CHECK(ncclCommInitRankConfig(&second, joined.size, id, joined.rank, nullptr) == ncclInvalidUsage);
    CHECK(ncclCommInitRankConfig(&second, joined.size, {}, joined.rank, nullptr) == ncclInvalidArgument);
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "its unique id has already made a communicator"));
  CHECK_ON_ALL(has(found, "the id is not from ncclGetUniqueId"));
  ncclCommAbort(second);
  ncclCommDestroy(first);
}

TEST_CASE("ranks that share a GPU, or count differently, do not join") {
  const Joined joined;
  if (joined.size == 1) return;
  const auto join = [&](int size) {
    ncclComm_t made = nullptr;
    const auto found = blamed([&] { ncclCommInitRankConfig(&made, size, shared_id(), joined.rank, nullptr); });
    ncclCommAbort(made);
    world().communicator()->barrier();
    return found;
  };
  cudaSetDevice(0);
  CHECK_ON_ALL(has(join(joined.size), "both use GPU 0"));
  cudaSetDevice(joined.rank);
  CHECK_ON_ALL(has(join(joined.size + joined.rank), " ranks, rank "));
}

TEST_CASE("a rank that does not come is named after a while") {
  const Joined joined;
  set_stuck_after(0.5);
  ncclComm_t made = nullptr;
  const auto found = blamed([&] { ncclCommInitRankConfig(&made, joined.size + 1, shared_id(), joined.rank, nullptr); });
  set_stuck_after(60);
  CHECK_ON_ALL(has(found, "not all of its " + std::to_string(joined.size + 1) + " ranks came"));
  ncclCommAbort(made);
}

TEST_CASE("a configuration begins as NCCL's") {
  const Joined joined;
  ncclConfig_t config{};
  ncclComm_t made = nullptr;
  const auto id = shared_id();
  const auto found = blamed(
      [&] { CHECK(ncclCommInitRankConfig(&made, joined.size, id, joined.rank, &config) == ncclInvalidArgument); });
  CHECK_ON_ALL(has(found, "NCCL_CONFIG_INITIALIZER"));
}

TEST_CASE("a split orders its ranks by key, and takes part of them") {
  for (const auto calls : {Calls::block, Calls::return_at_once}) {
    const Joined joined(calls);
    ncclComm_t part = nullptr, none = nullptr;
    const auto result = ncclCommSplit(joined.communicator, joined.rank % 2, -joined.rank, &part, nullptr);
    CHECK_ON_ALL((result == ncclInProgress) == (calls == Calls::return_at_once));
    CHECK_ON_ALL((part == nullptr) == (calls == Calls::return_at_once));
    settle(joined.communicator);
    const auto members = (joined.size + 1 - joined.rank % 2) / 2, behind = (joined.size - 1 - joined.rank) / 2;
    int count = 0, rank = -1;
    ncclCommCount(part, &count);
    ncclCommUserRank(part, &rank);
    CHECK_ON_ALL(count == members && rank == behind);

    const DeviceArray<float> data(std::vector<float>{static_cast<float>(joined.rank)});
    ncclBroadcast(data.data(), data.data(), 1, ncclFloat32, 0, part, joined.lane);
    settle(part);
    cudaStreamSynchronize(joined.lane);
    const auto last_alike = joined.size - 1 - (joined.size - 1 - joined.rank) % 2;
    CHECK_ON_ALL(data.values()[0] == static_cast<float>(last_alike));

    ncclCommSplit(joined.communicator, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr);
    settle(joined.communicator);
    CHECK_ON_ALL(none == nullptr);
    ncclCommDestroy(part);
  }
  CHECK_ON_ALL(faults().empty());
}

TEST_CASE("a communicator that does not block is polled before its stream is used") {
  const Joined joined(Calls::return_at_once);
  const DeviceArray<float> data(std::vector<float>(5, 1));
  const auto reduce = [&] {
    return ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
  };
  CHECK_ON_ALL(reduce() == ncclInProgress);
  const auto found = blamed([&] {
    reduce();
    cudaStreamSynchronize(joined.lane);
    check_at_rest("the end of a step");
  });
  INFO(found);
  CHECK_ON_ALL(has(found, "ncclAllReduce: communicator") && has(found, "was not seen to have ended its last call"));
  CHECK_ON_ALL(has(found, "cudaStreamSynchronize: communicator") && has(found, "has not enqueued on stream"));
  CHECK_ON_ALL(has(found, "the end of a step: communicator") && has(found, "never polled"));
  CHECK_ON_ALL(settle(joined.communicator) == ncclSuccess);
  cudaStreamSynchronize(joined.lane);
  CHECK_ON_ALL(data.values() == std::vector<float>(5, static_cast<float>(joined.size)));
}

TEST_CASE("finalize, poll, destroy") {
  Joined joined(Calls::return_at_once);
  CHECK_ON_ALL(ncclCommFinalize(joined.communicator) == ncclInProgress);
  CHECK_ON_ALL(settle(joined.communicator) == ncclSuccess);
  joined.destroy();

  Joined hasty(Calls::return_at_once);
  ncclCommFinalize(hasty.communicator);
  CHECK_ON_ALL(has(blamed([&] { hasty.destroy(); }), "was not seen to have ended its last call"));
}

TEST_CASE("an abort ends what waits for a rank that does not come") {
  Joined joined;
  if (joined.size == 1) return joined.destroy();
  const DeviceArray<float> data(std::vector<float>(5, 1));
  const auto found = blamed([&] {
    if (joined.rank != 0)
      ncclAllReduce(data.data(), data.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    joined.abort();
    cudaStreamSynchronize(joined.lane);
  });
  CHECK_ON_ALL(found == "none");
}

TEST_CASE("a communicator that lives on is counted") {
  Joined joined;
  CHECK_ON_ALL(living_communicators() == 1);
  joined.destroy();
  CHECK_ON_ALL(living_communicators() == 0);
}

}  // namespace
}  // namespace tessera::test
