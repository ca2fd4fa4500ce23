#include "architecture/blocks/dense_mlp.h"

#include <ATen/ops/add.h>

#include "model/kernel.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

void run_dense(const SegmentView& s, const Context& c) {
  const auto [residual, normed] = ops::add_rms_norm(s[ValueKind::hidden], s[ValueKind::attention_output],
                                                    s.weight(architecture::dense_mlp::norm), c.config.rms_norm_eps);
  const auto products =
      ops::linear(normed, {{&s.weight(architecture::dense_mlp::gate)}, {&s.weight(architecture::dense_mlp::up)}});
  const at::Tensor inner = ops::swiglu(products[0], products[1]);
  s.set_next(ValueKind::hidden, at::add(residual, ops::linear(inner, s.weight(architecture::dense_mlp::down))));
}

}  // namespace

std::span<const Kernel> dense_mlp_kernels() {
  namespace block = architecture::dense_mlp;
  static constexpr Kernel kernels[]{{block::segment, run_dense}};
  return kernels;
}

}  // namespace tessera::model
