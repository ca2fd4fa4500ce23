#include "support/torch_double/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "support/torch_double/host_faults.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

constexpr std::size_t alignment = 512;
constexpr std::size_t guard = 512;
constexpr int nan_byte = 0xff;

std::byte* reserve(std::size_t bytes, int protection) {
  auto* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

Arena::Arena(std::size_t capacity, Access access) : capacity_(capacity) {
  alias_ = reserve(capacity, PROT_READ | PROT_WRITE);
  base_ = access == Access::faults ? reserve(capacity, PROT_NONE) : alias_;
  free_[0] = capacity;
}

void* Arena::allocate(std::size_t bytes) {
  const auto reserved = (bytes + alignment - 1) / alignment * alignment + guard;
  std::size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    auto hole = free_.begin();
    while (hole != free_.end() && hole->second < reserved) ++hole;
    if (hole == free_.end() || reserved < bytes) throw std::bad_alloc();
    offset = hole->first;
    const auto left = hole->second - reserved;
    free_.erase(hole);
    if (left > 0) free_[offset + reserved] = left;
    blocks_[offset] = {bytes, reserved};
    used_ += bytes;
    most_used_ = std::max(most_used_, used_);
  }
  std::memset(alias_ + offset, nan_byte, reserved);
  return base_ + offset;
}

void Arena::check_guard(std::size_t offset, const Block& block) const {
  for (auto i = block.bytes; i < block.reserved; ++i) {
    if (alias_[offset + i] == std::byte{nan_byte}) continue;
    std::fprintf(stderr, "torch double: byte %zu behind an allocation of %zu bytes was written\n", i - block.bytes,
                 block.bytes);
    std::abort();
  }
}

void Arena::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - base_);
  const auto found = contains(memory) ? blocks_.find(offset) : blocks_.end();
  if (found == blocks_.end()) {
    std::fprintf(stderr, "torch double: %p is freed, but no allocation starts there\n", memory);
    std::abort();
  }
  const auto block = found->second;
  check_guard(offset, block);
  std::memset(alias_ + offset, nan_byte, block.reserved);
  blocks_.erase(found);
  used_ -= block.bytes;
  auto hole = free_.emplace(offset, block.reserved).first;
  if (const auto next = std::next(hole); next != free_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole == free_.begin()) return;
  const auto previous = std::prev(hole);
  if (previous->first + previous->second != hole->first) return;
  previous->second += hole->second;
  free_.erase(hole);
}

bool Arena::contains(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer), base = reinterpret_cast<std::uintptr_t>(base_);
  return address >= base && address < base + capacity_;
}

void* Arena::alias_of(const void* pointer) const { return alias_ + (static_cast<const std::byte*>(pointer) - base_); }

Arena::Span Arena::allocation_of(const void* pointer) const {
  if (!contains(pointer)) return {};
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_);
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(offset);
  if (found == blocks_.begin()) return {};
  --found;
  if (offset > found->first + found->second.bytes) return {};
  return {base_ + found->first, found->second.bytes};
}

std::size_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::size_t Arena::most_used() const {
  const std::lock_guard lock(mutex_);
  return most_used_;
}

// Never destroyed: tensors may outlive main.
Arena& pinned_arena() {
  static auto* arena = new Arena(std::size_t{16} << 30, Arena::Access::host);
  return *arena;
}

}  // namespace tessera::test::torch_double
