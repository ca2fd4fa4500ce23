// If this failed, a job of several ranks would hang, end without a reason, or print the reason once per rank.
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/clock.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"
#include "unit/data/corpus_files.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// The time that an end may take on a busy machine; a limit that ran out would take 120 s or more.
constexpr double generous = 40;

// A run that ends only when something happens to it.
Words endless(const SmallRun& files, const Words& more = {}) {
  return files.words(
      joined({"--train.max_steps", "1000000", "--train.num_train_epochs", "1000000",
              "--train.accelerator.extra_parallel_sizes", "2", "--train.accelerator.extra_parallel_names", "ep"},
             more));
}

std::vector<double> steps_in(const SmallRun& files) {
  return column(read_metrics(files.output() / "metrics.jsonl"), "loss");
}

struct Ended {
  Finished finished;
  double seconds = 0;
};

// Four ranks train; after three lines of metrics `act` does something to them.
template <class Act>
Ended end_by(const std::string& what, const SmallRun& files, const Words& options, const Words& more, const Act& act) {
  Command job(joined(joined(mpirun(4, options), {TESSERA_TRAIN}), endless(files, more)), mpi_environment());
  REQUIRE(wait_for_lines(job, files.output() / "metrics.jsonl", 3));
  const double begin = base::seconds_now();
  act(job);
  Ended ended{.finished = job.wait()};
  ended.seconds = base::seconds_now() - begin;
  std::cout << what << " ended the job with " << ended.finished.code << " after " << ended.seconds << " s\n";
  UNSCOPED_INFO(ended.finished.err);
  CHECK(ended.seconds < generous);
  return ended;
}

// The program in a folder of each rank's own: files of one name may differ.
Finished run_in_own_folders(int ranks, const SmallRun& files, const Words& words) {
  std::string line = "cd " + files.folder().path().string() + "/$OMPI_COMM_WORLD_RANK && exec " + TESSERA_TRAIN;
  for (const auto& word : words) line += " '" + word + "'";
  return run_command(joined(mpirun(ranks), {"sh", "-c", line}), mpi_environment());
}

TEST_CASE("a rank that is killed, or stopped for longer than timeout_s, ends the job") {
  const SmallRun killed;
  CHECK(end_by("SIGKILL of rank 2", killed, {}, {}, [](const Command& job) {
          ::kill(process_of_rank(job, 2), SIGKILL);
        }).finished.code == 137);
  const SmallRun stopped;
  const auto ended = end_by("SIGSTOP of rank 2 with timeout_s 3", stopped, {}, {"--train.accelerator.timeout_s", "3"},
                            [](const Command& job) { ::kill(process_of_rank(job, 2), SIGSTOP); })
                         .finished;
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err, ContainsSubstring("has not ended after 3.") &&
                            ContainsSubstring("(train.accelerator.timeout_s); rank 2 has not arrived"));
  CHECK(count_of("] error ", ended.err) == 1);
}

TEST_CASE("a file that one rank alone cannot read is told once, with its rank, and nothing is written") {
  const SmallRun files;
  for (const char* rank : {"0", "1", "2", "3"}) std::filesystem::create_directory(files.folder() / rank);
  for (const char* rank : {"0", "1", "3"})
    std::filesystem::copy_file(files.folder() / "train.jsonl", files.folder() / rank / "mine.jsonl");
  const auto data = run_in_own_folders(4, files, files.words({"--data.train_path", "mine.jsonl"}));
  INFO(data.err);
  CHECK(data.code == 2);
  CHECK(count_of("] error ", data.err) == 1);
  CHECK_THAT(data.err, ContainsSubstring("error rank 2: ") && ContainsSubstring("mine.jsonl"));
  CHECK_FALSE(std::filesystem::exists(files.output()));

  files.folder().write("0/settings.json", "{}");
  const auto settings = run_in_own_folders(2, files, joined({"settings.json"}, files.words()));
  INFO(settings.err);
  CHECK(settings.code == 2);
  CHECK(count_of("] error ", settings.err) == 1);
  CHECK_THAT(settings.err, ContainsSubstring("error rank 1: ") && ContainsSubstring("settings.json"));
  CHECK_FALSE(std::filesystem::exists(files.output()));
}

