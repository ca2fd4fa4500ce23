// Saving and loading checkpoints against dd of the same bytes, alone or under mpirun. Prints Markdown.
//
//   bench_checkpoint FOLDER [LAYERS]     e.g. mpirun -n 2 bench_checkpoint /data/bench 4
//
// A model of LAYERS layers with 40 million parameters each (masters and two moments in float32: 480 MB a layer), in
// FOLDER, which must have room for three times that; what it writes there is removed again. Each measurement takes
// turns with dd; medians of five. Loading and its dd read files that are not in memory (posix_fadvise), as far as the
// kernel follows; "again" is with files in memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quantity.h"
#include "bench/measure.h"
#include "checkpoint/folder.h"
#include "checkpoint/restore.h"
#include "checkpoint/saver.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/launch.h"
#include "comm/world.h"
#include "config/command_line.h"
#include "train/assemble.h"

namespace tessera::bench {
namespace {

constexpr int repeats = 5;

std::string model_of(std::int64_t layers) {
  return fmt::format(R"({{"model_type": "qwen3_moe", "vocab_size": 4096, "hidden_size": 512, "num_hidden_layers": {},
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "moe_intermediate_size": 784, "num_experts": 32,
    "num_experts_per_tok": 4, "max_position_embeddings": 512}})",
                     layers);
}

config::Settings settings_of(const std::filesystem::path& folder, std::int64_t ep) {
  const std::vector<std::string> words{"tessera-train",
                                       "--model.config_path",
                                       folder / "config.json",
                                       "--data.train_path",
                                       folder / "config.json",
                                       "--data.max_seq_len",
                                       "16",
                                       "--train.accelerator.ep_size",
                                       std::to_string(ep)};
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  return config::read_command_line(static_cast<int>(argv.size()), argv.data()).settings;
}

void run_shell(const std::string& command) {
  base::require(std::system((command + " 2>/dev/null").c_str()) == 0, "'{}' failed", command);
}

std::vector<base::Path> shards(const base::Path& checkpoint) {
  std::vector<base::Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) files.push_back(entry.path());
  return files;
}

void drop_from_memory(const base::Path& checkpoint) {
  for (const auto& path : shards(checkpoint)) {
    const int file = ::open(path.c_str(), O_RDONLY);
    base::require(file >= 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, "cannot drop {}", path.string());
    ::close(file);
  }
}

class Bench {
 public:
  Bench(base::Path folder, comm::World& world, std::int64_t ep)
      : folder_(std::move(folder)),
        world_(world),
        assembly_(train::make_blueprint(settings_of(folder_, ep), world.size()), world.communicator()) {}

  // Seconds of a save, from start to whole, and of them those in which nothing else could be done.
  checkpoint::SaveResult save(checkpoint::SaveMode mode) {
    checkpoint::Saver saver({.output = folder_}, assembly_.store(), assembly_.optimizer(), assembly_.blueprint().layout,
                            assembly_.world());
    return save_with(saver, mode);
  }
  // The second save of a saver, whose copies are there.
  checkpoint::SaveResult save_in_background() {
    checkpoint::Saver saver({.output = folder_}, assembly_.store(), assembly_.optimizer(), assembly_.blueprint().layout,
                            assembly_.world());
    static_cast<void>(save_with(saver, checkpoint::SaveMode::background));
    return save_with(saver, checkpoint::SaveMode::background);
  }

  double load(const base::Path& checkpoint) {
    world_.communicator()->barrier();
    const auto began = base::seconds_now();
    checkpoint::StoredCheckpoint stored(checkpoint);
    last_ = checkpoint::restore(stored, assembly_.store(), assembly_.optimizer(), world_.rank(), world_.size());
    world_.communicator()->barrier();
    return base::seconds_now() - began;
  }

  // What rank 0 does meanwhile, alone.
  double alone(const std::function<void()>& action) {
    world_.communicator()->barrier();
    const auto began = base::seconds_now();
    if (world_.rank() == 0) action();
    world_.communicator()->barrier();
    return base::seconds_now() - began;
  }

  [[nodiscard]] const checkpoint::Restored& last() const { return last_; }
  [[nodiscard]] const base::Path& folder() const { return folder_; }
  [[nodiscard]] base::Path checkpoint() const { return folder_ / checkpoint::folder_name(1); }

