#include "comm/mpi/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "base/quantity.h"

namespace tessera::comm {

namespace {

std::string describe_missing(const std::vector<int>& ranks) {
  if (ranks.empty()) return "all ranks have arrived, but its bytes are still being copied";
  return fmt::format("rank{} {} {} not arrived", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "has" : "have");
}

std::vector<int> ranks_of(MPI_Comm communicator) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Progress::Progress(MPI_Comm communicator, int letter_tag, double timeout_s, RankTable& table, End end)
    : timeout_s_(timeout_s),
      table_(table),
      end_(std::move(end)),
      requests_(communicator),
      life_(communicator, letter_tag, timeout_s, table),
      all_ranks_(ranks_of(communicator)),
      thread_([this] { run(); }) {}

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

std::int64_t Progress::ask_all() {
  asks_all_ = true;
  return heard_;
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
    else if (!active_.empty())
      pause();
  }
}

// sched_yield yields to threads of the same scheduling group only, and polling costs system calls, so the thread sleeps
// after a while. Shorter sleeps than a millisecond would cost more than they save; the sockets' buffers hold the data
// that arrives meanwhile.
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
  constexpr auto idle = std::chrono::milliseconds(100);  // other ranks may ask for signs of life at any time
  std::vector<std::shared_ptr<Task>> taken;
  {
    std::unique_lock lock(mutex_);
    const auto has_changed = [this] { return !new_.empty() || is_ending_; };
    if (active_.empty() && requests_.empty()) changed_.wait_for(lock, idle, has_changed);
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
  constexpr double interval = 0.05, patience_of_questions = 0.05;
  if (base::seconds_now() < next_watch_) return;
  next_watch_ = base::seconds_now() + interval;
  const auto now = running_time_.seconds();
  life_.look(now);
  heard_ = life_.heard();
  if (asks_all_.exchange(false)) life_.ask(all_ranks_);
  if (active_.empty()) return;
  const bool is_new = watched_task_ != oldest().started_at();
  if (is_new) watched_since_ = now;
  if (is_new || signs_heard_ != life_.heard()) last_sign_ = now;
  watched_task_ = oldest().started_at();
  signs_heard_ = life_.heard();
  if (now - watched_since_ > patience_of_questions * timeout_s_) life_.ask(requests_.waiting_for(oldest()));
  if (now - last_sign_ >= timeout_s_) end_stuck(now - watched_since_);
}

void Progress::end_stuck(double age) {
  const auto label = table_.label();
  const auto missing = requests_.waiting_for(oldest());
  end_(fmt::format("{}{}{} has not ended after {} (train.accelerator.timeout_s); {}{}. The ranks of this host:{}",
                   label, label.empty() ? "" : ": ", oldest().description(), base::format_seconds(age),
                   life_.describe(missing), describe_missing(missing), table_.describe()));
}

}  // namespace tessera::comm
