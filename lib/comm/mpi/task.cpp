#include "comm/mpi/task.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace tessera::comm {

namespace {

std::int64_t total_bytes(const std::vector<Transfer>& phases) {
  std::int64_t bytes = 0;
  for (const auto& phase : phases) bytes += phase.bytes();
  return bytes;
}

}  // namespace

Task::Task(const Purpose& purpose, int tag, std::vector<Transfer> phases, KeepAlive keep)
    : tag_(tag),
      phases_(std::move(phases)),
      description_(describe(purpose, total_bytes(phases_))),
      keep_(std::move(keep)) {}

void Task::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_ended_; });
  const auto error = error_;
  // Dropped by this thread, after the lock; after a failure messages may still be under way.
  const auto keep = error ? nullptr : std::move(keep_);
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

void Task::start(Requests& requests) {
  requests_ = &requests;
  started_at_ = base::seconds_now();
  start_phases();
}

void Task::ended(Direction direction, std::size_t stream, std::int64_t message) {
  if (is_over_) return;  // it has failed: what was under way is not looked at
  phases_[phase_].ended(posting(), direction, stream, message);
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
  end(nullptr);
}

void Task::failed(std::exception_ptr error) {
  if (is_over_) return;
  try {
    std::rethrow_exception(error);
  } catch (const base::Error& e) {
    error = std::make_exception_ptr(base::Error(e.code(), fmt::format("{}: {}", description_, e.what())));
  } catch (...) {  // passed on as it is
  }
  end(std::move(error));
}

void Task::end(std::exception_ptr error) {
  is_over_ = true;
  ended_at_ = base::seconds_now();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

}  // namespace tessera::comm
