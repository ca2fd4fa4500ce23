#include "executor/value_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "device/tensor_device.h"

namespace tessera::executor {

using architecture::Dim;
using architecture::Memory;

namespace {

// The symbol's size may differ from layer to layer.
bool is_of_layer(Dim dim) {
  switch (dim) {
    case Dim::slots:
    case Dim::received_slots:
    case Dim::rows:
    case Dim::received_rows:
    case Dim::owners:
    case Dim::sources:
    case Dim::own_experts: return true;
    default: return false;
  }
}

}  // namespace

at::ScalarType scalar_type(architecture::NumberType type, const device::Numbers& numbers) {
  switch (type) {
    case architecture::NumberType::compute: return numbers.compute;
    case architecture::NumberType::wide: return numbers.wide;
    case architecture::NumberType::index: return at::kLong;
  }
  base::expect(false, "number type {}", static_cast<int>(type));
  return {};
}

void ValueChecks::check(std::int32_t micro, architecture::ValueId id, const at::Tensor& value) {
  const auto& traits = architecture::traits_of(id.kind);
  const auto is = [&] {
    return fmt::format("{} of micro-step {} is [{}] {} on {}; the table of values has {}", architecture::name(id),
                       micro, fmt::join(value.sizes(), ", "), c10::toString(value.scalar_type()), value.device().str(),
                       architecture::describe(id.kind));
  };
  if (value.scalar_type() != scalar_type(traits.type, numbers_)) base::expect(false, "{}: another type", is());
  if (traits.memory == Memory::host && !value.is_cpu()) base::expect(false, "{}: not in the host's memory", is());
  if (traits.memory == Memory::run && value.device().type() != device::tensor_device(numbers_.place).type())
    base::expect(false, "{}: not where the run computes", is());
  if (value.dim() != static_cast<std::int64_t>(traits.dims.size())) base::expect(false, "{}: other dims", is());
  std::int64_t at = 0;
  for (const Dim dim : traits.dims) {
    const auto size = value.size(at++);
    const auto fixed = architecture::size_of(dim, config_);
    const auto [known, is_new] =
        sizes_.try_emplace({micro, is_of_layer(dim) ? id.layer : -1, dim}, fixed.value_or(size));
    if (known->second != size)
      base::expect(false, "{}: {} are {} in other values", is(), architecture::name(dim), known->second);
  }
}

}  // namespace tessera::executor
