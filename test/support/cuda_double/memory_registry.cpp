#include "support/cuda_double/memory_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tessera::test::cuda_double {

namespace {

constexpr std::size_t alignment = 256;  // CUDA C++ Programming Guide, "Device Memory Accesses": at least 256 bytes
constexpr std::size_t watched_bytes = 256;
constexpr int watched_byte = 0xA5;
constexpr int nan_byte = 0xFF;
constexpr std::size_t kept_bytes = std::size_t{64} << 20;

bool holds(const Allocation& allocation, const std::byte* address) {
  const auto* begin = allocation.storage.get();
  return begin <= address && address < begin + std::max(allocation.bytes, std::size_t{1});
}

}  // namespace

void FreeStorage::operator()(std::byte* storage) const { ::operator delete (storage, std::align_val_t{alignment}); }

std::string Allocation::name() const {
  return fmt::format("allocation {} ({} bytes of {} memory)", number, bytes,
                     kind == AllocationKind::device ? "device" : "pinned");
}

bool Allocation::overrun() const {
  const auto* end = storage.get() + bytes;
  return std::any_of(end, end + watched_bytes, [](std::byte b) { return b != std::byte{watched_byte}; });
}

std::byte* MemoryRegistry::allocate(AllocationKind kind, int device, std::size_t bytes) {
  if (kind == AllocationKind::device && bytes > device_bytes - std::min(device_bytes, bytes_in_use(device)))
    return nullptr;
  std::unique_ptr<std::byte[], FreeStorage> storage(
      static_cast<std::byte*>(::operator new (bytes + watched_bytes, std::align_val_t{alignment}, std::nothrow)));
  if (!storage) return nullptr;
  auto* begin = storage.get();
  std::memset(begin, nan_byte, bytes);
  std::memset(begin + bytes, watched_byte, watched_bytes);
  allocations_.emplace(begin, Allocation{++given_out_, kind, device, bytes, std::move(storage), {}});
  return begin;
}

std::optional<Allocation> MemoryRegistry::remove(const void* begin) {
  auto node = allocations_.extract(static_cast<const std::byte*>(begin));
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void MemoryRegistry::bury(Allocation allocation) {
  std::memset(allocation.storage.get(), nan_byte, allocation.bytes);
  freed_bytes_ += allocation.bytes;
  freed_.push_back(std::move(allocation));
  while (freed_bytes_ > kept_bytes) {
    freed_bytes_ -= freed_.front().bytes;
    freed_.pop_front();
  }
}

Allocation* MemoryRegistry::at(const std::byte* address) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  auto& allocation = std::prev(next)->second;
  return holds(allocation, address) ? &allocation : nullptr;
}

std::string MemoryRegistry::why_not(const ByteRange& range) {
  const auto* allocation = at(range.begin);
  if (allocation == nullptr) {
    const auto freed =
        std::find_if(freed_.rbegin(), freed_.rend(), [&](const Allocation& old) { return holds(old, range.begin); });
    if (freed != freed_.rend()) return fmt::format("{} has been freed", freed->name());
    return fmt::format("{} is neither device nor pinned memory", fmt::ptr(range.begin));
  }
  const auto beyond = range.end() - (allocation->storage.get() + allocation->bytes);
  if (beyond <= 0) return "";
  return fmt::format("its {} bytes from byte {} end {} bytes behind {}", range.end() - range.begin,
                     range.begin - allocation->storage.get(), beyond, allocation->name());
}

std::size_t MemoryRegistry::bytes_in_use(int device) const {
  std::size_t bytes = 0;
  for (const auto& [begin, allocation] : allocations_)
    if (allocation.kind == AllocationKind::device && allocation.device == device) bytes += allocation.bytes;
  return bytes;
}

}  // namespace tessera::test::cuda_double
