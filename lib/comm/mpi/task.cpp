#include "comm/mpi/task.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"

namespace tessera::comm {

namespace {

std::int64_t total_bytes(const std::vector<Transfer>& phases) {
  std::int64_t bytes = 0;
  for (const auto& phase : phases) bytes += phase.bytes();
  return bytes;
}

}  // namespace

Task::Task(const Purpose& purpose, std::int64_t number, int tag, std::vector<Transfer> phases, KeepAlive keep)
    : operation_(purpose.operation),
      number_(number),
      tag_(tag),
      phases_(std::move(phases)),
      description_(describe(purpose, total_bytes(phases_))),
      keep_(std::move(keep)) {}

void Task::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_ended_; });
  const auto keep = std::move(keep_);  // destroyed by this thread, after the unlock
  lock.unlock();
}

void Task::start(Requests& requests) {
  requests_ = &requests;
  started_at_ = base::seconds_now();
  start_phases();
}

void Task::ended(Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes) {
  if (is_over_) return;  // it has failed: ignores messages that were under way
  phases_[phase_].ended(posting(), direction, stream, message, bytes);
  go_on();
}

bool Task::advance() {
  if (is_over_) return false;
  try {
    if (!phases_[phase_].advance(posting())) return false;
    go_on();
  } catch (...) {
    failed(std::current_exception());
  }
  return true;
}

void Task::go_on() {
  if (!phases_[phase_].done()) return;
  ++phase_;
  start_phases();
}

void Task::start_phases() {
  for (; phase_ < phases_.size(); ++phase_) {
    phases_[phase_].start(posting());
    if (!phases_[phase_].done()) return;
  }
  end();
}

void Task::failed(std::exception_ptr error) {
  if (is_over_) return;
  is_over_ = true;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    failure_ = fmt::format("{}: {}", description_, e.what());
  }
}

void Task::end() {
  is_over_ = true;
  ended_at_ = base::seconds_now();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

}  // namespace tessera::comm
