// Head product and cross entropy in chunks of tokens: the logits of all tokens never exist together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/weight.h"

namespace tessera::ops {

struct CrossEntropy {
  at::Tensor loss;  // [] in the wide type: scale * sum
  at::Tensor sum;   // [] float64: cross entropies of the tokens that have a target, summed
};

// Sums the cross entropies of the tokens that have a target. hidden [tokens, H]; labels [tokens] int64 on the CPU,
// within the vocabulary or -100 (no target); head [V, H]. Forms softmax and loss in the wide type.
//
// Under autograd it forms the gradient in the same pass: it adds the head's gradient (times `scale`) to its buffer at
// once and keeps that of hidden until backward. So `loss` must enter with weight 1 into the value on which backward is
// called; on the CPU backward refuses any other incoming gradient. Without autograd it forms the loss only.
[[nodiscard]] CrossEntropy chunked_cross_entropy(const at::Tensor& hidden, const at::Tensor& labels,
                                                 device::Weight& head, double scale, std::int64_t chunk_tokens = 512);

}  // namespace tessera::ops
