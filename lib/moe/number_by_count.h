// Numbers the members of groups that lie side by side.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/repeat_interleave.h>

#include <cstdint>
#include <optional>

namespace tessera::moe {

// Returns counts[0] zeros, counts[1] ones, ...: `total` numbers, which the host knows without asking the GPU.
[[nodiscard]] inline at::Tensor number_by_count(const at::Tensor& counts, std::int64_t total) {
  return at::repeat_interleave(counts, std::optional<std::int64_t>(total));
}

}  // namespace tessera::moe
