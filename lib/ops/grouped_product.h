// The two ways of one product per group of rows (one group per expert), which are tested against each other. The
// products themselves are in grouped_rows.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace tessera::ops {

enum class GroupedPath : std::uint8_t {
  per_group,   // one dense product per group: any size, any type; the reference. The host must know the counts
  grouped_mm,  // at::_grouped_mm: float32 or bfloat16, all strides multiples of 16 bytes; on a GPU one kernel, and the
               // counts may stay there
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

}  // namespace tessera::ops
