// Types that the CPU and GPU implementations of ops::chunked_cross_entropy share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tessera::ops {

// Tokens that have a target, ascending, and their labels.
struct Targets {
  std::vector<std::int64_t> tokens, labels;
};

enum class Want : std::uint8_t { loss, gradient };

struct Losses {
  at::Tensor sum;       // [] float64: cross entropies of the targets, summed
  at::Tensor d_hidden;  // like hidden; only with Want::gradient
};

}  // namespace tessera::ops
