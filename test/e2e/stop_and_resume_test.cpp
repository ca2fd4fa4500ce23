// If this failed, a signal at an unlucky moment would lose steps, or ranks would disagree about the last step.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <thread>

#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

constexpr int ranks = 2;

// A signal at some moment of a run on `ranks` ranks.
struct Stop {
  std::string what;
  Words settings{};  // that make the moment long
  Words mpirun_options{};
  std::function<void(const Command&, const SmallRun&)> act{};  // waits for the moment and sends the signal
  std::string signal{};
  int code = 143;
  std::optional<std::int64_t> step{};  // after which it comes, where that is known
  Words of_first_run{};                // settings of the run that is stopped alone
};

Words words_of(const SmallRun& files, const Stop& stop, const Words& more) {
  return files.words(joined(joined({"--train.num_train_epochs", "1000000", "--train.accelerator.extra_parallel_sizes",
                                    "2", "--train.accelerator.extra_parallel_names", "ep"},
                                   stop.settings),
                            more));
}

void await(const Command& job, const std::function<bool()>& came) {
  const auto end = std::chrono::steady_clock::now() + 1min;
  while (!came() && job.is_running() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
}

void await_lines(const Command& job, const SmallRun& files, std::int64_t lines) {
  CHECK(wait_for_lines(job, files.output() / "metrics.jsonl", lines));
}

// As /proc tells it.
bool catches(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
  return false;
}

std::vector<Stop> stops() {
  const auto after_steps = [](int number) {
    return [number](const Command& job, const SmallRun& files) {
      await_lines(job, files, 3);
      job.signal(number);
    };
  };
  return {
      {.what = "SIGUSR1 to mpirun", .act = after_steps(SIGUSR1), .signal = "SIGUSR1"},
      {.what = "SIGTERM to mpirun, which gives the ranks time",
       .mpirun_options = {"--mca", "odls_base_sigkill_timeout", "3"},
       .act = after_steps(SIGTERM),
       .signal = "SIGTERM",
       .code = 1},
      {.what = "SIGTERM to rank 1 alone",
       .act =
           [](const Command& job, const SmallRun& files) {
             await_lines(job, files, 3);
             ::kill(process_of_rank(job, 1), SIGTERM);
           },
       .signal = "SIGTERM"},
      {.what = "SIGINT to rank 1 alone",
       .act =
           [](const Command& job, const SmallRun& files) {
             await_lines(job, files, 3);
             ::kill(process_of_rank(job, 1), SIGINT);
           },
       .signal = "SIGINT",
       .code = 130},
      {.what = "SIGHUP to rank 1 alone",
       .act =
           [](const Command& job, const SmallRun& files) {
             await_lines(job, files, 3);
             ::kill(process_of_rank(job, 1), SIGHUP);
           },
       .signal = "SIGHUP",
       .code = 129},
      {.what = "SIGUSR1 while the data are read",
       .settings = {"--data.train_path", "many.jsonl"},
       .act =
           [](const Command& job, const SmallRun& files) {
             await(job, [&] {
               return catches(process_of_rank(job, 0), SIGUSR1) && catches(process_of_rank(job, 1), SIGUSR1);
             });
             CHECK_FALSE(std::filesystem::exists(files.output() / "metrics.jsonl"));
             job.signal(SIGUSR1);
           },
       .signal = "SIGUSR1"},
      // The line of step 2 is there, that of its evaluation is not, and behind the signal it never comes.
      {.what = "SIGUSR1 during an evaluation",
       .settings = {"--data.eval_path", "eval.jsonl", "--train.eval_steps", "2"},
       .act =
           [](const Command& job, const SmallRun& files) {
             await_lines(job, files, 2);
             std::this_thread::sleep_for(100ms);
             job.signal(SIGUSR1);
             CHECK(read_metrics(files.output() / "metrics.jsonl").size() == 2);
           },
       .signal = "SIGUSR1",
       .step = 2,
       .of_first_run = {"--data.eval_path", "very_many.jsonl"}},  // ten seconds and more
      {.what = "SIGUSR1 among saves, and again and again until all is saved",
       .settings = {"--train.checkpoint.save_steps", "1"},
       .act =
           [](const Command& job, const SmallRun& files) {
             await_lines(job, files, 3);
             const pid_t rank = process_of_rank(job, 0);
             for (int i = 0; i < 20; ++i) {
               ::kill(rank, SIGUSR1);
               std::this_thread::sleep_for(1ms);
             }
           },
       .signal = "SIGUSR1"},
  };
}

std::int64_t stopped_after(const std::string& log, const std::string& signal) {
  const auto line = "stopped by " + signal + " after step ";
  const auto at = log.find(line);
  REQUIRE(at != std::string::npos);
  CHECK(count_of(line, log) == 1);
  return std::stoll(log.substr(at + line.size()));
}

TEST_CASE("whenever a signal comes, all ranks save after the same step, and the resumed run is the uninterrupted one") {
  for (const auto& stop : stops()) {
    INFO(stop.what);
    SmallRun files;
    files.folder().write("many.jsonl", jsonl_of(small_documents(1000)));
    files.folder().write("very_many.jsonl", jsonl_of(small_documents(30'000)));
    std::filesystem::current_path(files.folder().path());

    Command job(joined(joined(mpirun(ranks, stop.mpirun_options), {TESSERA_TRAIN}),
                       words_of(files, stop, joined(stop.of_first_run, {"--train.max_steps", "1000000"}))),
                mpi_environment());
    stop.act(job, files);
    const auto first = job.wait();
    INFO(first.err);
    CHECK(first.code == stop.code);
    const auto step = stopped_after(first.err, stop.signal);
    std::cout << stop.what << ": after step " << step << '\n';
    if (stop.step) {
      CHECK(step == *stop.step);
      CHECK(column(read_metrics(files.output() / "metrics.jsonl"), "eval/ce_loss").empty());
    }

    const Words to_end{"--train.max_steps", std::to_string(step + 3)};
    const auto second =
        run_ranks(ranks, words_of(files, stop, joined(to_end, {"--train.checkpoint.load_path", "auto"})));
    INFO(second.err);
    CHECK(second.code == 0);
    CHECK_THAT(second.err, ContainsSubstring(step > 0 ? "resumed from" : "fresh start"));

    const auto whole =
        run_ranks(ranks, words_of(files, stop, joined(to_end, {"--train.checkpoint.output_dir", "whole"})));
    INFO(whole.err);
    REQUIRE(whole.code == 0);
    const auto resumed = read_metrics(files.output() / "metrics.jsonl");
    const auto uninterrupted = read_metrics("whole/metrics.jsonl");
    for (const char* key : {"loss", "grad_norm", "eval/ce_loss"})
      CHECK(column(resumed, key) == column(uninterrupted, key));
    CHECK(column(resumed, "loss").size() == static_cast<std::size_t>(step + 3));
  }
}

}  // namespace
}  // namespace tessera::test
