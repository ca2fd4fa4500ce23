#include "comm/nccl/lanes.h"

#include <algorithm>
#include <exception>

#include "base/log.h"

namespace tessera::comm {

// If an exception ends this rank alone, its operations may never end: it does not wait for them.
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
  // Grows by a quarter at least, so that units of slightly different sizes do not make it grow one by one.
  staging_bytes_ = std::max(bytes, staging_bytes_ + staging_bytes_ / 4);
  staging_ = device::allocate(device::MemoryKind::cuda, staging_bytes_);
  return staging_.get();
}

void NcclLanes::set_label(std::string_view label) {
  label_ = label;
  watch_.set_label(label);
}

}  // namespace tessera::comm
