#include "data/loader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"

namespace tessera::data {

class Loader::Queue {
 public:
  Queue(const Dataset& dataset, LoaderOptions options)
      : dataset_(dataset), options_(std::move(options)), position_(options_.start) {
    base::expect(options_.global_batch >= 1 && options_.steps_ahead >= 1 && options_.shares != nullptr,
                 "loader options");
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  std::optional<LoadedStep> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !steps_.empty() || ended_; });
    if (steps_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    LoadedStep step = std::move(steps_.front());
    steps_.pop_front();
    position_ = step.windows.next;
    lock.unlock();
    changed_.notify_all();
    return step;
  }

  Position position() const {
    const std::lock_guard lock(mutex_);
    return position_;
  }

 private:
  void run(const std::stop_token& stop) {
    try {
      Position at = options_.start;
      while (at.epoch < options_.end_epoch && !stop.stop_requested()) {
        LoadedStep step = load(at, stop);
        at = step.windows.next;
        std::unique_lock lock(mutex_);
        const auto room = [this] { return static_cast<std::int64_t>(steps_.size()) < options_.steps_ahead; };
        if (!changed_.wait(lock, stop, room)) return;
        steps_.push_back(std::move(step));
        changed_.notify_all();
      }
    } catch (...) {  // the top of a thread: next() rethrows
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  LoadedStep load(Position at, const std::stop_token& stop) const {
    LoadedStep step{step_at(dataset_, at, options_.global_batch), {}};
    for (const layout::Block& share : options_.shares(step.windows.count)) {
      base::expect(0 <= share.begin && share.begin <= share.end && share.end <= step.windows.count,
                   "share [{}, {}) of {} windows", share.begin, share.end, step.windows.count);
      std::vector<Window> windows;
      for (std::int64_t place = share.begin; place < share.end && !stop.stop_requested(); ++place)
        windows.push_back(dataset_.window(at.epoch, at.index + place));
      step.batches.push_back(make_batch(windows));
    }
    return step;
  }

  const Dataset& dataset_;
  const LoaderOptions options_;

  // mutex_ guards the members from here to position_.
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<LoadedStep> steps_;
  std::exception_ptr error_;
  bool ended_ = false;  // the thread adds nothing more
  Position position_;

  std::jthread thread_;  // last: stopped and joined before the rest goes
};

Loader::Loader(const Dataset& dataset, LoaderOptions options)
    : queue_(std::make_unique<Queue>(dataset, std::move(options))) {}
Loader::~Loader() = default;

std::optional<LoadedStep> Loader::next() { return queue_->next(); }

Position Loader::position() const { return queue_->position(); }

}  // namespace tessera::data
