// The objects that an executor runs programs with; the parts of a run share them.
#pragma once

#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "executor/executor_options.h"
#include "executor/timeline.h"
#include "fsdp/parameter_store.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "optim/optimizer.h"

namespace tessera::executor {

struct Parts {
  const architecture::Architecture& architecture;
  const model::Model& model;
  fsdp::ParameterStore& store;
  optim::Optimizer* optimizer;  // may be null where only evaluation programs run
  const mesh::Mesh& mesh;
  ExecutorOptions options;
  std::vector<model::Weights> weights;  // by step of the architecture
  std::vector<std::string> norm_groups;
  std::vector<architecture::ValueId> counts;  // of all steps, in their order
  Timeline timeline;

  [[nodiscard]] const architecture::Step& step(std::int32_t index) const {
    return architecture.steps()[static_cast<std::size_t>(index)];
  }
  // Returns the communicator of all ranks for memory of the host.
  [[nodiscard]] comm::Communicator& world() const { return *mesh.host(layout::GroupId::world()); }
  // Returns the communicator of `group` for the memory that `tensor` is in.
  [[nodiscard]] comm::Communicator& group_for(const layout::GroupId& group, const at::Tensor& tensor) const {
    return tensor.is_cpu() ? *mesh.host(group) : *mesh.communicator(group);
  }
  [[nodiscard]] bool is_on_gpu() const { return options.numbers.place == device::Place::cuda; }
};

}  // namespace tessera::executor
