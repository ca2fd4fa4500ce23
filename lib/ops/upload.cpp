#include "ops/upload.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/error.h"

namespace tessera::ops {
namespace {

at::Tensor pinned_or_not(at::IntArrayRef shape, const at::TensorOptions& options, at::Device device) {
  return at::empty(shape, options.device(at::kCPU).pinned_memory(device.is_cuda()));
}

}  // namespace

at::Tensor upload(const at::Tensor& host, at::Device device) {
  base::expect(host.is_cpu(), "upload takes what is on the host");
  if (device.is_cpu()) return host;
  // LibTorch keeps pinned memory until the copies that read it are done.
  const auto from = host.is_pinned() ? host : pinned_or_not(host.sizes(), host.options(), device).copy_(host);
  return from.to(device, /*non_blocking=*/true);
}

at::Tensor upload(std::span<const std::int64_t> numbers, at::Device device) {
  const auto host = pinned_or_not({std::ssize(numbers)}, at::TensorOptions(at::kLong), device);
  std::copy(numbers.begin(), numbers.end(), host.mutable_data_ptr<std::int64_t>());
  return upload(host, device);
}

}  // namespace tessera::ops