TEST_CASE("a faulty document that one rank meets while training ends the job with its place, told once") {
  const SmallRun files;
  // Four windows of three tokens, one a rank; the faulty token is in one of them.
  write_pair<std::uint16_t>(files.folder(), "t", {{1, 2, 3, 4, 31, 6, 7}, {8, 9, 10, 11, 12, 13, 14}}, 8);
  const auto ended =
      run_ranks(4, files.words({"--data.train_path", files.folder() / "t.bin", "--data.max_seq_len", "3"}));
  INFO(ended.err);
  CHECK(ended.code == 2);
  CHECK(count_of("] error ", ended.err) == 1);
  CHECK_THAT(ended.err, ContainsSubstring("error rank ") && ContainsSubstring("t.bin: document 0, token 4: ") &&
                            ContainsSubstring("id 31 is outside the vocabulary"));
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool lends_memory = false;  // its shadow takes more than any limit here
#else
constexpr bool lends_memory = true;
#endif

// KiB of address space: what does not do for a rank's libraries, and what may do for nothing more than its start.
TEST_CASE("a rank that has too little memory, for whichever step of its start, ends the job, and says why") {
  if (!lends_memory) return;
  const SmallRun files;
  int failed = 0;
  for (const char* limit : {"600000", "900000"}) {
    std::string line = "[ $OMPI_COMM_WORLD_RANK = 1 ] && ulimit -v " + std::string(limit) + "; exec " + TESSERA_TRAIN;
    for (const auto& word : files.words()) line += " '" + word + "'";
    const double begin = base::seconds_now();
    const auto ended = run_command(joined(mpirun(2), {"bash", "-c", line}), mpi_environment());
    INFO(limit << " KiB: " << ended.err);
    CHECK(base::seconds_now() - begin < generous);
    if (ended.code == 0) continue;
    ++failed;
    CHECK_THAT(ended.err, ContainsSubstring("memory") || ContainsSubstring("alloc"));
  }
  CHECK(failed > 0);
}

// The rank that has the faulty window does not come to know how many micro-steps the others have.
TEST_CASE("a faulty document in a short last step, or evaluation, ends all ranks with its place, told once") {
  const SmallRun files;
  std::vector<std::vector<std::int64_t>> good(20, {1, 2, 3, 4, 5, 6, 7}), bad = good;
  bad[18][2] = 31;  // in the last window: what follows fills none
  write_pair<std::uint16_t>(files.folder(), "good", good, 8);
  write_pair<std::uint16_t>(files.folder(), "bad", bad, 8);
  write_pair<std::uint16_t>(files.folder(), "few", {bad.begin() + 16, bad.end()}, 8);
  const auto path = [&](const char* name) { return (files.folder() / name).string(); };
  const Words batch{"--data.max_seq_len", "7", "--train.micro_batch_size", "1", "--train.global_batch_size"};
  struct Case {
    std::string training, held_out, global_batch;  // few: of 3 windows
  };
  for (const auto& c : {Case{"good.bin", "bad.bin", "8"}, Case{"few.bin", "", "8"}, Case{"few.bin", "", "12000"}}) {
    auto words = files.words(joined(batch, {c.global_batch, "--data.train_path", path(c.training.c_str())}));
    if (!c.held_out.empty()) words = joined(words, {"--data.eval_path", path(c.held_out.c_str())});
    const auto ended = run_ranks(2, words);
    INFO(c.training << " " << c.held_out << " " << c.global_batch << ": " << ended.err);
    CHECK(ended.code == 2);
    CHECK(count_of("] error ", ended.err) == 1);
    CHECK_THAT(ended.err, ContainsSubstring("id 31 is outside the vocabulary"));
  }
}

TEST_CASE("an output folder that cannot be made, and a disk that is full, end the job, told once by rank 0") {
  const SmallRun files;
  files.folder().write("file", "");
  const auto unwritable =
      run_ranks(2, files.words({"--train.checkpoint.output_dir", files.folder() / "file" / "output"}));
  INFO(unwritable.err);
  CHECK(unwritable.code == 2);
  CHECK(count_of("] error ", unwritable.err) == 1);
  CHECK_THAT(unwritable.err, ContainsSubstring("error rank 0: ") && ContainsSubstring("file/output"));

  std::filesystem::create_directory(files.output());
  std::filesystem::create_symlink("/dev/full", files.output() / "metrics.jsonl");
  const double begin = base::seconds_now();
  const auto full = run_ranks(2, files.words());
  std::cout << "a full disk ended the job with " << full.code << " after " << base::seconds_now() - begin << " s\n";
  INFO(full.err);
  CHECK(full.code == 4);  // all the same, it has trained
  CHECK(count_of("] error ", full.err) == 1);
  CHECK_THAT(full.err, ContainsSubstring("error rank 0") && ContainsSubstring("metrics.jsonl") &&
                           ContainsSubstring("No space left on device"));
}

TEST_CASE("a loss that is not finite ends all ranks with code 3, told once") {
  const SmallRun files;
  const auto ended = run_ranks(4, endless(files, {"--train.optimizer.lr", "1e38"}));
  INFO(ended.err);
  CHECK(ended.code == 3);
  CHECK(count_of("] error ", ended.err) == 1);
  CHECK(count_of("step 2: the output of layer 0", ended.err) == 1);
  CHECK(steps_in(files).size() == 2);
}

int cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_COUNT(&allowed);
}

