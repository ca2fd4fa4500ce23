#include "ops/rotary_gpu.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

namespace tessera::ops::gpu {

at::Tensor turn(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, int direction) {
  const auto half = heads.size(2) / 2;
  const auto wide = heads.to(cosine.scalar_type());
  const auto first = wide.narrow(2, 0, half), second = wide.narrow(2, half, half);
  const auto c = cosine.unsqueeze(1);
  const auto s = direction > 0 ? sine.unsqueeze(1) : sine.unsqueeze(1).neg();
  return at::cat({at::mul(first, c).sub_(at::mul(second, s)), at::mul(second, c).add_(at::mul(first, s))}, 2)
      .to(heads.scalar_type());
}

}  // namespace tessera::ops::gpu
