// Fixed pools of a few buffers, for gathered parameters and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/memory.h"
#include "device/place.h"

namespace tessera::device {

// fill_with_nan: give_back() fills the buffer with one-bits, which are NaN in every floating type, so that a use after
// the free shows.
enum class Poison { off, fill_with_nan };

// Buffers of a few sizes, all allocated by the constructor and kept. Buffers on the GPU are filled in the order of
// Stream::compute(): before a buffer is given back, that stream must wait for the work of other streams on it. Not
// thread-safe.
class BufferPool {
 public:
  // `counts` maps the bytes of a buffer to the number of such buffers. `purpose` is for messages.
  BufferPool(std::string purpose, const std::map<std::int64_t, std::int64_t>& counts, Poison poison,
             Place place = Place::cpu);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a free buffer of exactly `bytes` with undefined content, or null for 0 bytes. Throws std::logic_error with
  // the purpose if none is free: the program then holds more buffers than its memory plan allows.
  [[nodiscard]] std::byte* take(std::int64_t bytes);
  void give_back(std::byte* buffer, std::int64_t bytes);

  // Returns memory of the size of the largest buffer that stays full of NaN, for tensors of freed units. Null unless
  // the mode is fill_with_nan.
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
