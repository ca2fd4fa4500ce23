#include "comm/mpi/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/quantity.h"

namespace tessera::comm {

namespace {

std::string describe_missing(const std::vector<int>& ranks) {
  if (ranks.empty()) return "all ranks have arrived, but its bytes are still being copied";
  return fmt::format("rank{} {} {} not arrived", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "has" : "have");
}

}  // namespace

Progress::Progress(MPI_Comm communicator, double timeout_s, RankTable& table, End end)
    : timeout_s_(timeout_s), table_(table), end_(std::move(end)), requests_(communicator), thread_([this] { run(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::start(std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    new_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Progress::run() {
  try {
    drive();
  } catch (const std::exception& error) {
    end_(error.what());
  }
}

void Progress::drive() {
  while (take_new()) {
    bool has_worked = requests_.poll();
    for (const auto& task : active_) has_worked |= task->advance();
    drop_ended();
    watch();
    if (has_worked)
      last_event_ = base::seconds_now();
    else
      pause();
  }
}

// sched_yield gives way to threads of the same scheduling group only, and polling costs system calls. Sleeping for less
// than a millisecond would disturb more than it saves; the sockets' buffers hold what comes in one.
void Progress::pause() {
  constexpr double awake_s = 2e-3;
  constexpr auto asleep = std::chrono::milliseconds(1);
  if (base::seconds_now() - last_event_ < awake_s) {
    sched_yield();
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, asleep, [this] { return !new_.empty() || is_ending_; });
}

bool Progress::take_new() {
  std::vector<std::shared_ptr<Task>> taken;
  {
    std::unique_lock lock(mutex_);
    if (active_.empty() && requests_.empty()) changed_.wait(lock, [this] { return !new_.empty() || is_ending_; });
    if (new_.empty()) return !(is_ending_ && active_.empty());
    taken = std::exchange(new_, {});
  }
  last_event_ = base::seconds_now();
  for (auto& task : taken) {
    try {
      task->start(requests_);
    } catch (...) {
      task->failed(std::current_exception());
    }
    active_.push_back(std::move(task));
  }
  write_whereabouts();
  return true;
}

void Progress::drop_ended() {
  const auto ended = [](const std::shared_ptr<Task>& task) { return task->is_over(); };
  std::string last;
  for (const auto& task : active_) {
    if (!task->failure().empty()) end_(task->failure());
    if (ended(task)) last = task->description();
  }
  if (last.empty()) return;
  std::erase_if(active_, ended);
  if (!active_.empty()) return write_whereabouts();
  Whereabouts idle{.under_way = 0, .since = base::seconds_now()};
  idle.set_operation(last);
  table_.write(idle);
}

void Progress::write_whereabouts() {
  Whereabouts busy{.under_way = static_cast<std::int32_t>(active_.size()), .since = oldest().started_at()};
  busy.set_operation(oldest().description());
  table_.write(busy);
}

void Progress::watch() {
  constexpr double interval = 0.05;
  if (active_.empty()) return;
  const auto now = base::seconds_now();
  if (now < next_watch_) return;
  next_watch_ = now + interval;
  const auto age = now - oldest().started_at();
  if (age < timeout_s_) return;
  const auto label = table_.label();
  end_(fmt::format("{}{}{} has not ended after {} (train.accelerator.timeout_s); {}. The ranks of this host:{}", label,
                   label.empty() ? "" : ": ", oldest().description(), base::format_seconds(age),
                   describe_missing(requests_.waiting_for(oldest())), table_.describe()));
}

}  // namespace tessera::comm
