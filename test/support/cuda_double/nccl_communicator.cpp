#include "support/cuda_double/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_mail.h"

namespace tessera::test::cuda_double {

std::atomic<double> stuck_after_s = 60;

namespace {

using Life = ncclComm::Life;

std::vector<std::unique_ptr<ncclComm>>& all() {
  static std::vector<std::unique_ptr<ncclComm>> communicators;
  return communicators;
}

// False: the part is still being made.
bool end_split(ncclComm& parent) {
  if (!parent.part->created) return false;
  auto* part = std::exchange(parent.part, nullptr);
  if (part->error != ncclSuccess) parent.error = part->error.load();
  if (part->life == Life::creating) part->life = Life::usable;
  *parent.part_goes_to = part->life == Life::usable ? part : nullptr;
  return true;
}

bool is_living(const ncclComm& one) { return one.life != Life::destroyed && one.life != Life::aborted; }

}  // namespace

ncclComm* make_communicator() {
  all().push_back(std::make_unique<ncclComm>());
  all().back()->name = fmt::format("communicator {}", all().size());
  return all().back().get();
}

ncclComm* living(ncclComm_t handle, std::string_view call) {
  const auto found = std::find_if(all().begin(), all().end(), [&](const auto& one) { return one.get() == handle; });
  if (found == all().end()) {
    report_fault(fmt::format("{}: the communicator is none", call));
    return nullptr;
  }
  if (is_living(**found)) return handle;
  report_fault(fmt::format("freed communicator: {} uses {}, which has been {}", call, handle->name,
                           handle->life == Life::destroyed ? "destroyed" : "aborted"));
  return nullptr;
}

ncclComm* ready(ncclComm_t handle, std::string_view call) {
  auto* communicator = living(handle, call);
  if (communicator == nullptr) return nullptr;
  const char* why = nullptr;
  if (communicator->life == Life::creating) why = "is still being created";
  if (communicator->life == Life::finalized) why = "has been finalized";
  if (communicator->poll_once_more || communicator->owed || communicator->part != nullptr)
    why = "does not block, and was not seen to have ended its last call";
  if (why == nullptr) return communicator;
  report_fault(
      fmt::format("{}: {} {}: poll ncclCommGetAsyncError until it says ncclSuccess", call, communicator->name, why));
  return nullptr;
}

namespace {

std::mutex threads_mutex;
std::map<ncclComm_t, int> threads_within;  // guarded by threads_mutex

}  // namespace

OneThread::OneThread(ncclComm_t handle, std::string_view call) : handle_(handle) {
  const std::lock_guard lock(threads_mutex);
  if (threads_within[handle]++ > 0)
    report_fault(fmt::format("two threads use one communicator at a time: {} while another call is under way", call));
}

OneThread::~OneThread() {
  const std::lock_guard lock(threads_mutex);
  --threads_within[handle_];
}

void expect_launch_order() {
  const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (count_living_communicators() > 0 && (order == nullptr || std::string_view(order) != "1"))
    report_fault("a second communicator without NCCL_LAUNCH_ORDER_IMPLICIT=1: progress is not promised");
}

ncclResult_t poll(ncclComm& communicator) {
  if (communicator.error != ncclSuccess) return communicator.error;
  if (communicator.life == Life::creating && !communicator.created) return ncclInProgress;
  if (communicator.poll_once_more) {
    communicator.poll_once_more = false;
    return ncclInProgress;
  }
  if (communicator.part != nullptr && !end_split(communicator)) return ncclInProgress;
  if (communicator.life == Life::creating) communicator.life = Life::usable;
  if (communicator.owed) std::exchange(communicator.owed, nullptr)();
  if (communicator.life == Life::finalized && communicator.running > 0) return ncclInProgress;
  return communicator.error;
}

void wait_for_operations(const ncclComm& communicator) {
  while (communicator.running > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void report_unpolled_communicators(std::string_view where) {
  for (const auto& one : all())
    if (is_living(*one) && one->owed)
      report_fault(
          fmt::format("{}: {} was given an operation and never polled until it had enqueued it", where, one->name));
}

void report_leaked_communicators() {
  for (const auto& one : all())
    if (is_living(*one)) {
      report_fault(fmt::format("{} was neither destroyed nor aborted", describe(*one)));
      one->given_up = true;
    }
  mail().wake();
}

int count_living_communicators() {
  return static_cast<int>(std::count_if(all().begin(), all().end(), [](const auto& one) { return is_living(*one); }));
}

std::string describe(const ncclComm& communicator) {
  return fmt::format("rank {} of {} (size {})", communicator.rank, communicator.name, communicator.size);
}

}  // namespace tessera::test::cuda_double
