// The norm of the gradient, whole and by group of parameters, from parts that ranks compute apart.
//
// A part is a number in float64: the sum of |g|^p, or for the infinity norm the largest |g|. Parts of shards,
// micro-batches of shards and ranks combine by the same rule (sum or maximum), so each element must be counted on
// exactly one rank: its primary holder.
//
// |g|^p leaves the range of float64 where p is large. For every p but 1, 2 and infinity the parts are sums of
// |g / scale|^p, where the scale is the largest |g| of the group on all ranks: the combined parts of infinity's norm.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_fwd.h"

namespace tessera::optim {

enum class Combination { sum, maximum };

// The rule for this norm. Precondition: norm_type > 0, perhaps infinity.
[[nodiscard]] Combination combination_of(double norm_type);

// Whether the parts of this norm are relative to a scale of each group.
[[nodiscard]] bool is_scaled(double norm_type);

// The part of one contiguous tensor (float32 or float64), of a norm that is not scaled. NaN if any element is NaN;
// infinite if one is infinite or |g|^p leaves the range of float64. Does not depend on the number of threads.
[[nodiscard]] double norm_part(const at::Tensor& gradient, double norm_type);

// The gradient of a shard of which this rank is the primary holder, and the group it counts in.
struct GroupedGradient {
  const at::Tensor* gradient = nullptr;
  std::size_t group = 0;
};

// All on the CPU or all on one GPU, for which the host waits. One part per group, zero for a group without gradient
// here: every rank returns the same number of parts. `scales`: one per group, the same on all ranks, for a norm that is
// scaled; none for the others. The part of a group whose scale is zero or not finite is that scale.
[[nodiscard]] std::vector<double> norm_parts(std::span<const GroupedGradient> gradients, std::size_t groups,
                                             double norm_type, std::span<const double> scales = {});

struct GradientNorms {
  double total = 0;
  std::vector<double> groups;  // in the order of the parts
};

// Norms from parts that are combined over all ranks, with the scales that these were computed with.
[[nodiscard]] GradientNorms finish_norms(std::span<const double> parts, double norm_type,
                                         std::span<const double> scales = {});

// What the gradient is multiplied with: min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it, so
// that runs compare with others'. max_norm 0: no clipping, 1. A norm that is not finite: NaN, which no optimizer step
// accepts. Precondition: max_norm >= 0 (validated settings), perhaps infinity.
[[nodiscard]] double clip_factor(double norm, double max_norm);

}  // namespace tessera::optim
