// The choice of experts on a GPU, by LibTorch's kernels; the host does not wait.
#pragma once

#include "moe/router.h"

namespace tessera::moe::gpu {

// As moe::choose_top_k: the same slots, in the same order.
[[nodiscard]] Slots choose_top_k(const at::Tensor& probability, std::int64_t k);

}  // namespace tessera::moe::gpu
