// Initial values of parameters, element by element: whoever makes whichever part of a parameter gets the same bits.
#pragma once

#include <cstdint>

#include "architecture/block.h"
#include "base/parameter_spec.h"
#include "base/tensor_fwd.h"
#include "layout/block.h"

namespace tessera::model {

// Writes `box` of the parameter into `out`: contiguous, on the CPU, of the box's shape, float32 or float64 (float32 is
// the float64 value rounded). A value depends on (seed, FQN, index of the element in the whole parameter) alone, and is
// made by IEEE operations that every machine rounds alike.
//
// `deviation` is that of Initial::normal (initializer_range). The distributions are HuggingFace's
// (Qwen3MoePreTrainedModel._init_weights). Precondition: `box` lies in the parameter.
void fill_initial_values(const base::ParameterSpec& parameter, const layout::Box& box, architecture::Initial initial,
                         double deviation, std::uint64_t seed, const at::Tensor& out);

}  // namespace tessera::model
