// What the two ways of ops::chunked_cross_entropy, on the CPU and on a GPU, have in common.
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
  at::Tensor sum;       // [] float64: of the targets' cross entropies
  at::Tensor d_hidden;  // as hidden; with Want::gradient
};

}  // namespace tessera::ops
