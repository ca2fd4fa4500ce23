// Detects a list of rows that has all of them in order, so that nothing need be moved.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe {

// Returns whether index [m] int64 is 0, 1, ..., n - 1. False for an index on a GPU, since reading it would make the
// host wait.
[[nodiscard]] inline bool is_identity(const at::Tensor& index, std::int64_t n) {
  if (!index.is_cpu() || index.numel() != n) return false;
  const auto* data = index.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i)
    if (data[i] != i) return false;
  return true;
}

}  // namespace tessera::moe
