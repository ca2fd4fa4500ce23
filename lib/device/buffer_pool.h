// Small fixed pools of buffers for gathered parameters and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/memory.h"
#include "device/place.h"

namespace tessera::device {

// off; fill_with_nan: a slot that is given back is filled with bytes of ones, NaN in every floating type, so that a use
// after the free is seen.
enum class Poison { off, fill_with_nan };

// Slots of a few sizes, allocated at once and kept. Those on the GPU are filled in the order of Stream::compute(): what
// other streams still do with a slot must be waited for there before it is given back. Not thread-safe.
class BufferPool {
 public:
  // `counts`: bytes of a slot -> how many.
  BufferPool(std::string purpose, const std::map<std::int64_t, std::int64_t>& counts, Poison poison,
             Place place = Place::cpu);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A free slot of exactly `bytes`, its content undefined; null for 0 bytes. Throws std::logic_error naming the purpose
  // when none is free: the program holds more than its memory plan said.
  [[nodiscard]] std::byte* take(std::int64_t bytes);
  void give_back(std::byte* slot, std::int64_t bytes);

  // Memory of at least `bytes` full of NaN that stays so, for tensors of freed units. // only with fill_with_nan
  [[nodiscard]] std::byte* poison() const { return poison_page_.get(); }
  [[nodiscard]] std::int64_t allocated_bytes() const { return allocated_; }

 private:
  std::string purpose_;
  Poison mode_;
  Place place_;
  std::vector<Memory> memory_;
  std::map<std::int64_t, std::vector<std::byte*>> free_;
  Memory poison_page_;
  std::int64_t allocated_ = 0;
};

}  // namespace tessera::device
