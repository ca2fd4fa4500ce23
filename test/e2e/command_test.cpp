// If this failed, the command would not behave as its README says: signals, launchers, refusals, exit codes.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string program = TESSERA_TRAIN;

Words command_line(const SmallRun& files, const Words& more = {}, Words before = {}) {
  before.push_back(program);
  const auto words = files.words(more);
  before.insert(before.end(), words.begin(), words.end());
  return before;
}

std::int64_t lines_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return 0;
  const auto text = base::read_file(file);
  return std::count(text.begin(), text.end(), '\n');
}

TEST_CASE("SIGTERM and SIGINT end the run after a whole step, with exit codes that say so") {
  for (const auto& [number, code, name] : {std::tuple{SIGTERM, 143, "SIGTERM"}, {SIGINT, 130, "SIGINT"}}) {
    INFO(name);
    const SmallRun files;
    const auto metrics = files.output() / "metrics.jsonl";
    Command command(command_line(files, {"--train.max_steps", "100000", "--train.num_train_epochs", "100000"}));
    while (lines_in(metrics) < 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    command.signal(number);
    const auto finished = command.wait();
    INFO(finished.err);
    CHECK(finished.code == code);
    const auto steps = column(read_metrics(metrics), "loss").size();
    CHECK(steps >= 3);
    CHECK_THAT(finished.err,
               ContainsSubstring(std::string("stopped by ") + name + " after step " + std::to_string(steps)));
  }
}

TEST_CASE("mpirun -n 1 is the same run as a plain start, bit for bit") {
  const SmallRun files;
  const auto plain = run_command(command_line(files));
  INFO(plain.err);
  REQUIRE(plain.code == 0);
  const auto expected = read_metrics(files.output() / "metrics.jsonl");
  CHECK(column(expected, "loss").size() == 5);
  const auto one = run_command(command_line(files, {}, mpirun(1)), mpi_environment());
  INFO(one.err);
  REQUIRE(one.code == 0);
  const auto metrics = read_metrics(files.output() / "metrics.jsonl");
  for (const char* key : {"loss", "aux_loss", "grad_norm"}) CHECK(column(metrics, key) == column(expected, key));
}

// Tests see no GPU (CUDA_VISIBLE_DEVICES), and a program that was built without CUDA never does.
TEST_CASE("CUDA without a GPU ends with what is missing and how to get it, once, before anything is written") {
  const SmallRun files;
  const Words cuda{"--train.accelerator.device", "cuda"}, nccl{"--train.accelerator.backend", "nccl"};
  for (const int ranks : {0, 1, 2})
    for (const auto& more : {cuda, nccl}) {
      CAPTURE(ranks, more);
      const auto finished = ranks == 0 ? run_command(command_line(files, more))
                                       : run_command(command_line(files, more, mpirun(ranks)), mpi_environment());
      INFO(finished.err);
      CHECK(finished.code == 2);
      CHECK(count_of("train.accelerator.", finished.err) == (more == cuda ? 2 : 1));  // the setting, and the way out
      CHECK_THAT(finished.err, ContainsSubstring("this program was built without CUDA; install CUDA") ||
                                   ContainsSubstring("CUDA says '"));
      CHECK_FALSE(std::filesystem::exists(files.output()));
    }
  const auto automatic = run_command(command_line(files, {"--train.max_steps", "1"}));
  CHECK(automatic.code == 0);
  CHECK_THAT(automatic.err, ContainsSubstring("); no GPU, since "));
  const auto cpu = run_command(command_line(files, {"--train.max_steps", "1", "--train.accelerator.device", "cpu"}));
  CHECK(cpu.code == 0);
  CHECK_THAT(cpu.err, !ContainsSubstring("GPU"));
}

TEST_CASE("under mpirun -n 1 a run that fails says why, once, with its own exit code") {
  const SmallRun files;
  const auto empty = files.folder() / "empty.jsonl";
  base::write_file_atomically(empty, "");
  const auto no_data = run_command(command_line(files, {"--data.eval_path", empty}, mpirun(1)), mpi_environment());
  INFO(no_data.err);
  CHECK(no_data.code == 2);
  CHECK(count_of("0 usable samples", no_data.err) == 1);
  CHECK_FALSE(std::filesystem::exists(files.output()));
  const auto blown_up = run_command(
      command_line(files, {"--train.optimizer.lr", "1e30", "--train.optimizer.max_grad_norm", "0"}, mpirun(1)),
      mpi_environment());
  INFO(blown_up.err);
  CHECK(blown_up.code == 3);
  CHECK(count_of("is not finite", blown_up.err) == 1);
}

TEST_CASE("ranks that MPI does not see are refused with the lines that start them, and nothing is written") {
  using Environment = std::map<std::string, std::string>;
  const SmallRun files;
  for (const auto& [environment, announced] :
       {std::pair{Environment{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}, "SLURM_NTASKS=4"},
        {Environment{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, "SLURM_NTASKS=4"},
        {Environment{{"PMI_SIZE", "4"}}, "PMI_SIZE=4"},
        {Environment{{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}, {"SLURM_NTASKS", "4"}}, "PMI_SIZE=4"},
        {Environment{{"MV2_COMM_WORLD_SIZE", "4"}, {"MV2_COMM_WORLD_RANK", "1"}}, "MV2_COMM_WORLD_SIZE=4"}}) {
    INFO(announced);
    const auto finished = run_command(command_line(files), environment);
    INFO(finished.err);
    CHECK(finished.code == 2);
    CHECK(count_of("] error ", finished.err) == 1);
    CHECK_THAT(finished.err, ContainsSubstring(std::string("4 ranks were announced (") + announced +
                                               "), but MPI sees 1: each would take itself for the only one"));
    CHECK_THAT(finished.err, ContainsSubstring("mpirun -n 4") && ContainsSubstring("srun --mpi=pmix -n 4"));
    CHECK_FALSE(std::filesystem::exists(files.output()));
  }
}

TEST_CASE("--help and --dry-run work whatever the environment announces, and print once") {
  const std::map<std::string, std::string> slurm{{"SLURM_NTASKS", "4"}};
  const auto help = run_command({program, "--help"}, slurm);
  CHECK(help.code == 0);
  CHECK_THAT(help.out, ContainsSubstring("train.micro_batch_size"));
  const SmallRun files;
  const auto announced = run_command(command_line(files, {"--dry-run"}), slurm);
  INFO(announced.err);
  CHECK(announced.code == 0);
  CHECK_THAT(announced.out, ContainsSubstring("# groups (4 ranks)"));
  const auto two = run_command(command_line(files, {"--dry-run"}, mpirun(2)), mpi_environment());
  INFO(two.err);
  CHECK(two.code == 0);
  CHECK(count_of("# groups (2 ranks)", two.out) == 1);
}

TEST_CASE("a dry run of eight ranks prints groups, parameters, program and memory of any of them") {
  const SmallRun files;
  const auto finished = run_command(command_line(
      files, {"--dry-run", "--rank", "5", "--train.accelerator.world_size", "8",
              "--train.accelerator.extra_parallel_sizes", "2", "--train.accelerator.extra_parallel_names", "ep"}));
  INFO(finished.err);
  CHECK(finished.code == 0);
  for (const char* part : {"# settings", "# groups (8 ranks)", "# parameters of rank 5",
                           "model.layers.1.mlp.experts.gate_proj", "# program of one step", "Exchange m0 dispatch[1]",
                           "Gather layers.1.experts", "# memory of rank 5 by purpose", "optimizer state"})
    CHECK_THAT(finished.out, ContainsSubstring(part));
  // ep is innermost: its groups are adjacent ranks.
  CHECK_THAT(finished.out, ContainsSubstring("{0,1} {2,3} {4,5} {6,7}"));
  CHECK_FALSE(std::filesystem::exists(files.output()));
}

TEST_CASE("bad input exits with 2 in one message and makes no output folder") {
  struct Wrong {
    Words words;
    std::string named;
  };
  const SmallRun files;
  files.folder().write("empty.jsonl", "");
  files.folder().write("outside.jsonl", R"({"input_ids": [1, 2, 31, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]})");
  files.folder().write("packed.gz", "\x1F\x8B\x08");
  std::filesystem::create_directory(files.folder() / "circle");
  std::filesystem::create_directory_symlink(files.folder() / "circle", files.folder() / "circle/again");
  const std::string hugging_face = files.folder() / "config.json";
  for (const auto& wrong : {Wrong{{"--train.micro_batch_siz", "2"}, "train.micro_batch_size"},
                            Wrong{{"--train.optimizer.lr", "fast"}, "train.optimizer.lr"},
                            Wrong{{"--data.train_path", files.folder() / "no_such_file"}, "no_such_file"},
                            Wrong{{"--data.train_path", files.folder() / "empty.jsonl"}, "empty.jsonl: 0 read"},
                            Wrong{{"--data.train_path", files.folder() / "outside.jsonl"}, "31"},
                            Wrong{{"--data.train_path", files.folder() / "circle"}, "circle/again leads back to"},
                            Wrong{{"--data.train_path", files.folder() / "packed.gz"}, "unpack it (gunzip)"},
                            Wrong{{"--model.config_path", files.folder() / "train.jsonl"}, "train.jsonl"},
                            Wrong{{"--model.num_experts_per_tok", "6"}, "num_experts_per_tok"},
                            Wrong{{"--model.model_path", files.folder() / "no_checkpoint"}, "no_checkpoint"},
                            Wrong{{"--data.max_seq_len", "5000"}, "data.max_seq_len"},
                            Wrong{{"--train.accelerator.tp_size", "2"}, "train.accelerator.tp_size"}}) {
    INFO(wrong.words.front() << " " << wrong.words.back());
    const auto finished = run_command(command_line(files, wrong.words));
    INFO(finished.err);
    CHECK(finished.code == 2);
    CHECK_THAT(finished.err, ContainsSubstring(wrong.named));
    CHECK(count_of("] error ", finished.err) == 1);
    CHECK_FALSE(std::filesystem::exists(files.output()));
  }
  const auto settings = run_command({program, hugging_face, "--data.train_path", files.folder() / "train.jsonl"});
  INFO(settings.err);
  CHECK(settings.code == 2);
  CHECK_THAT(settings.err, ContainsSubstring("--model.config_path " + hugging_face));
}

TEST_CASE("a run that writes into a folder of its data has the same data, and losses, when it is started again") {
  const SmallRun files;
  const auto data = files.folder() / "data";
  files.folder().write("data/train.jsonl", jsonl_of(small_documents(23)));
  std::vector<double> losses;
  for (const char* name : {"first", "second", "third"}) {
    const auto finished =
        run_command(command_line(files, {"--data.train_path", data, "--train.log.trace", data / "trace.json",
                                         "--train.checkpoint.output_dir", data / "runs" / name}));
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    const auto again = column(read_metrics(data / "runs" / name / "metrics.jsonl"), "loss");
    if (losses.empty())
      losses = again;
    else
      CHECK_THAT(finished.err, ContainsSubstring("data.train_path: left out, as written by a run: "));
    CHECK(again == losses);
  }
}

TEST_CASE("a loss that is not finite exits with 3 and names the step once") {
  const SmallRun files;
  const auto finished = run_command(command_line(files, {"--train.optimizer.lr", "1e38"}));
  INFO(finished.err);
  CHECK(finished.code == 3);
  CHECK(count_of("step 2: the output of layer 0 is not finite", finished.err) == 1);
}

TEST_CASE("garbage in freed memory changes nothing over three steps") {
  const SmallRun files;
  const auto plain = run_command(command_line(files, {"--train.max_steps", "3"}));
  REQUIRE(plain.code == 0);
  const auto expected = read_metrics(files.output() / "metrics.jsonl");
  const auto perturbed = run_command(command_line(files, {"--train.max_steps", "3"}), {{"MALLOC_PERTURB_", "128"}});
  INFO(perturbed.err);
  REQUIRE(perturbed.code == 0);
  const auto metrics = read_metrics(files.output() / "metrics.jsonl");
  for (const char* key : {"loss", "grad_norm"}) CHECK(column(metrics, key) == column(expected, key));
}

}  // namespace
}  // namespace tessera::test
