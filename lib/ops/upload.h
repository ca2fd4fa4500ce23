// Copies from the host to a device without making the host wait for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace tessera::ops {

// Returns `host`, a tensor on the CPU, on `device`: itself if that is the CPU. The copy to a GPU runs while the host
// goes on; of memory that is not pinned the host first makes a pinned copy.
[[nodiscard]] at::Tensor upload(const at::Tensor& host, at::Device device);

// Returns `numbers` on `device`, as [numbers.size()] int64.
[[nodiscard]] at::Tensor upload(std::span<const std::int64_t> numbers, at::Device device);

}  // namespace tessera::ops
