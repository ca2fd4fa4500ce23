// A family of models whose experts have another body than SwiGLU: out gelu(into x + into_bias) + out_bias. It stands in
// for what adding a body to the product takes: this description, and a kernel (unit/moe/gelu_function.cpp).
#pragma once

#include "architecture/expert_body.h"
#include "architecture/family.h"

namespace tessera::test {

[[nodiscard]] const architecture::ExpertBody& gelu_body();
[[nodiscard]] const architecture::Family& gelu_family();

}  // namespace tessera::test
