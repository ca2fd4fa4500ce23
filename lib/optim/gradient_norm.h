// The norm of the gradient, in total and by group of parameters, from parts that the ranks compute separately.
//
// A part is a float64 number: the sum of |g|^p, or for the infinity norm the largest |g|. Parts of shards and of ranks
// combine by the same rule (sum or maximum), so exactly one rank must count each element: its primary holder.
//
// For large p, |g|^p leaves the range of float64. For every p but 1, 2 and infinity the parts are therefore sums of
// |g / scale|^p, where `scale` is the largest |g| of the group on all ranks: the combined parts of its infinity norm.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_fwd.h"

namespace tessera::optim {

enum class Combination { sum, maximum };

// Returns the rule that combines parts of this norm. Precondition: norm_type > 0; it may be infinity.
[[nodiscard]] Combination combination_of(double norm_type);

// Returns whether the parts of this norm are relative to a scale of each group.
[[nodiscard]] bool is_scaled(double norm_type);

// Returns the part of one contiguous tensor (float32 or float64). NaN if any element is NaN; infinite if one is
// infinite or |g|^p leaves the range of float64. The bits do not depend on the number of threads. Precondition: the
// norm is not scaled.
[[nodiscard]] double norm_part(const at::Tensor& gradient, double norm_type);

// The gradient of a shard whose primary holder is this rank, and the index of its norm group.
struct GroupedGradient {
  const at::Tensor* gradient = nullptr;
  std::size_t group = 0;
};

// Returns one part per group, zero for a group without a gradient here, so that every rank returns the same number of
// parts. A scaled norm needs one scale per group, the same on all ranks; other norms have none. The part of a group
// whose scale is zero or not finite is that scale. Blocks the host until the GPU has computed the parts. Precondition:
// all gradients are on the CPU, or all on one GPU.
[[nodiscard]] std::vector<double> norm_parts(std::span<const GroupedGradient> gradients, std::size_t groups,
                                             double norm_type, std::span<const double> scales = {});

struct GradientNorms {
  double total = 0;
  std::vector<double> groups;  // in the order of the parts
};

// Computes the norms from parts that were combined over all ranks, and the scales that these were computed with.
[[nodiscard]] GradientNorms finish_norms(std::span<const double> parts, double norm_type,
                                         std::span<const double> scales = {});

// Returns the factor by which clipping multiplies the gradient: min(1, max_norm / (norm + 1e-6)), the formula of
// torch.nn.utils.clip_grad_norm_, so that runs can be compared. Returns 1 if max_norm is 0 (no clipping), and NaN,
// which no optimizer step accepts, if the norm is not finite. Precondition: max_norm >= 0 (validated settings); it may
// be infinity.
[[nodiscard]] double clip_factor(double norm, double max_norm);

}  // namespace tessera::optim
