// Chooses between two ways to multiply rows by the matrix of their group (one group per expert), which are tested
// against each other. grouped_rows.h has the products.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace tessera::ops {

enum class GroupedPath : std::uint8_t {
  per_group,   // one dense product per group: any size and type; the reference; the host must know the counts
  grouped_mm,  // at::_grouped_mm: float32 or bfloat16, all strides multiples of 16 bytes; on a GPU the counts may stay
               // there, and bfloat16 takes one kernel
};

[[nodiscard]] std::string_view name(GroupedPath path);

// The sizes that decide between the paths; the weight is [groups, outer, inner].
struct GroupedShape {
  std::int64_t groups = 0;
  std::int64_t inner = 0;
  std::int64_t outer = 0;
};

// Returns whether at::_grouped_mm accepts operands of this type and shape.
[[nodiscard]] bool grouped_mm_allowed(at::ScalarType type, const GroupedShape& shape);

// Returns the faster of the allowed paths.
[[nodiscard]] GroupedPath choose_grouped_path(at::ScalarType type, at::DeviceType device, const GroupedShape& shape);

}  // namespace tessera::ops
