// Checks of what a step stores against the table of values (architecture/value.cpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <tuple>

#include "architecture/architecture.h"
#include "device/numbers.h"

namespace tessera::executor {

// The type of a run's tensors of `type`.
[[nodiscard]] at::ScalarType scalar_type(architecture::NumberType type, const device::Numbers& numbers);

// Sees the values of one step: a value's type, its memory, its number of dims, and their sizes. Dims of one symbol have
// one size within a micro-step, or within a layer of it where the symbol counts slots, rows, or ranks that share them.
class ValueChecks {
 public:
  // `config` must outlive the checks.
  ValueChecks(const architecture::ModelConfig& config, const device::Numbers& numbers)
      : config_(config), numbers_(numbers) {}

  // Throws a logic error that names the value, its row and what differs.
  void check(std::int32_t micro, architecture::ValueId id, const at::Tensor& value);

 private:
  const architecture::ModelConfig& config_;
  const device::Numbers numbers_;
  std::map<std::tuple<std::int32_t, std::int32_t, architecture::Dim>, std::int64_t> sizes_;  // by micro-step, layer
};

}  // namespace tessera::executor