 private:
  checkpoint::SaveResult save_with(checkpoint::Saver& saver, checkpoint::SaveMode mode) {
    world_.communicator()->barrier();
    saver.start({.progress = {.step = 1, .optimizer_steps = 1, .total_steps = 1},
                 .layout = "",
                 .settings = "null",
                 .model = "{}"},
                mode);
    auto result = saver.poll();
    while (!result) {  // a step of a tenth of a second that needs no core
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      result = saver.poll();
    }
    base::require(!result->failure, "{}", result->failure.value_or(""));
    return *result;
  }

  base::Path folder_;
  comm::World& world_;
  train::Assembly assembly_;
  checkpoint::Restored last_;
};

void print_row(bool speaks, const char* what, std::uint64_t bytes, std::vector<double> ours,
               std::vector<double> theirs) {
  const double a = median(std::move(ours)), b = median(std::move(theirs));
  if (speaks) fmt::print("| {} | {} | {:.3g} | {:.3g} | {:.2f} |\n", what, base::format_bytes(bytes), a, b, b / a);
}

void measure(Bench& bench, comm::World& world) {
  const bool speaks = world.rank() == 0;
  const auto dd_target = bench.folder() / "dd";
  std::vector<double> saves, writes, stalls, whole;
  std::uint64_t bytes = 0;
  static_cast<void>(bench.save(checkpoint::SaveMode::wait));
  const checkpoint::StoredCheckpoint written(bench.checkpoint());
  bytes = written.bytes();
  for (int k = 0; k < repeats; ++k) {
    saves.push_back(bench.save(checkpoint::SaveMode::wait).seconds);
    writes.push_back(bench.alone([&] {
      run_shell(fmt::format("dd if=/dev/zero of='{}' bs=1M count={} conv=fdatasync", dd_target.string(), bytes >> 20));
    }));
    const auto result = bench.save_in_background();
    stalls.push_back(result.seconds_waited);
    whole.push_back(result.seconds);
  }
  if (speaks) fmt::print("| | bytes | seconds | dd | dd / ours |\n| --- | --- | --- | --- | --- |\n");
  print_row(speaks, "save", bytes, saves, writes);
  std::vector<double> loads, reads, again, reads_again;
  const auto read_all = [&] {
    for (const auto& path : shards(bench.checkpoint()))
      run_shell(fmt::format("dd if='{}' of=/dev/null bs=1M", path.string()));
  };
  for (int k = 0; k < repeats; ++k) {
    static_cast<void>(bench.alone([&] { drop_from_memory(bench.checkpoint()); }));
    loads.push_back(bench.load(bench.checkpoint()));
    static_cast<void>(bench.alone([&] { drop_from_memory(bench.checkpoint()); }));
    reads.push_back(bench.alone(read_all));
    again.push_back(bench.load(bench.checkpoint()));
    reads_again.push_back(bench.alone(read_all));
  }
  print_row(speaks, "load", bytes, loads, reads);
  print_row(speaks, "load again", bytes, again, reads_again);
  const double stall = median(std::move(stalls)), save = median(std::move(whole));
  if (speaks)
    fmt::print("\nIn the background: {:.3g} s to the end, of which training waits for {:.3g} s ({:.1f} %).\n", save,
               stall, 100 * stall / save);
}

base::ExitCode run(const base::Path& folder, std::int64_t layers, comm::World& world) {
  base::set_log(base::LogLevel::warning, world.rank() == 0);
  if (world.rank() == 0) {
    base::make_folder(folder);
    base::write_file_atomically(folder / "config.json", model_of(layers));
  }
  world.communicator()->barrier();
  {
    Bench bench(folder, world, 1);
    measure(bench, world);
    if (world.size() > 1) {
      Bench other(folder, world, world.size());
      std::vector<double> loads;
      for (int k = 0; k < repeats; ++k) loads.push_back(other.load(bench.checkpoint()));
      const double seconds = median(std::move(loads));
      if (world.rank() == 0)
        fmt::print("\nInto another layout (fsdp to ep), files in memory: {:.3g} s; rank 0 needs {}, reads {} for it.\n",
                   seconds, base::format_bytes(other.last().bytes_needed), base::format_bytes(other.last().bytes_read));
    }
  }
  world.communicator()->barrier();
  if (world.rank() == 0) {
    for (const char* name : {"dd", "latest", "config.json"}) std::filesystem::remove(folder / name);
    std::filesystem::remove_all(folder / checkpoint::folder_name(1));
  }
  return base::ExitCode::done;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: bench_checkpoint FOLDER [LAYERS]\n");
    return 2;
  }
  using namespace tessera;
  comm::World world(comm::read_launch());
  return static_cast<int>(world.run([&] { return bench::run(argv[1], argc == 3 ? std::atoll(argv[2]) : 2, world); }));
}