std::string device_line(int threads) {
  return "  device         CPU (" + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
}

TEST_CASE("a rank has its share of the cores as threads, or as many as the user says; too many are warned about") {
  const SmallRun files;
  const auto run = [&](int ranks, const Words& before, const std::string& threads = "null") {
    const auto words = files.words({"--train.threads", threads, "--train.max_steps", "1"});
    const auto finished =
        run_command(joined(joined(joined(before, mpirun(ranks)), {TESSERA_TRAIN}), words), mpi_environment());
    UNSCOPED_INFO(finished.err);
    CHECK(finished.code == 0);
    return finished.err;
  };
  const auto warning = [](int ranks, int threads) {
    return std::to_string(ranks) + " ranks on ([^ ]+) have " + std::to_string(ranks * threads) +
           " threads together on " + std::to_string(cores()) + " cores, which is slow";
  };
  const auto has_warning = [](const std::string& text) {
    return ContainsSubstring("threads together on ").match(text);
  };
  const Words nothing_set{"env", "-u", "OMP_NUM_THREADS"};
  for (const int ranks : {1, 2}) {
    const int share = std::max(1, cores() / ranks);
    const auto err = run(ranks, nothing_set);
    CHECK_THAT(err, ContainsSubstring(device_line(share)));
    CHECK(has_warning(err) == (ranks * share > cores()));
  }
  const int many = cores() + 1;
  const auto by_user = run(2, {"env", "OMP_NUM_THREADS=" + std::to_string(many)});
  CHECK_THAT(by_user,
             ContainsSubstring(device_line(many)) && Catch::Matchers::Matches("[^]*" + warning(2, many) + "[^]*"));
  CHECK(count_of("threads together on", by_user) == 1);
  const auto by_setting = run(2, {"env", "OMP_NUM_THREADS=" + std::to_string(many)}, "1");
  CHECK_THAT(by_setting, ContainsSubstring(device_line(1)));
}

}  // namespace
}  // namespace tessera::test
