// Where a run computes: on the CPU, or each rank on a GPU of its own.
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

// The same on every rank but for `gpu`.
struct DeviceChoice {
  device::Place place = device::Place::cpu;
  std::int64_t gpu = 0;                            // with Place::cuda: which of those that this process sees
  config::Backend backend = config::Backend::mpi;  // mpi or nccl: what carries collectives on memory of the device
  std::string reason;  // why it is the CPU, where the settings do not say so: "this program was built without CUDA"
};

struct GpuAssignment {
  std::vector<std::int64_t> gpus;  // of each rank, among those that it sees
  std::string problem;             // why not every rank can have one, and the way out; empty: every rank has one
};

// To each rank the first GPU that it sees and that no rank of its host before it has: the n-th rank of a host takes the
// n-th GPU where all see all, and its own where a launcher shows each rank but one. `identities` are device::Gpus' of
// each rank.
[[nodiscard]] GpuAssignment assign_gpus(const Hosts& hosts, const std::vector<std::vector<std::int64_t>>& identities);

// Whether the settings leave a choice that depends on which GPUs there are: else none need be looked for.
[[nodiscard]] bool wants_gpus(const config::TrainSettings& train);

// Collective over `world`: what the settings make of the GPUs that each rank has found. `auto` is CUDA if every rank
// can have a GPU; if some see one, but not each can have one, the reason says so. AgreedError(bad_input) if the
// settings ask for CUDA, or for NCCL, and that cannot be.
[[nodiscard]] DeviceChoice choose_device(const config::TrainSettings& train, const device::Gpus& found,
                                         const Hosts& hosts, comm::Communicator& world);

// The same with the GPUs of this machine; this process computes on its own from then on (device::use_gpu).
[[nodiscard]] DeviceChoice take_device(const config::TrainSettings& train, const Hosts& hosts,
                                       comm::Communicator& world);

// `auto` as what it is at `place`: bfloat16 on a GPU, float32 on the CPU. So that what a run writes says which it was,
// and a run that goes on elsewhere learns that it would compute otherwise.
[[nodiscard]] config::Precision resolve_precision(config::Precision precision, device::Place place);

// What --dry-run plans for: CUDA if it is asked for, be there a GPU or not, or if `auto` finds one here.
[[nodiscard]] device::Place planned_place(const config::TrainSettings& train);

}  // namespace tessera::train
