#include "support/cuda_double/stream.h"

#include <chrono>
#include <utility>

namespace tessera::test::cuda_double {

void Passage::pass() {
  {
    const std::lock_guard lock(mutex_);
    has_passed_ = true;
    time_ = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  passed_.notify_all();
}

bool Passage::has_passed() const {
  const std::lock_guard lock(mutex_);
  return has_passed_;
}

void Passage::wait() const {
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [&] { return has_passed_; });
}

double Passage::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

Stream::Stream(Actor actor_, int device_, std::string name_)
    : actor(actor_), device(device_), name(std::move(name_)), worker_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  worker_.join();
}

void Stream::enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

std::shared_ptr<Passage> Stream::mark() {
  auto passage = std::make_shared<Passage>();
  enqueue([passage] { passage->pass(); });
  return passage;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
  }
}

}  // namespace tessera::test::cuda_double
