#include "model/model.h"

#include <algorithm>
#include "architecture/blocks/head.h"

#include "base/error.h"
#include "device/tensor_device.h"
#include "model/context.h"
#include "model/kernel.h"
#include "model/segment_view.h"

namespace tessera::model {
namespace {

ops::GroupedPath path_of(const architecture::ModelConfig& c, const device::Numbers& numbers) {
  using ops::GroupedPath;
  const auto choose = [&](std::int64_t inner, std::int64_t outer) {
    return ops::choose_grouped_path(numbers.compute, device::tensor_device(numbers.place).type(),
                                    {c.num_experts, inner, outer});
  };
  const GroupedPath up = choose(c.hidden_size, c.moe_intermediate_size);
  return choose(c.moe_intermediate_size, c.hidden_size) == up ? up : GroupedPath::per_group;
}

Owners complete(Owners owners, const architecture::Architecture& architecture) {
  for (const auto& step : architecture.steps())
    if (!step.owned.empty() && !owners.contains(step.owned))
      owners.emplace(step.owned, OwnedBlocks{.bounds = {0, architecture.shape_of(step.owned).front()}});
  return owners;
}

std::vector<const moe::ExpertFunction*> with_built_in(std::vector<const moe::ExpertFunction*> functions) {
  functions.push_back(&moe::swiglu());
  return functions;
}

}  // namespace

Model::Model(const architecture::Architecture& architecture, device::Numbers numbers, double router_z_loss_coef,
             Owners owners, std::vector<const moe::ExpertFunction*> functions)
    : context_(std::make_unique<const Context>(Context{.config = architecture.config(),
                                                       .balance = architecture.balance(),
                                                       .numbers = numbers,
                                                       .router_z_loss_coef = router_z_loss_coef,
                                                       .owners = complete(std::move(owners), architecture),
                                                       .device = device::tensor_device(numbers.place),
                                                       .expert_path = path_of(architecture.config(), numbers),
                                                       .functions = with_built_in(std::move(functions))})) {
  for (const auto kernels :
       {embedding_kernels(), attention_kernels(), dense_mlp_kernels(), router_kernels(), experts_kernels()})
    for (const Kernel& kernel : kernels) kernels_.emplace(kernel.segment, &kernel);
  for (const auto& step : architecture.steps()) {
    base::expect(step.type == architecture::Step::Type::exchange || step.measures_loss || kernels_.contains(step.kind),
                 "the segment {} has no kernel", step.name());
    base::expect(step.body == nullptr || std::ranges::find(context_->functions, step.body->name,
                                                           &moe::ExpertFunction::name) != context_->functions.end(),
                 "the function {} of {} has no kernel", step.body == nullptr ? "" : step.body->name, step.name());
  }
}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;

const Owners& Model::owners() const { return context_->owners; }
ops::GroupedPath Model::expert_path() const { return context_->expert_path; }

void Model::run(const architecture::Step& step, Values& values, const Weights& weights) const {
  const auto kernel = kernels_.find(step.kind);
  base::expect(kernel != kernels_.end(), "{} has no kernel; run_head runs the head", step.name());
  kernel->second->run(SegmentView(step, values, weights), *context_);
}

HeadSums Model::run_head(const architecture::Step& step, Values& values, const Weights& weights,
                         const StepFacts& facts) const {
  base::expect(step.measures_loss, "{} is not the head", step.name());
  return model::run_head(SegmentView(step, values, weights), *context_, facts);
}

at::Tensor Model::logits(const architecture::Step& head, const Values& values, const Weights& weights) const {
  Values readable = values;
  return logits_of(SegmentView(head, readable, weights), *context_);
}

}  // namespace tessera::model
