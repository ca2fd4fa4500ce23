#include "joined.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/ranks.h"

namespace tessera::test {

ncclUniqueId shared_id() {
  ncclUniqueId id{};
  if (world().rank() == 0) ncclGetUniqueId(&id);
  std::array<std::int32_t, sizeof(id) / sizeof(std::int32_t)> words{};
  std::memcpy(words.data(), &id, sizeof(id));
  world()
      .communicator()
      ->broadcast(words.data(), static_cast<std::int64_t>(words.size()), comm::ElementType::int32, 0, nullptr)
      ->wait();
  std::memcpy(&id, words.data(), sizeof(id));
  return id;
}

ncclResult_t settle(ncclComm_t communicator) {
  auto state = ncclInProgress;
  while (true) {
    const auto result = ncclCommGetAsyncError(communicator, &state);
    if (result != ncclSuccess || state != ncclInProgress) return result != ncclSuccess ? result : state;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void order(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, from);
  cudaStreamWaitEvent(to, event, 0);
  cudaEventDestroy(event);
}

Joined::Joined(Calls calls) : rank(static_cast<int>(world().rank())), size(static_cast<int>(world().size())) {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  cudaSetDevice(rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = calls == Calls::block ? 1 : 0;
  ncclCommInitRankConfig(&communicator, size, shared_id(), rank, &config);
  settle(communicator);
  cudaStreamCreateWithFlags(&lane, cudaStreamNonBlocking);
}

Joined::~Joined() {
  if (communicator != nullptr) destroy();
  cudaStreamDestroy(lane);
  world().communicator()->barrier();
}

void Joined::abort() {
  ncclCommAbort(communicator);
  communicator = nullptr;
}

void Joined::destroy() {
  ncclCommDestroy(communicator);
  communicator = nullptr;
}

}  // namespace tessera::test
