// How the kernels of this folder divide a row: a warp of `lanes` threads, which run in step, takes the row, and lane l
// takes vectors l, l + lanes, ... of it. Compiles for the GPU and the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "device/kernel_values.h"

namespace tessera::moe::cuda {

inline constexpr int lanes = 32;

enum class FloatType : std::uint8_t { float32, bfloat16 };

// Calls `body` with a value of the C++ type of `type`.
template <class Body>
void with_type(FloatType type, Body&& body) {
  if (type == FloatType::bfloat16) return body(device::Bfloat16());
  return body(float());
}

// Elements of T in 16 bytes, which is the most that a thread loads at once.
template <class T>
inline constexpr int vector_width = 16 / static_cast<int>(sizeof(T));

// Contiguous rows that begin at `data`.
struct Rows {
  const void* data;
  std::size_t element_bytes;
};

// Returns whether a row of `columns` elements divides into vectors of `width`, and all rows are aligned for them.
inline bool fit_vectors(std::int64_t columns, int width, std::initializer_list<Rows> all) {
  if (columns % width != 0) return false;
  for (const auto& rows : all)
    if (reinterpret_cast<std::uintptr_t>(rows.data) % (rows.element_bytes * static_cast<std::size_t>(width)) != 0)
      return false;
  return true;
}

template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
  T values[width];
};

template <int width, class T>
TESSERA_HOST_AND_GPU void load(const T* from, float (&to)[width]) {
  const auto vector = *reinterpret_cast<const Vector<T, width>*>(from);
  for (int i = 0; i < width; ++i) to[i] = device::widened(vector.values[i]);
}

template <int width, class T>
TESSERA_HOST_AND_GPU void store(const float (&from)[width], T* to) {
  Vector<T, width> vector;
  for (int i = 0; i < width; ++i) device::narrow(from[i], vector.values[i]);
  *reinterpret_cast<Vector<T, width>*>(to) = vector;
}

}  // namespace tessera::moe::cuda
