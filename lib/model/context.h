// What the kernels of all segments share.
#pragma once

#include "model/model.h"

namespace tessera::model {

struct Context {
  architecture::ModelConfig config;
  config::BalanceLoss balance{};
  device::Numbers numbers;
  double router_z_loss_coef = 0;
  Owners owners;
  at::Device device{at::kCPU};
  ops::GroupedPath expert_path{};

  // The owners of the parameter that `step` names.
  [[nodiscard]] const OwnedBlocks& owners_of(const architecture::Step& step) const {
    return owners.find(step.owned)->second;
  }
};

}  // namespace tessera::model
