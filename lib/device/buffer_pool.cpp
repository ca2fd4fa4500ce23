#include "device/buffer_pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::device {

namespace {
constexpr int nan_byte = 0xff;
}

BufferPool::BufferPool(std::string purpose, const std::map<std::int64_t, std::int64_t>& counts, Poison poison,
                       Place place)
    : purpose_(std::move(purpose)), mode_(poison), place_(place) {
  std::int64_t largest = 0;
  for (const auto& [bytes, count] : counts) {
    for (std::int64_t k = 0; k < count; ++k) {
      memory_.push_back(allocate(memory_of(place), bytes));
      free_[bytes].push_back(memory_.back().get());
      if (mode_ == Poison::fill_with_nan) fill(place, memory_.back().get(), nan_byte, bytes);
    }
    allocated_ += bytes * count;
    largest = std::max(largest, bytes);
  }
  if (mode_ != Poison::fill_with_nan || largest == 0) return;
  poison_page_ = allocate(memory_of(place), largest);
  fill(place, poison_page_.get(), nan_byte, largest);
}

std::byte* BufferPool::take(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  auto& buffers = free_[bytes];
  base::expect(!buffers.empty(), "no free buffer of {} bytes for {}", bytes, purpose_);
  auto* buffer = buffers.back();
  buffers.pop_back();
  return buffer;
}

void BufferPool::give_back(std::byte* buffer, std::int64_t bytes) {
  if (bytes == 0) return;
  if (mode_ == Poison::fill_with_nan) fill(place_, buffer, nan_byte, bytes);
  free_[bytes].push_back(buffer);
}

}  // namespace tessera::device
