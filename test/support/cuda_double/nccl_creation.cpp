#include "support/cuda_double/nccl_creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_founding.h"
#include "support/cuda_double/runtime.h"

namespace tessera::test::cuda_double {

namespace {

Clock::time_point deadline() {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(stuck_after_s));
}

bool is_initialized(const ncclConfig_t& config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  return config.size == initial.size && config.magic == initial.magic && config.version == initial.version &&
         (config.blocking == 0 || config.blocking == 1 || config.blocking == NCCL_CONFIG_UNDEF_INT);
}

// False, and a fault: the configuration is none.
bool configure(ncclComm& communicator, const ncclConfig_t* config, std::string_view call) {
  if (config == nullptr) return true;
  if (!is_initialized(*config)) {
    report_fault(
        fmt::format("{}: the configuration does not begin as NCCL_CONFIG_INITIALIZER, or blocking is neither 0 "
                    "nor 1",
                    call));
    return false;
  }
  if (config->blocking != NCCL_CONFIG_UNDEF_INT) communicator.blocking = config->blocking == 1;
  return true;
}

void end_creation(ncclComm& communicator, const std::string& wrong) {
  if (!wrong.empty()) {
    if (!communicator.given_up) report_fault(fmt::format("creation of {}: {}", describe(communicator), wrong));
    communicator.error = ncclInvalidUsage;
  }
  communicator.created = true;
}

std::string join(ncclComm& communicator, const Joining& joining, int founding_process) {
  Bytes request;
  append(request, joining);
  mail().send(founding_process, {joining.key, joining.rank, founder, Channel::creation}, request);
  const auto reply =
      mail().receive({joining.key, founder, joining.rank, Channel::creation}, deadline(), communicator.given_up);
  if (!reply) return fmt::format("not all of its {} ranks came within {} s", joining.size, stuck_after_s.load());
  if (!value_at<bool>(*reply, 0)) {
    std::string wrong;
    for (std::size_t k = 1; k < reply->size(); ++k) wrong += static_cast<char>((*reply)[k]);
    return wrong;
  }
  communicator.processes.resize(static_cast<std::size_t>(joining.size));
  for (std::size_t at = 1; at < reply->size(); at += sizeof(Joining)) {
    const auto one = value_at<Joining>(*reply, at);
    communicator.processes[static_cast<std::size_t>(one.rank)] = one.process;
  }
  return "";
}

struct Splitting {
  std::int32_t color, key, process, rank;
};

// What each rank of the parent passes, by rank; empty if not all came.
std::vector<Splitting> exchange(const Splitting& own, std::uint64_t parent, const std::vector<int>& processes,
                                const std::atomic<bool>& given_up) {
  const auto size = static_cast<int>(processes.size());
  Bytes body;
  append(body, own);
  for (int k = 0; k < size; ++k)
    mail().send(processes[static_cast<std::size_t>(k)], {parent, own.rank, k, Channel::split}, body);
  std::vector<Splitting> all;
  const auto until = deadline();
  for (int k = 0; k < size; ++k) {
    const auto one = mail().receive({parent, k, own.rank, Channel::split}, until, given_up);
    if (!one) return {};
    all.push_back(value_at<Splitting>(*one, 0));
  }
  return all;
}

std::uint64_t key_of_part(std::uint64_t parent, std::uint64_t split, int color) {
  auto key = parent * 0x9E3779B97F4A7C15 + split * 0xC2B2AE3D27D4EB4F + static_cast<std::uint64_t>(color) + 1;
  key ^= key >> 29;
  return key * 0xBF58476D1CE4E5B9;
}

void become_part(ncclComm& part, std::vector<Splitting> all, const Splitting& own) {
  std::erase_if(all, [&](const Splitting& one) { return one.color != own.color; });
  std::sort(all.begin(), all.end(),
            [](const Splitting& a, const Splitting& b) { return std::tie(a.key, a.rank) < std::tie(b.key, b.rank); });
  part.size = static_cast<int>(all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    part.processes.push_back(all[k].process);
    if (all[k].rank == own.rank) part.rank = static_cast<int>(k);
  }
}

}  // namespace

ncclResult_t begin_joining(ncclComm_t* made, int size, const ncclUniqueId& unique_id, int rank,
                           const ncclConfig_t* config) {
  const auto founded = read_id(unique_id);
  if (made == nullptr || !founded || size < 1) {
    report_fault("ncclCommInitRankConfig: the id is not from ncclGetUniqueId, or there is nobody to join");
    return ncclInvalidArgument;
  }
  auto* communicator = make_communicator();
  communicator->key = founded->key;
  communicator->rank = rank;
  communicator->size = size;
  communicator->device = current_device();
  if (!configure(*communicator, config, "ncclCommInitRankConfig")) {
    communicator->life = ncclComm::Life::destroyed;
    return ncclInvalidArgument;
  }
  communicator->poll_once_more = !communicator->blocking;
  const Joining joining{founded->key, size, rank, mail().process(), communicator->device};
  communicator->creation = std::thread([communicator, joining, process = founded->process] {
    end_creation(*communicator, join(*communicator, joining, process));
  });
  *made = communicator;
  return ncclSuccess;
}

ncclResult_t begin_split(ncclComm& parent, int color, int key, ncclComm_t* to, ncclComm** made,
                         const ncclConfig_t* config) {
  if (to == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
    report_fault(fmt::format("ncclCommSplit: color {} is neither a number from 0 nor NCCL_SPLIT_NOCOLOR", color));
    return ncclInvalidArgument;
  }
  if (runtime().host().of(parent.last_actor) < parent.last_time)
    report_fault(fmt::format("ncclCommSplit: {} has operations that the host has not waited for", parent.name));
  auto* part = make_communicator();
  part->blocking = parent.blocking;
  *to = nullptr;
  part->device = parent.device;
  if (!configure(*part, config, "ncclCommSplit")) {
    part->life = ncclComm::Life::destroyed;
    return ncclInvalidArgument;
  }
  if (!parent.blocking) {
    parent.poll_once_more = true;
    parent.part = part;
    parent.part_goes_to = to;
  }
  part->key = key_of_part(parent.key, ++parent.splits, color);
  const Splitting own{color, key, mail().process(), parent.rank};
  part->creation = std::thread([part, own, from = parent.key, processes = parent.processes] {
    const auto all = exchange(own, from, processes, part->given_up);
    if (!all.empty()) become_part(*part, all, own);
    end_creation(*part, all.empty() ? "not all ranks of the communicator that is split came" : "");
  });
  *made = part;
  if (color == NCCL_SPLIT_NOCOLOR) part->life = ncclComm::Life::destroyed;
  return ncclSuccess;
}

ncclResult_t finish_creation(ncclComm& communicator) {
  if (!communicator.blocking) return ncclInProgress;
  communicator.creation.join();
  const std::lock_guard lock(runtime().mutex);
  if (communicator.error == ncclSuccess && communicator.life == ncclComm::Life::creating)
    communicator.life = ncclComm::Life::usable;
  return communicator.error;
}

}  // namespace tessera::test::cuda_double
