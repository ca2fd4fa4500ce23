// What the kernels of all segments share.
#pragma once

#include <algorithm>
#include <vector>

#include "architecture/architecture.h"
#include "architecture/expert_body.h"
#include "device/numbers.h"
#include "model/segment.h"
#include "moe/expert_function.h"
#include "ops/grouped_product.h"

namespace tessera::model {

struct Context {
  architecture::ModelConfig config;
  config::BalanceLoss balance{};
  device::Numbers numbers;
  double router_z_loss_coef = 0;
  Owners owners;
  at::Device device{at::kCPU};
  ops::GroupedPath expert_path{};

  std::vector<const moe::ExpertFunction*> functions;

  // Precondition: the model has a function of the body's name.
  [[nodiscard]] const moe::ExpertFunction& function_of(const architecture::ExpertBody& body) const {
    return **std::ranges::find(functions, body.name, &moe::ExpertFunction::name);
  }
  // The owners of the parameter that `step` names.
  [[nodiscard]] const OwnedBlocks& owners_of(const architecture::Step& step) const {
    return owners.find(step.owned)->second;
  }
};

}  // namespace tessera::model
