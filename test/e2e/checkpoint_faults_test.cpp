// If this failed, a full disk would end a run or destroy its last good checkpoint, a failed save would go unnoticed, or
// two jobs would write into one folder.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/stored_checkpoint.h"
#include "resumed_run.h"
#include "support/catch.h"
#include "support/mounted_disk.h"
#include "support/ranked_command.h"
#include "support/skips.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

std::uint64_t bytes_in(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

// Returns the latest checkpoint, with every byte verified.
std::int64_t verified_latest(const std::filesystem::path& output) {
  const auto step = checkpoint::latest_step(output);
  REQUIRE(step.has_value());
  checkpoint::StoredCheckpoint stored(output / checkpoint::folder_name(*step));
  CHECK(stored.verify(0, 1) > 0);
  return *step;
}

bool await(const Command& job, const std::function<bool()>& came) {
  const auto end = base::seconds_now() + 60;
  while (!came() && job.is_running() && base::seconds_now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return came();
}

bool await_words(const Command& job, const std::string& words) {
  return await(job, [&] { return count_of(words, job.errors_so_far()) > 0; });
}

// Saves that the job has told to be whole.
int saves_in(const Command& job) { return count_of("\ncheckpoint ", job.errors_so_far()); }

const Words endless{"--train.max_steps", "1000000", "--train.num_train_epochs", "1000000"};

TEST_CASE(
    "CKP-2: on a disk with room for one checkpoint and a half the first one stays, and training goes on to its end") {
  const SmallRun probe;
  train_to_the_end(probe, {"--train.max_steps", "1"});
  const auto one = bytes_in(checkpoint_of(probe.output(), 1));
  MountedDisk disk(one + one / 2 + 65536);
  if (!disk.is_there()) {
    note_skip("mounting a disk", disk.why());
    return;
  }
  for (const auto& [background, ranks] : {std::pair{"false", 2}, {"true", 1}}) {
    INFO("in the background: " << background << ", ranks " << ranks);
    const SmallRun run;
    const auto output = disk.path() / "out";
    const auto words = joined(into(output), {"--train.checkpoint.save_steps", "1", "--train.checkpoint.keep_last", "1",
                                             "--train.checkpoint.save_async", background, "--train.max_steps", "4"});
    const auto full = train(run, words, ranks);
    INFO(full.err);
    CHECK(full.code == 4);  // the last save failed too
    CHECK(count_of("] error ", full.err) == 1);
    CHECK_THAT(full.err, ContainsSubstring("the last save failed: ") && ContainsSubstring("No space left on device") &&
                             ContainsSubstring(output.string() + "/step_000004.tmp/"));
    CHECK(count_of("the save of step 2 failed: ", full.err) == 1);
    CHECK(count_of("the newest checkpoint is that of step 1", full.err) >= 3);
    CHECK(verified_latest(output) == 1);
    CHECK(checkpoint::list_checkpoints(output).unfinished.empty());
    CHECK(column(read_metrics(output / "metrics.jsonl"), "loss").size() == 4);

    disk.resize(8 * one);
    CHECK_THAT(train_to_the_end(run, joined(words, go_on), ranks).err, ContainsSubstring("after step 1"));
    CHECK(verified_latest(output) == 4);
    disk.resize(one + one / 2 + 65536);
    std::filesystem::remove_all(output);
  }
}

TEST_CASE("CKP-2: a disk that has room again during the run takes the next save, and the metrics have every step") {
  MountedDisk disk(64 << 20);
  if (!disk.is_there()) {
    note_skip("mounting a disk", disk.why());
    return;
  }
  const SmallRun run;
  const auto output = disk.path() / "out";
  const auto filler = disk.path() / "filler";
  Command job(joined(joined(mpirun(2), {TESSERA_TRAIN}),
                     run.words(joined(joined(into(output), endless),
                                      {"--train.checkpoint.save_steps", "5", "--train.checkpoint.keep_last", "1"}))),
              mpi_environment());
  REQUIRE(await_words(job, "/step_000005: "));
  const auto free = std::filesystem::space(disk.path()).available;
  base::posix_file_system().create(filler)->close();
  std::filesystem::resize_file(filler, 0);
  {
    const auto file = base::posix_file_system().open_for_append(filler);
    const std::vector<std::byte> page(4096);
    try {
      for (std::uintmax_t k = 0; k < 2 * free / page.size(); ++k) file->write(page);
    } catch (const base::Error&) {  // it is full
    }
  }
  REQUIRE(await(job, [&] {
    const auto log = job.errors_so_far();
    return count_of("failed: ", log) >= 1 && count_of("training goes on, the lines are kept", log) == 1;
  }));
  CHECK(verified_latest(output) >= 5);
  std::filesystem::remove(filler);
  const auto failures = count_of("failed: ", job.errors_so_far());
  const auto saves = saves_in(job);
  REQUIRE(await(job, [&] { return saves_in(job) > saves; }));
  job.signal(SIGUSR1);
  const auto finished = job.wait();
  INFO(finished.err);
  CHECK(failures >= 1);
  CHECK(finished.code == 143);
  CHECK(count_of("] error ", finished.err) == 0);
  CHECK_THAT(finished.err, ContainsSubstring("metrics.jsonl has all lines again"));
  const auto steps = column(read_metrics(output / "metrics.jsonl"), "step");
  std::set<double> different(steps.begin(), steps.end());
  CHECK(different.size() == static_cast<std::size_t>(verified_latest(output)));
}

TEST_CASE("CKP-2: a read-only folder is refused with path and reason before training, and can be loaded from") {
  MountedDisk disk(64 << 20);
  if (!disk.is_there()) {
    note_skip("mounting a disk", disk.why());
    return;
  }
  const SmallRun run;
  const auto output = disk.path() / "out";
  train_to_the_end(run, joined(into(output), {"--train.max_steps", "2"}));
  disk.make_read_only(64 << 20);
  for (const int ranks : {1, 2}) {
    const auto refused = train(run, into(output), ranks);
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(count_of("] error ", refused.err) == 1);
    CHECK_THAT(refused.err, ContainsSubstring(output.string()) && ContainsSubstring("Read-only file system"));
  }
  CHECK(train(run, into(disk.path() / "new")).code == 2);
  CHECK_THAT(train_to_the_end(run, from(output)).err, ContainsSubstring("resumed from"));
}

// Limits the length of files that rank `rank` of a job writes; longer writes fail with "File too large".
void limit_files(const Command& job, int rank, rlim_t bytes) {
  rlimit limit{};
  const auto process = process_of_rank(job, rank);
  REQUIRE(::prlimit(process, RLIMIT_FSIZE, nullptr, &limit) == 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  REQUIRE(::prlimit(process, RLIMIT_FSIZE, &limit, nullptr) == 0);
}

Words shell(const std::string& before, const Words& words) {
  std::string line = before + " exec " + TESSERA_TRAIN;
  for (const auto& word : words) line += " '" + word + "'";
  return {"sh", "-c", line};
}

TEST_CASE("FLT-3: saves that fail on rank 1 are told once each, training goes on, and the next save is good") {
  for (const std::string background : {"false", "true"}) {
    INFO("in the background: " << background);
    const SmallRun run;
    const auto words = run.words(joined(endless, {"--train.checkpoint.save_steps", "3", "--train.checkpoint.keep_last",
                                                  "2", "--train.checkpoint.save_async", background, "--train.log.level",
                                                  "info", "--train.log.every", "1000"}));
    Command job(joined(joined(mpirun(2), {TESSERA_TRAIN}), words), mpi_environment());
    REQUIRE(await_words(job, "\ncheckpoint "));
    limit_files(job, 1, 1000);
    REQUIRE(await_words(job, "failed: "));
    limit_files(job, 1, RLIM_INFINITY);
    const auto good = verified_latest(run.output());
    const auto saves = saves_in(job);
    REQUIRE(await(job, [&] { return saves_in(job) > saves; }));
    job.signal(SIGUSR1);
    const auto finished = job.wait();
    INFO(finished.err);
    CHECK(finished.code == 143);
    CHECK(count_of("] error ", finished.err) == 0);
    CHECK_THAT(finished.err, ContainsSubstring("failed: rank 1: cannot write " + run.output().string() + "/step_") &&
                                 ContainsSubstring("/shard_00001.safetensors: File too large; training goes on"));
    for (std::int64_t step = 3; step <= verified_latest(run.output()); ++step)
      CHECK(count_of("the save of step " + std::to_string(step) + " failed", finished.err) <= 1);
    CHECK(verified_latest(run.output()) > good);
  }
}

TEST_CASE("FLT-3: a last save that fails ends the job with code 4 and one message, and leaves the one before") {
  const SmallRun run;
  const auto words = run.words(joined(endless, {"--train.checkpoint.save_steps", "10"}));
  Command job(joined(joined(mpirun(2), {TESSERA_TRAIN}), words), mpi_environment());
  REQUIRE(await_words(job, "\ncheckpoint "));
  limit_files(job, 1, 1000);
  job.signal(SIGUSR1);
  const auto finished = job.wait();
  INFO(finished.err);
  const auto last = column(read_metrics(run.output() / "metrics.jsonl"), "loss").size();
  if (verified_latest(run.output()) == static_cast<std::int64_t>(last)) return;  // it was saved just before
  CHECK(finished.code == 4);
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK_THAT(finished.err,
             ContainsSubstring("the last save failed: rank 1: cannot write ") && ContainsSubstring("File too large"));
}

TEST_CASE("CKP-2: a save that is due before the last has ended waits for it, and each is whole") {
  const SmallRun run;
  const auto ran = train_to_the_end(
      run, {"--train.checkpoint.save_steps", "1", "--train.checkpoint.save_async", "true", "--train.max_steps", "5",
            "--train.log.level", "debug", "--model.vocab_size", "32003", "--data.max_seq_len", "3"});
  const auto listing = checkpoint::list_checkpoints(run.output());
  CHECK(listing.whole.size() == 5);
  CHECK(listing.unfinished.empty());
  for (const auto& [step, folder] : listing.whole) {
    INFO(folder.string());
    checkpoint::StoredCheckpoint stored(folder);
    CHECK(stored.verify(0, 1) > 1'000'000);
    CHECK(stored.manifest().progress.step == step);
    CHECK(count_of("\ncheckpoint " + folder.string() + ": ", ran.err) == 1);
  }
  // Step 2 was taken while step 1 was being saved.
  CHECK(ran.err.find("step 2: epoch 0") < ran.err.find("\ncheckpoint " + checkpoint_of(run.output(), 1).string()));
}

TEST_CASE("CKP-7: a folder of each rank's own is refused, whether its name says so or not") {
  const SmallRun run;
  const auto here = "cd " + run.folder().path().string();
  auto words = run.words({"--train.checkpoint.output_dir", "PLACE"});
  auto named = shell(here + " &&", words);
  named.back().replace(named.back().find("'PLACE'"), 7, "ck_$OMPI_COMM_WORLD_RANK");
  const auto by_name = run_command(joined(mpirun(2), named), mpi_environment());
  INFO(by_name.err);
  CHECK(by_name.code == 2);
  CHECK_THAT(by_name.err, ContainsSubstring("train.checkpoint.output_dir is \"ck_1\" there, and \"ck_0\" on rank 0"));
  CHECK_FALSE(std::filesystem::exists(run.folder() / "ck_0"));
  CHECK_FALSE(std::filesystem::exists(run.folder() / "ck_1"));

  // The same name on disks of their own; that of rank 2 has what an earlier run left.
  for (const char* rank : {"0", "1", "2"}) std::filesystem::create_directory(run.folder() / rank);
  train_to_the_end(run, joined(into(run.folder() / "2/out"), {"--train.max_steps", "1"}));
  const auto apart = run_command(
      joined(mpirun(3), shell(here + "/$OMPI_COMM_WORLD_RANK &&", run.words({"--train.checkpoint.output_dir", "out"}))),
      mpi_environment());
  INFO(apart.err);
  CHECK(apart.code == 2);
  CHECK(count_of("] error ", apart.err) == 1);
  CHECK_THAT(apart.err, ContainsSubstring("train.checkpoint.output_dir = out is not the same folder on all ranks: rank "
                                          "1, 2 do not see"));
  CHECK_FALSE(std::filesystem::exists(run.folder() / "0/out"));
  CHECK(checkpoints_in(run.folder() / "2/out") == std::set<std::string>{"step_000001"});
}

TEST_CASE(
    "CKP-7: a second job in a folder is refused and told who is there; the first is not disturbed; then it is free") {
  const SmallRun run;
  Command first(joined(joined(mpirun(2), {TESSERA_TRAIN}), run.words(endless)), mpi_environment());
  REQUIRE(wait_for_lines(first, run.output() / "metrics.jsonl", 2));
  const auto holder = "process " + std::to_string(process_of_rank(first, 0)) + " on ";
  for (const int ranks : {1, 2}) {
    const auto second = train(run, {}, ranks);
    INFO(second.err);
    CHECK(second.code == 2);
    CHECK(count_of("] error ", second.err) == 1);
    CHECK_THAT(second.err, ContainsSubstring(run.output().string() + " is in use by another run (" + holder));
  }
  REQUIRE(first.is_running());
  first.signal(SIGUSR1);
  const auto finished = first.wait();
  INFO(finished.err);
  CHECK(finished.code == 143);
  CHECK(verified_latest(run.output()) ==
        static_cast<std::int64_t>(column(read_metrics(run.output() / "metrics.jsonl"), "loss").size()));
  CHECK_FALSE(std::filesystem::exists(run.output() / ".lock"));
  train_to_the_end(run, {});
}

TEST_CASE("CKP-7: of ranks that start late, or hold the same shard, one writes each piece") {
  const SmallRun run;
  const auto words = run.words({"--train.checkpoint.save_steps", "2", "--train.accelerator.dp_replicate_size", "2"});
  const auto finished = run_command(
      joined(mpirun(2), shell("if [ $OMPI_COMM_WORLD_RANK = 1 ]; then sleep 1; fi;", words)), mpi_environment());
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(checkpoints_in(run.output()) == std::set<std::string>{"step_000002", "step_000004", "step_000005"});
  CHECK(verified_latest(run.output()) == 5);
}

}  // namespace
}  // namespace tessera::test
