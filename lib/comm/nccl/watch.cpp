#include "comm/nccl/watch.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/quantity.h"
#include "device/cuda/check.h"

namespace tessera::comm {

namespace {

int gpu_in_use() {
  int gpu = 0;
  device::check_cuda(cudaGetDevice(&gpu), "cudaGetDevice");
  return gpu;
}

}  // namespace

NcclWatch::NcclWatch(World& world) : world_(world), gpu_(gpu_in_use()), thread_([this] { run(); }) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void NcclWatch::add(Clique& clique) {
  const std::lock_guard lock(mutex_);
  cliques_.push_back(&clique);
}

void NcclWatch::remove(const Clique& clique) {
  const std::lock_guard lock(mutex_);
  std::erase(cliques_, &clique);
}

void NcclWatch::add(std::string description, device::Event started, device::Event ended) {
  const std::lock_guard lock(mutex_);
  operations_.push_back({std::move(description), std::move(started), std::move(ended)});
}

void NcclWatch::set_label(std::string_view label) {
  const std::lock_guard lock(mutex_);
  label_ = label;
}

void NcclWatch::run() {
  constexpr auto interval = std::chrono::milliseconds(100);
  std::string reason;
  try {
    device::check_cuda(cudaSetDevice(gpu_), "cudaSetDevice");
    std::unique_lock lock(mutex_);
    while (!is_ending_ && reason.empty()) {
      changed_.wait_for(lock, interval);
      reason = look();
    }
    if (is_ending_) return;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  end(reason);
}

std::string NcclWatch::look() {
  auto reason = look_at_cliques();
  return reason.empty() ? look_at_operations() : reason;
}

std::string NcclWatch::look_at_cliques() {
  const std::unique_lock calls(call_lock_, std::try_to_lock);
  if (!calls.owns_lock()) return "";
  for (const auto* clique : cliques_) {
    const auto state = clique->state();
    if (state == ncclSuccess || state == ncclInProgress) continue;
    std::string under_way = operations_.empty() ? "none is known" : "";
    for (const auto& operation : operations_)
      if (operation.seen_at >= 0) under_way += (under_way.empty() ? "" : "; ") + operation.description;
    return fmt::format("{}{}NCCL failed: {} ({}). Operations under way: {}", label_, label_.empty() ? "" : ": ",
                       ncclGetErrorString(state), ncclGetLastError(nullptr),
                       under_way.empty() ? "none has started" : under_way);
  }
  return "";
}

std::string NcclWatch::look_at_operations() {
  std::erase_if(operations_, [](const Watched& operation) { return operation.ended.has_passed(); });
  const auto now = running_time_.seconds();
  const Watched* oldest = nullptr;
  for (auto& operation : operations_) {
    if (operation.seen_at < 0 && operation.started.has_passed()) operation.seen_at = now;
    if (operation.seen_at >= 0 && (oldest == nullptr || operation.seen_at < oldest->seen_at)) oldest = &operation;
  }
  constexpr double patience_of_questions = 0.05;
  if (oldest == nullptr || now - oldest->seen_at < patience_of_questions * world_.timeout_s()) return "";
  if (const auto heard = world_.signs_of_life(); heard != std::exchange(signs_heard_, heard)) last_sign_ = now;
  if (now - std::max(oldest->seen_at, last_sign_) < world_.timeout_s()) return "";
  return fmt::format(
      "{}{}{} has not ended on the GPU after {} (train.accelerator.timeout_s). The ranks of this host:{}", label_,
      label_.empty() ? "" : ": ", oldest->description, base::format_seconds(now - oldest->seen_at),
      world_.whereabouts());
}

void NcclWatch::end(const std::string& reason) {
  abort_cliques();
  world_.end_job({base::ExitCode::rank_failed, reason});
}

// Must not keep the job from ending: it waits 5 s at most for a call that holds the lock, and 5 s for the aborts.
void NcclWatch::abort_cliques() {
  constexpr auto patience = std::chrono::seconds(5);
  if (!call_lock_.try_lock_for(patience)) return;  // and never unlocked
  struct Aborted {
    std::mutex mutex;
    std::condition_variable changed;
    bool all = false;
  };
  const auto aborted = std::make_shared<Aborted>();
  std::vector<Clique*> cliques;
  {
    const std::lock_guard lock(mutex_);
    cliques = cliques_;
  }
  std::thread([aborted, cliques] {
    for (auto* clique : cliques) clique->abort();
    const std::lock_guard lock(aborted->mutex);
    aborted->all = true;
    aborted->changed.notify_one();
  }).detach();
  std::unique_lock lock(aborted->mutex);
  aborted->changed.wait_for(lock, patience, [&] { return aborted->all; });
}

}  // namespace tessera::comm
