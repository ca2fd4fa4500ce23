#include "support/cuda_double/nccl_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_creation.h"
#include "support/cuda_double/nccl_execution.h"
#include "support/cuda_double/nccl_rules.h"

namespace tessera::test::cuda_double {

namespace {

struct Group {
  int depth = 0;
  bool was_reported = false;
  bool failed = false;  // an operation was refused
  std::vector<NcclOperation> operations;
  std::vector<ncclComm*> creations;
};
struct GroupOfThread : Group {
  ~GroupOfThread() { check_no_open_group("the end of the thread"); }
};
thread_local GroupOfThread group;

// Of the GPUs: whose operations wait in open groups. Under the lock of the runtime.
std::multimap<int, std::thread::id> waiting_calls;

// Operations by communicator, in the order of their first.
std::vector<std::vector<NcclOperation>> by_communicator(const std::vector<NcclOperation>& operations) {
  std::vector<std::vector<NcclOperation>> all;
  for (const auto& operation : operations) {
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const auto& some) { return some.front().communicator == operation.communicator; });
    if (same == all.end()) same = all.insert(all.end(), std::vector<NcclOperation>{});
    same->push_back(operation);
  }
  return all;
}

ncclResult_t begin(std::vector<NcclOperation> operations) {
  auto& communicator = *operations.front().communicator;
  if (communicator.blocking) {
    enqueue_operations(std::move(operations), runtime().host());
    return ncclSuccess;
  }
  for (const auto& operation : operations) operation.stream->owed_by = &communicator;
  communicator.poll_once_more = true;
  communicator.owed = [operations = std::move(operations), host = runtime().host()] {
    for (const auto& operation : operations) operation.stream->owed_by = nullptr;
    enqueue_operations(operations, host);
  };
  return ncclInProgress;
}

void forget_waiting_calls() {
  const std::lock_guard lock(runtime().mutex);
  std::erase_if(waiting_calls, [](const auto& waiting) { return waiting.second == std::this_thread::get_id(); });
}

ncclResult_t finish_creations(const std::vector<ncclComm*>& creations) {
  auto worst = ncclSuccess;
  for (auto* communicator : creations) {
    const auto result = finish_creation(*communicator);
    if (result != ncclSuccess) worst = result;
  }
  return worst;
}

ncclResult_t begin_all(const std::vector<NcclOperation>& operations) {
  const std::lock_guard lock(runtime().mutex);
  check_apart(operations);
  const auto all = by_communicator(operations);
  if (std::any_of(all.begin(), all.end(), [&](const auto& some) {
        return some.front().communicator->blocking != all.front().front().communicator->blocking;
      })) {
    report_fault("ncclGroupEnd: communicators that block and others that do not are in one group");
    return ncclInvalidArgument;
  }
  auto result = ncclSuccess;
  for (const auto& some : all) result = begin(some);
  return result;
}

}  // namespace

bool in_group() { return group.depth > 0; }
void add_to_group(NcclOperation operation) {
  waiting_calls.emplace(operation.communicator->device, std::this_thread::get_id());
  group.operations.push_back(operation);
}
void add_creation_to_group(ncclComm* communicator) { group.creations.push_back(communicator); }
void fail_group() { group.failed = true; }
ncclResult_t begin_operation(NcclOperation operation) { return begin({operation}); }

void check_no_open_group(std::string_view where) {
  if (group.depth == 0 || group.was_reported) return;
  group.was_reported = true;
  report_fault(
      fmt::format("missing group end: {} while {} ncclGroupStart of this thread lack their ncclGroupEnd; {} "
                  "operations were not begun",
                  where, group.depth, group.operations.size()));
}

void check_one_thread(int device, std::string_view call) {
  const auto [begin, end] = waiting_calls.equal_range(device);
  if (std::any_of(begin, end, [](const auto& waiting) { return waiting.second != std::this_thread::get_id(); }))
    report_fault(
        fmt::format("{}: another thread has an open group with operations for GPU {}; one thread at a time may "
                    "call NCCL for a GPU",
                    call, device));
}

void check_not_queued_in_group(const Stream& stream, std::string_view call) {
  if (group.depth == 0) return;
  const auto queued = std::find_if(group.operations.begin(), group.operations.end(),
                                   [&](const NcclOperation& operation) { return operation.stream == &stream; });
  if (queued == group.operations.end()) return;
  report_fault(
      fmt::format("{} on {} in an open group: {}, which was called before, will begin after it, at "
                  "ncclGroupEnd",
                  call, stream.name, describe(*queued)));
}

bool is_queued_in_group(const ncclComm& communicator) {
  return std::any_of(group.operations.begin(), group.operations.end(),
                     [&](const NcclOperation& operation) { return operation.communicator == &communicator; });
}

}  // namespace tessera::test::cuda_double

using namespace tessera::test::cuda_double;

extern "C" {

ncclResult_t ncclGroupStart() {
  static_cast<void>(runtime());
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    report_fault("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  const auto ended = std::exchange(static_cast<Group&>(group), {});
  forget_waiting_calls();
  if (ended.failed) return ncclInvalidArgument;
  if (!ended.operations.empty() && !ended.creations.empty()) {
    report_fault("ncclGroupEnd: a group both creates communicators and moves data");
    return ncclInvalidUsage;
  }
  if (!ended.creations.empty()) return finish_creations(ended.creations);
  return ended.operations.empty() ? ncclSuccess : begin_all(ended.operations);
}

}  // extern "C"
