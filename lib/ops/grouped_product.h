// One product per group of rows (one group per expert), in two ways that are tested against each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "device/weight.h"

namespace tessera::ops {

enum class GroupedPath : std::uint8_t {
  per_group,   // one dense product per group: any size, any type; the reference
  grouped_mm,  // at::_grouped_mm: float32 or bfloat16, all strides multiples of 16 bytes
};

[[nodiscard]] std::string_view name(GroupedPath path);

// What decides between the paths. `inner` and `outer`: the weight is [groups, outer, inner].
struct GroupedShape {
  std::int64_t groups = 0;
  std::int64_t inner = 0;
  std::int64_t outer = 0;
};

// at::_grouped_mm accepts these.
[[nodiscard]] bool grouped_mm_allowed(at::ScalarType type, const GroupedShape& shape);

// The faster of the allowed paths.
[[nodiscard]] GroupedPath choose_grouped_path(at::ScalarType type, at::DeviceType device, const GroupedShape& shape);

// rows [n, inner] sorted by group, counts [groups] int64 on the CPU with sum n (zeros allowed), weight [groups, outer,
// inner]
// -> [n, outer]; differentiable as ops::linear is: the weight's gradient is added to its buffer group by group.
[[nodiscard]] at::Tensor grouped_linear(const at::Tensor& rows, const at::Tensor& counts, device::Weight& weight,
                                        GroupedPath path);

}  // namespace tessera::ops
