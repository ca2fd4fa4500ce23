#include "train/gpu_setup.h"

#include <ATen/Context.h>

#include <cstdlib>

#include "comm/nccl.h"
#include "comm/staged.h"

namespace tessera::train {

void set_numerics(const config::TrainSettings& train, device::Place place) {
  if (place == device::Place::cpu) return;
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  // Parts of a product over a long inner dim are summed in float32, whatever the type of its operands.
  context.setAllowBF16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  context.setAllowFP16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  // cuDNN's attention builds a plan, of about a second, for each new shape, and gave wrong results or NaN on some GPUs
  // (few key heads on B200, large batches on H100).
  context.setSDPUseCuDNN(false);
  if (!train.enable_full_determinism) return;
  // Of the two values that cuBLAS names for reproducible results, the one with more workspace (cuBLAS, "Results
  // reproducibility"); one that the user gives stays.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::string_view attention_kernel(at::ScalarType compute) {
  return compute == at::kBFloat16 ? "FlashAttention" : "memory-efficient attention";
}

std::shared_ptr<comm::Communicator> make_gpu_world(const DeviceChoice& choice, const config::TrainSettings& train,
                                                   comm::World& world) {
  if (choice.place == device::Place::cpu || world.size() == 1) return nullptr;
  if (choice.backend == config::Backend::mpi) return comm::staged_communicator(world.communicator());
  const auto order = train.enable_full_determinism ? comm::SumOrder::by_rank : comm::SumOrder::any;
  return comm::nccl_communicator(world, {.sum_order = order});
}

}  // namespace tessera::train
