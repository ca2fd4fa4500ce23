#include "ops/grouped_product.h"

#include <c10/core/ScalarType.h>

namespace tessera::ops {

std::string_view name(GroupedPath path) { return path == GroupedPath::per_group ? "per-group products" : "grouped_mm"; }

bool grouped_mm_allowed(at::ScalarType type, const GroupedShape& shape) {
  if (type != at::kFloat && type != at::kBFloat16) return false;
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(type));
  return shape.groups > 0 && shape.inner > 0 && shape.outer > 0 && shape.inner * bytes % 16 == 0 &&
         shape.outer * bytes % 16 == 0;
}

GroupedPath choose_grouped_path(at::ScalarType type, at::DeviceType device, const GroupedShape& shape) {
  // On the CPU at::_grouped_mm is itself a loop over groups, which cannot keep an expert's rows in cache. 16 experts of
  // 192 x 256, 16384 slots, one core (Zen 4, sgemm 102 GFLOP/s), forward + backward of run_experts: float32 186 ms per
  // group, 218 ms grouped_mm; bfloat16 199 ms and 187 ms, but that needs bfloat16 instructions: without them its
  // products are 40 times slower.
  // On a GPU its kernel is for bfloat16 (for other types it is a loop for which the host waits).
  if (device == at::kCPU || type != at::kBFloat16 || !grouped_mm_allowed(type, shape)) return GroupedPath::per_group;
  return GroupedPath::grouped_mm;
}

}  // namespace tessera::ops
