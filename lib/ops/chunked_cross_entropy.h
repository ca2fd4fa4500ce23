// Head product and cross entropy in chunks of tokens: the logits of all tokens never exist together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/weight.h"

namespace tessera::ops {

struct CrossEntropy {
  at::Tensor loss;  // [] in the wide type: scale * sum
  at::Tensor sum;   // [] float64: of the valid tokens' cross entropies
};

// hidden [tokens, H], labels [tokens] int64 on the CPU, within the vocabulary or -100 (no target), head [V, H]. Softmax
// and loss in the wide type.
//
// Under autograd the gradient is formed in the same pass: that of the head is added to its buffer at once (times
// `scale`), that of hidden is kept until backward. So `loss` must be part of what backward is called on, with weight 1:
// any other incoming gradient is refused. Without autograd only the loss is formed.
[[nodiscard]] CrossEntropy chunked_cross_entropy(const at::Tensor& hidden, const at::Tensor& labels,
                                                 device::Weight& head, double scale, std::int64_t chunk_tokens = 512);

}  // namespace tessera::ops
