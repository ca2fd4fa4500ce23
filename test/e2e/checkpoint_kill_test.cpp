// If this failed, a run that is killed while it saves would lose its last checkpoint, or resume from an incomplete one.
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/stored_checkpoint.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

constexpr int ranks = 2;

// The moment of a kill: a random time after something appears on the disk.
enum class Moment { shards, manifest, name, latest };

const char* name_of(Moment moment) {
  switch (moment) {
    case Moment::shards: return "while shards are written";
    case Moment::manifest: return "around the manifest and the rename";
    case Moment::name: return "after the rename";
    case Moment::latest: return "around latest";
  }
  return "";
}

// Sees names appear in a folder.
class FolderWatch {
 public:
  FolderWatch() : queue_(::inotify_init1(IN_NONBLOCK)) {}
  ~FolderWatch() { ::close(queue_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  void add(const std::filesystem::path& folder) const {
    ::inotify_add_watch(queue_, folder.c_str(), IN_CREATE | IN_MOVED_TO);
  }
  // Waits for a name that satisfies `wanted`; false after `seconds`.
  template <class Wanted>
  bool wait(double seconds, const Wanted& wanted) {
    const auto end = base::seconds_now() + seconds;
    while (base::seconds_now() < end) {
      while (!names_.empty()) {
        const auto name = std::move(names_.front());
        names_.pop_front();
        if (wanted(name)) return true;
      }
      read_names();
    }
    return false;
  }

 private:
  void read_names() {
    alignas(inotify_event) std::array<char, 65536> buffer{};
    pollfd waiting{.fd = queue_, .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, 100);
    const auto bytes = ::read(queue_, buffer.data(), buffer.size());
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      if (event->len > 0) names_.emplace_back(event->name);
    }
  }

  int queue_;
  std::deque<std::string> names_;
};

// Weights and moments of some 50 MB: a save takes many times a step.
Words words_of(const SmallRun& files, const Words& more) {
  return files.words(joined({"--model.vocab_size",
                             "16001",
                             "--model.hidden_size",
                             "126",
                             "--model.num_hidden_layers",
                             "2",
                             "--data.max_seq_len",
                             "5",
                             "--train.global_batch_size",
                             "2",
                             "--train.max_steps",
                             "1000000",
                             "--train.num_train_epochs",
                             "1000000",
                             "--train.checkpoint.save_steps",
                             "1",
                             "--train.checkpoint.keep_last",
                             "2",
                             "--train.checkpoint.load_path",
                             "auto",
                             "--train.accelerator.extra_parallel_names",
                             "ep",
                             "--train.accelerator.extra_parallel_sizes",
                             "2"},
                            more));
}

std::int64_t last_step_in(const std::filesystem::path& metrics) {
  const auto text = base::read_file(metrics);
  const auto end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return 0;
  const auto before = text.rfind('\n', end - 1);
  const auto line = text.substr(before == std::string::npos ? 0 : before + 1);
  const std::string key = "\"step\":";
  const auto at = line.find(key);
  REQUIRE(at != std::string::npos);
  return std::atoll(line.c_str() + at + key.size());
}

// Returns the latest checkpoint, with every byte verified.
std::int64_t verified_latest(const std::filesystem::path& output) {
  const auto step = checkpoint::latest_step(output);
  REQUIRE(step.has_value());
  checkpoint::StoredCheckpoint stored(output / checkpoint::folder_name(*step));
  CHECK(stored.verify(0, 1) > 1'000'000);
  return *step;
}

// Whether a save was between its first write and its rename when its run ended.
bool is_within_a_save(const std::filesystem::path& output, std::int64_t latest) {
  const auto listing = checkpoint::list_checkpoints(output);
  return std::ranges::any_of(listing.unfinished, [&](const base::Path& folder) {
    // One of a lower step is what retention was removing.
    return folder > checkpoint::unfinished_folder(output, latest);
  });
}

bool is_gone(pid_t process) {
  const auto path = "/proc/" + std::to_string(process) + "/stat";
  std::ifstream file(path);
  std::string stat;
  if (!std::getline(file, stat)) return true;
  return stat.find(") Z ") != std::string::npos;
}

void wait_until_gone(const std::vector<pid_t>& processes) {
  const auto end = base::seconds_now() + 60;
  for (const auto process : processes)
    while (!is_gone(process)) {
      INFO("process " << process << " of a job whose mpirun was killed still lives");
      REQUIRE(base::seconds_now() < end);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

class Kills {
 public:
  explicit Kills(std::uint64_t seed, Words more) : random_(seed), words_(words_of(files_, more)) {
    std::filesystem::create_directories(files_.output());
  }

  // One more job that goes on from what the last one left, and its end. Every third saves in the background.
  void kill_once() {
    const auto output = files_.output();
    const auto before = checkpoint::list_checkpoints(output);
    const auto resumed = checkpoint::latest_step(output);
    const auto moment = pick_moment();
    FolderWatch watch;
    watch.add(output);
    const bool in_background = done_ % 3 == 2;
    const Words mode{"--train.checkpoint.save_async", in_background ? "true" : "false"};
    Command job(joined(joined(joined(mpirun(ranks), {TESSERA_TRAIN}), words_), mode), mpi_environment());
    // The first save of the job ends, and tells how long a save takes.
    const auto first = resumed.value_or(0) + 1;
    REQUIRE(watch.wait(90, [&](const auto& name) { return name == checkpoint::unfinished_folder("", first); }));
    const auto began = base::seconds_now();
    REQUIRE(watch.wait(90, [](const auto& name) { return name == "latest"; }));
    save_seconds_ = std::min(save_seconds_, base::seconds_now() - began);
    REQUIRE(watch.wait(90, [&](const auto& name) { return name == checkpoint::unfinished_folder("", first + 1); }));
    wait_for(moment, watch, first + 1);
    std::vector<pid_t> processes;
    for (int rank = 0; rank < ranks; ++rank) processes.push_back(process_of_rank(job, rank));
    // Rank 0 alone writes what comes after the shards.
    const auto victim = moment == Moment::shards ? static_cast<int>(random_() % 5) : 0;
    ::kill(victim == 4 ? job.process() : processes[static_cast<std::size_t>(victim / 2)], SIGKILL);
    const auto finished = job.wait();
    wait_until_gone(processes);
    INFO(finished.err);
    CHECK(finished.code != 0);
    check_resume(finished.err, resumed, before);
    check_disk(moment, in_background ? 2 : 1);
  }

  [[nodiscard]] int within_saves() const { return within_; }
  [[nodiscard]] int done() const { return done_; }
  void describe() const {
    std::cout << done_ << " kills, " << within_ << " of them between a save's first write and its rename\n";
    for (const auto& [what, count] : left_) std::cout << "  " << count << " left " << what << "\n";
    for (const auto& [moment, count] : aimed_) std::cout << "  " << count << " aimed " << name_of(moment) << "\n";
  }

 private:
  // Of 20, 18 are aimed at what takes longest.
  Moment pick_moment() {
    const auto k = done_ % 40;
    const auto moment = k % 20 == 6 ? Moment::manifest
                        : k == 13   ? Moment::name
                        : k == 33   ? Moment::latest
                                    : Moment::shards;
    ++aimed_[moment];
    return moment;
  }

  void sleep_up_to(double seconds) {
    const auto part = std::uniform_real_distribution<double>(0, 1)(random_);
    std::this_thread::sleep_for(std::chrono::duration<double>(part * seconds));
  }

  // Precondition: the unfinished folder of `step` has just appeared.
  void wait_for(Moment moment, FolderWatch& output_watch, std::int64_t step) {
    const auto output = files_.output();
    const auto folder = checkpoint::unfinished_folder(output, step);
    switch (moment) {
      case Moment::shards: return sleep_up_to((done_ % 3 == 0 ? 0.9 : 0.5) * save_seconds_);
      case Moment::manifest: {
        FolderWatch watch;
        watch.add(folder);
        if (!std::filesystem::exists(folder / checkpoint::manifest_name))
          watch.wait(2, [](const auto& name) { return name == checkpoint::manifest_name; });
        return;
      }
      case Moment::name:
        output_watch.wait(2, [&](const auto& name) { return name == checkpoint::folder_name(step); });
        return sleep_up_to(0.001);
      case Moment::latest:
        output_watch.wait(2, [](const auto& name) { return name == "latest" || name == "latest.tmp"; });
        return sleep_up_to(0.001);
    }
  }

  // The job that was killed had begun with what was there.
  void check_resume(const std::string& err, std::optional<std::int64_t> resumed,
                    const checkpoint::Listing& before) const {
    const auto expected = resumed ? "resumed from " + (files_.output() / checkpoint::folder_name(*resumed)).string()
                                  : std::string("fresh start");
    CHECK_THAT(err, Catch::Matchers::ContainsSubstring(expected));
    for (const auto& folder : before.unfinished)
      CHECK_THAT(err, Catch::Matchers::ContainsSubstring(folder.string() + " was left behind by a save"));
    CHECK(count_of("was left behind by a save", err) == std::ssize(before.unfinished));
  }

  // `behind`: steps by which the latest checkpoint may lag.
  void check_disk(Moment moment, std::int64_t behind) {
    const auto output = files_.output();
    const auto latest = verified_latest(output);
    const auto last = last_step_in(output / "metrics.jsonl");
    INFO("step " << last << ", latest checkpoint " << latest << ", killed " << name_of(moment));
    CHECK(latest <= last);
    CHECK(latest >= last - behind);
    // Whatever has the name of a checkpoint is one.
    const auto listing = checkpoint::list_checkpoints(output);
    for (const auto& [step, folder] : listing.whole) CHECK(checkpoint::StoredCheckpoint(folder).verify(0, 1) > 0);
    const bool within = is_within_a_save(output, latest);
    ++done_;
    within_ += within ? 1 : 0;
    const auto& unfinished = listing.unfinished;
    const bool has_manifest = within && std::filesystem::exists(unfinished.back() / checkpoint::manifest_name);
    const bool is_unnamed = !within && listing.whole.rbegin()->first > latest;
    ++left_[has_manifest ? "a manifest in an unfinished folder"
            : within     ? "shards in an unfinished folder"
            : is_unnamed ? "a whole checkpoint that latest does not name yet"
                         : "no save that had begun and not ended"];
  }

  std::mt19937_64 random_;
  SmallRun files_;
  Words words_;
  double save_seconds_ = 1;  // the shortest so far
  int done_ = 0, within_ = 0;
  std::map<std::string, int> left_;
  std::map<Moment, int> aimed_;
};

int kills_asked_for() {
  const char* text = std::getenv("TESSERA_TEST_KILLS");
  return text == nullptr ? 20 : std::atoi(text);
}

TEST_CASE("after every kill there is a whole latest checkpoint, and the run goes on from it") {
  Kills kills(20, {});
  while (kills.done() < kills_asked_for()) kills.kill_once();
  kills.describe();
  CHECK(4 * kills.within_saves() >= 3 * kills.done());
}

}  // namespace
}  // namespace tessera::test
