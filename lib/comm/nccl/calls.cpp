#include "comm/nccl/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"

namespace tessera::comm {

namespace {

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Collective over `host`: returns the id of a new clique, which rank 0 makes.
ncclUniqueId exchange_id(Communicator& host) {
  ncclUniqueId id{};
  if (host.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
  std::vector<std::int64_t> words(sizeof id / sizeof(std::int64_t));
  static_assert(sizeof id % sizeof(std::int64_t) == 0);
  std::memcpy(words.data(), &id, sizeof id);
  host.broadcast(words.data(), static_cast<std::int64_t>(words.size()), ElementType::int64, 0, nullptr)->wait();
  std::memcpy(&id, words.data(), sizeof id);
  return id;
}

// Calls ncclGroupStart, and ncclGroupEnd at its end: a group that an exception left open would take in all later calls.
class OpenGroup {
 public:
  OpenGroup() { check_nccl(ncclGroupStart(), "ncclGroupStart", nullptr); }
  ~OpenGroup() {
    if (is_open_) static_cast<void>(ncclGroupEnd());
  }
  OpenGroup(const OpenGroup&) = delete;
  OpenGroup& operator=(const OpenGroup&) = delete;
  void end(ncclComm_t of) {
    is_open_ = false;
    check_nccl(ncclGroupEnd(), "ncclGroupEnd", of);
  }

 private:
  bool is_open_ = true;
};

}  // namespace

ncclDataType_t nccl_type(ElementType type) {
  switch (type) {
    case ElementType::float32: return ncclFloat32;
    case ElementType::bfloat16: return ncclBfloat16;
    case ElementType::float64: return ncclFloat64;
    case ElementType::int32: return ncclInt32;
    case ElementType::int64: return ncclInt64;
  }
  base::expect(false, "no such element type: {}", static_cast<int>(type));
  return ncclNumTypes;
}

ncclRedOp_t nccl_operation(ReduceOperation operation) { return operation == ReduceOperation::add ? ncclSum : ncclMax; }

void check_nccl(ncclResult_t result, std::string_view call, ncclComm_t of) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string details = of == nullptr ? "" : ncclGetLastError(of);
  throw base::Error(
      base::ExitCode::rank_failed,
      fmt::format("NCCL failed in {}: {}{}{}", call, ncclGetErrorString(result), details.empty() ? "" : ": ", details));
}

Clique::Clique(Communicator& host, double timeout_s, CallLock& lock) : timeout_s_(timeout_s), lock_(lock) {
  const auto id = exchange_id(host);
  auto config = non_blocking();
  {
    const std::lock_guard guard(lock_);
    check_nccl(
        ncclCommInitRankConfig(&comm_, static_cast<int>(host.size()), id, static_cast<int>(host.rank()), &config),
        "ncclCommInitRankConfig", nullptr);
  }
  settle("ncclCommInitRankConfig");
}

Clique::Clique(Clique& first) : timeout_s_(first.timeout_s_), lock_(first.lock_) {
  auto config = non_blocking();
  {
    const std::lock_guard guard(lock_);
    int rank = 0;
    check_nccl(ncclCommUserRank(first.comm_, &rank), "ncclCommUserRank", first.comm_);
    check_nccl(ncclCommSplit(first.comm_, 0, rank, &comm_, &config), "ncclCommSplit", first.comm_);
  }
  first.settle("ncclCommSplit");  // comm_ is null until then
  settle("ncclCommSplit");
}

Clique::~Clique() {
  // The other ranks may be gone, and operations may never end; the process ends anyway.
  if (std::uncaught_exceptions() > 0) return;
  try {
    finalize();
  } catch (const std::exception& error) {
    base::log_warning("{}", error.what());
  }
}

void Clique::finalize() {
  {
    const std::lock_guard guard(lock_);
    check_nccl(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
  }
  settle("ncclCommFinalize");
  const std::lock_guard guard(lock_);
  check_nccl(ncclCommDestroy(comm_), "ncclCommDestroy", nullptr);
}

void Clique::in_group(const std::function<void(ncclComm_t)>& calls) {
  {
    const std::lock_guard guard(lock_);
    OpenGroup group;
    calls(comm_);
    group.end(comm_);
  }
  settle("ncclGroupEnd");
}

ncclResult_t Clique::state() const {
  auto state = ncclSuccess;
  const auto result = ncclCommGetAsyncError(comm_, &state);
  return result == ncclSuccess ? state : result;
}

void Clique::abort() { static_cast<void>(ncclCommAbort(comm_)); }

// Usually returns at once. The first operation between two ranks connects them, which takes a while.
void Clique::settle(std::string_view call) const {
  base::RunningTime running_time;
  auto pause = std::chrono::microseconds(0);
  constexpr auto longest_pause = std::chrono::microseconds(1000);
  while (true) {
    {
      const std::lock_guard guard(lock_);
      const auto now = state();
      check_nccl(now, call, comm_);
      if (now == ncclSuccess) return;
    }
    const auto waited = running_time.seconds();
    if (waited > timeout_s_)
      throw base::Error(base::ExitCode::rank_failed,
                        fmt::format("NCCL has not finished {} after {} (train.accelerator.timeout_s): not all of its "
                                    "ranks have joined, or they cannot reach each other; NCCL_DEBUG=INFO shows more",
                                    call, base::format_seconds(waited)));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + std::chrono::microseconds(10), longest_pause);
  }
}

}  // namespace tessera::comm
