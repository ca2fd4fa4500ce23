// Chooses where a run computes: on the CPU, or each rank on a GPU of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/settings.h"
#include "device/gpu.h"
#include "device/place.h"
#include "train/hosts.h"

namespace tessera::train {

// Every rank has the same choice, except for `gpu`.
struct DeviceChoice {
  device::Place place = device::Place::cpu;
  std::int64_t gpu = 0;                            // with Place::cuda: the index among the GPUs that this process sees
  config::Backend backend = config::Backend::mpi;  // mpi or nccl; it carries collectives on memory of the place
  // Says why the place is the CPU, unless the settings ask for it: "this program was built without CUDA".
  std::string reason;
};

struct GpuAssignment {
  std::vector<std::int64_t> gpus;  // by rank: the index among the GPUs that the rank sees
  std::string problem;             // says why not every rank can have a GPU, and the way out; empty: every rank has one
};

// Gives each rank the first GPU that it sees and that no earlier rank of its host has. So the n-th rank of a host takes
// the n-th GPU if every rank sees all of them, and its own one if the launcher shows each rank a single GPU.
// `identities`: by rank, the identities that device::Gpus lists.
[[nodiscard]] GpuAssignment assign_gpus(const Hosts& hosts, const std::vector<std::vector<std::int64_t>>& identities);

// Returns whether the choice depends on the GPUs that there are. If not, nothing needs to look for them.
[[nodiscard]] bool wants_gpus(const config::TrainSettings& train);

// Chooses by the settings and by the GPUs that each rank has found. `auto` is CUDA if every rank can have a GPU; if
// only some ranks see one, the reason says so. Collective over `world`. Throws AgreedError(bad_input) if the settings
// ask for CUDA or NCCL and the ranks cannot have it.
[[nodiscard]] DeviceChoice choose_device(const config::TrainSettings& train, const device::Gpus& found,
                                         const Hosts& hosts, comm::Communicator& world);

// Chooses likewise among the GPUs of this machine. From then on this process uses the GPU that it was given
// (device::use_gpu).
[[nodiscard]] DeviceChoice take_device(const config::TrainSettings& train, const Hosts& hosts,
                                       comm::Communicator& world);

// Returns the precision that `auto` stands for at `place`: bfloat16 on a GPU, float32 on the CPU. Returns any other
// precision as it is. The settings that a run writes name the precision, so that a run that goes on at another place
// learns that it would compute otherwise.
[[nodiscard]] config::Precision resolve_precision(config::Precision precision, device::Place place);

// Returns the place that --dry-run plans for: CUDA if the settings ask for it, even without a GPU, or if `auto` finds a
// GPU on this machine.
[[nodiscard]] device::Place planned_place(const config::TrainSettings& train);

}  // namespace tessera::train
