#include "base/disk_work.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace tessera::base {
namespace {

// One list for the whole process: the threads that work on disks and the thread that reports it to other ranks share
// no object.
struct AllWork {
  std::mutex mutex;
  std::vector<const DiskWork*> under_way;  // guarded by mutex
  std::uint64_t signs = 0;                 // guarded by mutex
};

AllWork& all_work() {
  static AllWork all;
  return all;
}

}  // namespace

DiskWork::DiskWork(const char* operation, const std::string& file) : operation_(operation), file_(file) {
  auto& all = all_work();
  const std::lock_guard lock(all.mutex);
  last_sign_ = ++all.signs;
  all.under_way.push_back(this);
}

DiskWork::~DiskWork() {
  auto& all = all_work();
  const std::lock_guard lock(all.mutex);
  ++all.signs;
  std::erase(all.under_way, this);
}

void DiskWork::has_gone_on() {
  auto& all = all_work();
  const std::lock_guard lock(all.mutex);
  last_sign_ = ++all.signs;
}

DiskSigns disk_signs() {
  auto& all = all_work();
  const std::lock_guard lock(all.mutex);
  return {all.signs, !all.under_way.empty()};
}

std::string describe_disk_work() {
  auto& all = all_work();
  const std::lock_guard lock(all.mutex);
  const auto stalest = std::min_element(all.under_way.begin(), all.under_way.end(),
                                        [](const auto* a, const auto* b) { return a->last_sign_ < b->last_sign_; });
  if (stalest == all.under_way.end()) return {};
  return std::string((*stalest)->operation_) + " of " + (*stalest)->file_;
}

}  // namespace tessera::base
