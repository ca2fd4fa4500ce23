#include "comm/nccl/lanes.h"

#include <algorithm>
#include <exception>

#include "base/log.h"

namespace tessera::comm {

// What is under way may never end where an exception ends this rank alone.
Lane::~Lane() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    stream_.synchronize();
  } catch (const std::exception& error) {
    base::log_warning("{}", error.what());
  }
}

std::byte* Lane::staging(std::int64_t bytes) {
  if (bytes <= staging_bytes_) return staging_.get();
  stream_.synchronize();
  staging_.reset();
  // A quarter more: units of almost one size do not make it grow one after the other.
  staging_bytes_ = std::max(bytes, staging_bytes_ + staging_bytes_ / 4);
  staging_ = device::allocate(device::MemoryKind::cuda, staging_bytes_);
  return staging_.get();
}

void NcclLanes::set_label(std::string_view label) {
  label_ = label;
  watch_.set_label(label);
}

}  // namespace tessera::comm
