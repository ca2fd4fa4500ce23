// The double's memory: a range of addresses that fault, and a second one, a fixed distance away, that holds the bytes.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace tessera::test::torch_double {

// Allocates from one range by first fit. Thread-safe.
class Arena {
 public:
  enum class Access { faults, host };
  // Reserves addresses only; pages are taken when first touched.
  Arena(std::size_t capacity, Access access);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] void* allocate(std::size_t bytes);  // throws std::bad_alloc
  void free(void* memory);
  [[nodiscard]] bool contains(const void* pointer) const;
  [[nodiscard]] void* alias_of(const void* pointer) const;  // precondition: contains(pointer)

  struct Span {
    const std::byte* start = nullptr;  // null: `pointer` is in no allocation
    std::size_t bytes = 0;
  };
  [[nodiscard]] Span allocation_of(const void* pointer) const;
  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t most_used() const;

 private:
  // An allocation and the guard behind it, which must not be written.
  struct Block {
    std::size_t bytes, reserved;
  };
  void check_guard(std::size_t offset, const Block& block) const;

  std::byte *base_ = nullptr, *alias_ = nullptr;
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Block> blocks_;      // by offset
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, neighbours merged
  std::size_t used_ = 0, most_used_ = 0;
};

// The memory of pin_memory(): host memory that is known as pinned.
[[nodiscard]] Arena& pinned_arena();

}  // namespace tessera::test::torch_double
