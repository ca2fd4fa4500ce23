#include "train/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/agreement.h"

namespace tessera::train {
namespace {

using config::Backend;
using config::DeviceType;

constexpr const char* use_cpu = "--train.accelerator.device cpu";

std::int64_t count(const std::vector<std::int64_t>& list) { return static_cast<std::int64_t>(list.size()); }

const std::vector<std::int64_t>& of_rank(const std::vector<std::vector<std::int64_t>>& lists, std::int64_t rank) {
  return lists.at(static_cast<std::size_t>(rank));
}

// Of a host on which not every rank can have a GPU of its own.
std::string describe_shortage(const Host& host, const std::vector<std::vector<std::int64_t>>& identities) {
  std::set<std::int64_t> gpus;
  for (const auto rank : host.ranks) {
    const auto& seen = of_rank(identities, rank);
    if (seen.empty())
      return fmt::format("rank {} on {} sees no GPU; give each host GPUs, or use {}", rank, host.name, use_cpu);
    gpus.insert(seen.begin(), seen.end());
  }
  return fmt::format("{} ranks on {} see {} {} in all, and each needs its own; start at most {} there, or use {}",
                     host.ranks.size(), host.name, gpus.size(), gpus.size() == 1 ? "GPU" : "GPUs", gpus.size(),
                     use_cpu);
}

std::vector<std::vector<std::int64_t>> identities_of_ranks(comm::Communicator& world, const device::Gpus& found) {
  std::vector<std::vector<std::int64_t>> all;
  comm::GatherBlock block{.type = comm::ElementType::int64, .pieces = {}};
  for (const auto number : comm::numbers_of_ranks(world, count(found.identities))) all.emplace_back(number);
  all[static_cast<std::size_t>(world.rank())] = found.identities;
  for (auto& list : all) block.pieces.push_back({list.data(), 1, count(list), count(list)});
  world.gather_blocks({block}, nullptr)->wait();
  return all;
}

[[noreturn]] void refuse(const std::string& message) { throw comm::AgreedError(base::ExitCode::bad_input, message); }

DeviceChoice on_cpu(const config::TrainSettings& train, std::string reason, const std::string& way_out) {
  if (train.accelerator.backend == Backend::nccl)
    refuse(
        fmt::format("train.accelerator.backend = nccl moves memory of GPUs, and the device is the CPU, since {}; {}, "
                    "or use mpi",
                    reason, way_out));
  DeviceChoice choice;
  choice.reason = std::move(reason);
  return choice;
}

}  // namespace

GpuAssignment assign_gpus(const Hosts& hosts, const std::vector<std::vector<std::int64_t>>& identities) {
  GpuAssignment assignment;
  assignment.gpus.resize(identities.size());
  for (const auto& host : hosts.all) {
    std::set<std::int64_t> taken;
    for (const auto rank : host.ranks) {
      const auto& seen = of_rank(identities, rank);
      const auto free = std::find_if(seen.begin(), seen.end(), [&](auto gpu) { return !taken.contains(gpu); });
      if (free == seen.end()) return {{}, describe_shortage(host, identities)};
      taken.insert(*free);
      assignment.gpus[static_cast<std::size_t>(rank)] = free - seen.begin();
    }
  }
  return assignment;
}

bool wants_gpus(const config::TrainSettings& train) {
  return train.accelerator.device == DeviceType::cuda ||
         (train.accelerator.device == DeviceType::automatic && train.precision != config::Precision::float64);
}

DeviceChoice choose_device(const config::TrainSettings& train, const device::Gpus& found, const Hosts& hosts,
                           comm::Communicator& world) {
  const auto asked = train.accelerator.device;
  if (asked == DeviceType::cpu) return {};
  if (!wants_gpus(train))
    return on_cpu(train, "train.precision = float64 is the CPU's reference mode", "choose another precision");
  if (asked == DeviceType::cuda)
    comm::agree_on(world, [&] {
      base::require(found.count > 0, "train.accelerator.device = cuda, but {}; {}, or use {}", found.missing,
                    found.way_out, use_cpu);
    });
  const auto identities = identities_of_ranks(world, found);
  if (std::all_of(identities.begin(), identities.end(), [](const auto& seen) { return seen.empty(); }))
    return on_cpu(train, found.missing, found.way_out);
  const auto assignment = assign_gpus(hosts, identities);
  if (asked == DeviceType::cuda && !assignment.problem.empty())
    refuse(fmt::format("train.accelerator.device = cuda, but {}", assignment.problem));
  if (!assignment.problem.empty()) return on_cpu(train, assignment.problem, "let each rank have a GPU");
  const auto backend = train.accelerator.backend == Backend::automatic ? Backend::nccl : train.accelerator.backend;
  return {device::Place::cuda, assignment.gpus[static_cast<std::size_t>(world.rank())], backend, {}};
}

DeviceChoice take_device(const config::TrainSettings& train, const Hosts& hosts, comm::Communicator& world) {
  const auto found = wants_gpus(train) ? device::find_gpus() : device::Gpus{};
  auto choice = choose_device(train, found, hosts, world);
  if (choice.place == device::Place::cuda) comm::agree_on(world, [&] { device::use_gpu(choice.gpu); });
  return choice;
}

config::Precision resolve_precision(config::Precision precision, device::Place place) {
  if (precision != config::Precision::automatic) return precision;
  return place == device::Place::cuda ? config::Precision::bfloat16 : config::Precision::float32;
}

device::Place planned_place(const config::TrainSettings& train) {
  const bool has_gpu =
      train.accelerator.device == DeviceType::cuda || (wants_gpus(train) && device::find_gpus().count > 0);
  return has_gpu ? device::Place::cuda : device::Place::cpu;
}

}  // namespace tessera::train
