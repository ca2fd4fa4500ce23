// If this failed, a run would take more memory, files or threads the longer it lasts, until it cannot go on.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool frees_memory = false;  // its allocator holds back what was freed
#else
constexpr bool frees_memory = true;
#endif

constexpr std::int64_t steps = 20000, settled = 1000, around = 500;

// The last step in a metrics file, by its end; 0 if there is none yet.
std::int64_t last_step(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return 0;
  const auto size = static_cast<std::int64_t>(in.tellg());
  const auto read = std::min<std::int64_t>(size, 8192);
  std::string text(static_cast<std::size_t>(read), ' ');
  in.seekg(size - read);
  in.read(text.data(), read);
  const std::string key = "\"step\":";
  const auto at = text.substr(0, text.rfind('\n') + 1).rfind(key);
  return at == std::string::npos ? 0 : std::stoll(text.substr(at + key.size(), 20));
}

// The resources of a process: the largest value seen of each.
struct Holding {
  std::int64_t anonymous_kib = 0, threads = 0, files = 0, mappings = 0;

  void note(const Holding& other) {
    anonymous_kib = std::max(anonymous_kib, other.anonymous_kib);
    threads = std::max(threads, other.threads);
    files = std::max(files, other.files);
    mappings = std::max(mappings, other.mappings);
  }
};

Holding holding_of(pid_t process) {
  Holding now;
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::string word;
  for (std::ifstream status(folder / "status"); status >> word;) {
    if (word == "RssAnon:") status >> now.anonymous_kib;
    if (word == "Threads:") status >> now.threads;
  }
  std::error_code ended;
  for (std::filesystem::directory_iterator file(folder / "fd", ended), end; !ended && file != end;
       file.increment(ended))
    ++now.files;
  std::ifstream maps(folder / "maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

// Measurements around step `settled`, and at the end.
struct Growth {
  Holding early, late;
};

// Measures each process while the program runs.
std::vector<Growth> watch(const Command& program, const std::filesystem::path& metrics,
                          const std::vector<std::function<pid_t()>>& processes) {
  std::vector<Growth> growths(processes.size());
  while (program.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto step = last_step(metrics);
    const bool is_early = step >= settled - around && step <= settled + around;
    const bool is_late = step > steps - 2 * around && step < steps;
    if (!is_early && !is_late) continue;
    for (std::size_t k = 0; k < processes.size(); ++k)
      (is_early ? growths[k].early : growths[k].late).note(holding_of(processes[k]()));
  }
  return growths;
}

void check(const std::vector<Growth>& growths) {
  constexpr double anonymous_share = 0.02;
  constexpr std::int64_t passing = 3;  // what a save has open is not always seen
  for (const auto& [early, late] : growths) {
    CAPTURE(early.anonymous_kib, late.anonymous_kib, early.files, late.files, early.mappings, late.mappings);
    REQUIRE(early.anonymous_kib > 0);
    REQUIRE(late.anonymous_kib > 0);
    CHECK(static_cast<double>(late.anonymous_kib) < (1 + anonymous_share) * static_cast<double>(early.anonymous_kib));
    CHECK(late.threads <= early.threads + passing);
    CHECK(late.files <= early.files + passing);
    CHECK(late.mappings <= early.mappings + passing);
  }
}

// One layer of width 16 on 20 windows of 32 tokens, with evaluations and saves.
Words words_of(const SmallRun& files, const Words& more = {}) {
  const auto text = files.folder().write("text.txt", std::string(641, 'a'));
  Words options{"--model.vocab_size",
                "257",
                "--model.hidden_size",
                "16",
                "--model.mlp_only_layers",
                "[]",
                "--model.num_hidden_layers",
                "1",
                "--data.train_path",
                text,
                "--data.eval_path",
                text,
                "--data.max_seq_len",
                "32",
                "--train.global_batch_size",
                "2",
                "--train.num_train_epochs",
                "10000",
                "--train.max_steps",
                std::to_string(steps),
                "--train.eval_steps",
                "250",
                "--train.checkpoint.save_steps",
                "250",
                "--train.checkpoint.keep_last",
                "2",
                "--train.log.level",
                "warning"};
  options.insert(options.end(), more.begin(), more.end());
  return files.words(options);
}

TEST_CASE("a rank holds no more after 20,000 steps than after 1,000") {
  if (!frees_memory) return;
  const SmallRun files;
  auto line = words_of(files);
  line.insert(line.begin(), TESSERA_TRAIN);
  Command program(line);
  const auto growths = watch(program, files.output() / "metrics.jsonl", {[&] { return program.process(); }});
  const auto finished = program.wait();
  INFO(finished.err);
  CHECK(finished.code == 0);
  check(growths);
}

TEST_CASE("two ranks that share layers and experts hold no more after 20,000 steps than after 1,000") {
  if (!frees_memory) return;
  const SmallRun files;
  auto line = mpirun(2);
  line.emplace_back(TESSERA_TRAIN);
  const auto words = words_of(
      files, {"--model.num_hidden_layers", "2", "--train.accelerator.ep_size", "2", "--train.micro_batch_size", "1"});
  line.insert(line.end(), words.begin(), words.end());
  Command program(line, mpi_environment());
  const auto rank = [&](int k) { return [&program, k] { return process_of_rank(program, k); }; };
  const auto growths = watch(program, files.output() / "metrics.jsonl", {rank(0), rank(1)});
  const auto finished = program.wait();
  INFO(finished.err);
  CHECK(finished.code == 0);
  check(growths);
}

}  // namespace
}  // namespace tessera::test
