#include "device/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"

namespace tessera::device {

namespace {
constexpr int nan_byte = 0xff;
}

void BufferPool::Release::operator()(std::byte* memory) const { std::free(memory); }

BufferPool::Memory BufferPool::allocate(std::int64_t bytes) {
  constexpr std::size_t alignment = 64;
  const auto rounded = (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  base::require(memory != nullptr, "no memory for a buffer of {}; use a smaller model, more ranks, or fsdp_mode fsdp2",
                base::format_bytes(static_cast<std::uint64_t>(bytes)));
  return Memory(memory);
}

BufferPool::BufferPool(std::string purpose, const std::map<std::int64_t, std::int64_t>& counts, Poison poison)
    : purpose_(std::move(purpose)), mode_(poison) {
  std::int64_t largest = 0;
  for (const auto& [bytes, count] : counts) {
    for (std::int64_t k = 0; k < count; ++k) {
      memory_.push_back(allocate(bytes));
      free_[bytes].push_back(memory_.back().get());
      if (mode_ == Poison::fill_with_nan) std::memset(memory_.back().get(), nan_byte, static_cast<std::size_t>(bytes));
    }
    allocated_ += bytes * count;
    largest = std::max(largest, bytes);
  }
  if (mode_ != Poison::fill_with_nan || largest == 0) return;
  poison_page_ = allocate(largest);
  std::memset(poison_page_.get(), nan_byte, static_cast<std::size_t>(largest));
}

std::byte* BufferPool::take(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  auto& slots = free_[bytes];
  base::expect(!slots.empty(), "no free slot of {} bytes for {}", bytes, purpose_);
  auto* slot = slots.back();
  slots.pop_back();
  return slot;
}

void BufferPool::give_back(std::byte* slot, std::int64_t bytes) {
  if (bytes == 0) return;
  if (mode_ == Poison::fill_with_nan) std::memset(slot, nan_byte, static_cast<std::size_t>(bytes));
  free_[bytes].push_back(slot);
}

}  // namespace tessera::device
