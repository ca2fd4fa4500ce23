// A second function of experts, exact GELU: it stands in for what adding one takes.
#pragma once

#include "moe/expert_function.h"

namespace tessera::test {

[[nodiscard]] const moe::ExpertFunction& gelu();

}  // namespace tessera::test
