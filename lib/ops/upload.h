// Numbers of the host as a tensor elsewhere, without the host waiting for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace tessera::ops {

// A tensor on the CPU, to `device`: itself if that is the CPU. From pinned memory the copy runs while the host goes on;
// so it does from other memory, but for the time of copying it once more.
[[nodiscard]] at::Tensor upload(const at::Tensor& host, at::Device device);

// [numbers.size()] int64.
[[nodiscard]] at::Tensor upload(std::span<const std::int64_t> numbers, at::Device device);

}  // namespace tessera::ops
