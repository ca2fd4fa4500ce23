// The chunks of ops::chunked_cross_entropy on a GPU, by LibTorch's kernels. The host does not wait.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"
#include "ops/target_losses.h"

namespace tessera::ops::gpu {

// hidden [tokens, H], head [V, H]. With Want::gradient it also forms d_hidden and adds the head's gradient to its
// buffer, both times `scale`.
[[nodiscard]] Losses cross_entropy(const at::Tensor& hidden, const Targets& targets, const device::Weight& head,
                                   double scale, std::int64_t chunk_tokens, Want want);

}  // namespace tessera::ops::gpu
