// If this failed, a job would end because a disk is slow or because the job was suspended, or wait for ever for a disk
// that does not answer.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

// Runs on two ranks that wait for each other for three seconds at most.
struct SlowRun {
  SmallRun files;
  Finished finished;

  // `slow`: see slow_disk.cpp.
  SlowRun(const std::string& slow, const Words& more) {
    auto environment = mpi_environment();
    environment["LD_PRELOAD"] = SLOW_DISK;
    environment["TESSERA_TEST_SLOW_DISK"] = slow;
    environment["ASAN_OPTIONS"] += ":verify_asan_link_order=0";
    const auto words = files.words(joined({"--train.accelerator.timeout_s", "3"}, more));
    finished = run_command(joined(joined(mpirun(2), {TESSERA_TRAIN}), words), environment);
  }
  [[nodiscard]] bool has(const std::string& checkpoint) const {
    return fs::exists(files.output() / checkpoint / "manifest.json");
  }
};

// The disk was slow for 7 s, as the log says, and the run went on.
void check_patient(const SlowRun& run, const std::string& work) {
  INFO(run.finished.err);
  CHECK(run.finished.code == 0);
  CHECK(count_of("] error ", run.finished.err) == 0);
  CHECK(count_of(", without progress for 3.", run.finished.err) == 1);
  CHECK_THAT(run.finished.err, ContainsSubstring(work));
}

const Words every_two_steps{"--train.checkpoint.save_steps", "2"};

TEST_CASE("a rank whose disk takes longer than timeout_s over a periodic save is waited for") {
  const SlowRun run("fsync 1 7 step_000002.tmp/shard", every_two_steps);
  check_patient(run,
                "rank 1 is at sync of " + (run.files.output() / "step_000002.tmp/shard_00001.safetensors").string());
  CHECK(run.has("step_000002"));
  CHECK(run.has("step_000005"));
}

TEST_CASE("a rank whose disk takes longer than timeout_s over a save in the background is waited for") {
  const SlowRun run("fsync 1 7 step_000002.tmp/shard",
                    joined(every_two_steps, {"--train.checkpoint.save_async", "true"}));
  check_patient(run, "rank 1 is at sync of ");
  CHECK(run.has("step_000002"));
  CHECK(run.has("step_000005"));
}

TEST_CASE("a rank whose disk takes longer than timeout_s over the weights for HuggingFace is waited for") {
  const SlowRun run("fsync 0 7 hf.tmp/model.safetensors", {"--train.checkpoint.save_hf_weights", "true"});
  check_patient(run, "rank 0 is at sync of ");
  CHECK(fs::exists(run.files.output() / "hf" / "model.safetensors"));
}

TEST_CASE("a rank whose disk takes longer than timeout_s to remove an old checkpoint is waited for") {
  const SlowRun run("remove 0 7 step_000002.tmp/shard", joined(every_two_steps, {"--train.checkpoint.keep_last", "1"}));
  check_patient(run, "rank 0 is at removal of ");
  CHECK_FALSE(fs::exists(run.files.output() / "step_000002"));
  CHECK(run.has("step_000005"));
}

TEST_CASE("a rank whose disk takes longer than timeout_s to give the data, or a checkpoint, is waited for") {
  check_patient(SlowRun("open 1 7 train.jsonl", {}), "rank 1 is at opening of ");

  const SmallRun saved;
  const auto first = run_ranks(2, saved.words());
  REQUIRE(first.code == 0);
  const SlowRun resumed("open 1 7 step_000005/shard",
                        {"--train.checkpoint.load_path", saved.output() / "step_000005", "--train.max_steps", "6",
                         "--train.checkpoint.allow_changes", "true"});
  check_patient(resumed, "rank 1 is at opening of ");
}

TEST_CASE("a disk that does not answer at all is named with the file and the operation, and the job ends") {
  const SlowRun run("fsync 1 600 step_000002.tmp/shard", every_two_steps);
  INFO(run.finished.err);
  CHECK(run.finished.code == 4);
  CHECK(count_of("] error ", run.finished.err) == 1);
  const auto work = "rank 1 is at sync of " + (run.files.output() / "step_000002.tmp/shard_00001.safetensors").string();
  CHECK_THAT(run.finished.err, ContainsSubstring("warning " + work + ", without progress for 3.") &&
                                   ContainsSubstring(work + ", without progress for 1") &&
                                   ContainsSubstring("; rank 1 has not arrived. The ranks of this host:"));
}

// All ranks, one after the other, as a queueing system does it.
void send_to_ranks(const Command& job, int ranks, int signal) {
  for (int rank = 0; rank < ranks; ++rank) ::kill(process_of_rank(job, rank), signal);
}

TEST_CASE("a job that is suspended for longer than timeout_s goes on where it was") {
  const SmallRun files;
  const auto metrics = files.output() / "metrics.jsonl";
  Command job(joined(joined(mpirun(3), {TESSERA_TRAIN}),
                     files.words({"--train.accelerator.timeout_s", "3", "--train.max_steps", "1000000",
                                  "--train.num_train_epochs", "1000000", "--train.checkpoint.save_last", "false"})),
              mpi_environment());
  REQUIRE(wait_for_lines(job, metrics, 3));
  send_to_ranks(job, 3, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(7));
  const auto before = static_cast<std::int64_t>(read_metrics(metrics).size());
  send_to_ranks(job, 3, SIGCONT);
  // Long enough for a watchdog to look.
  CHECK(wait_for_lines(job, metrics, before + 20));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  job.signal(SIGUSR1);
  const auto ended = job.wait();
  INFO(ended.err);
  CHECK(ended.code == 143);
  CHECK(count_of("] error ", ended.err) == 0);
}

}  // namespace
}  // namespace tessera::test
