// If this failed, ranks whose hosts have different files would hang or train together on a mixture of them, or an error
// that all ranks meet at their start would be printed once per rank.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"
#include "unit/data/corpus_files.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

// Two ranks in folders of their own, as on hosts without a common disk: with the same files, until a test changes one.
class TwoHosts {
 public:
  TwoHosts() {
    for (const char* rank : {"0", "1"}) {
      fs::create_directory(files_.folder() / rank);
      for (const char* file : {"config.json", "train.jsonl", "eval.jsonl"})
        fs::copy_file(files_.folder() / file, files_.folder() / rank / file);
    }
  }
  [[nodiscard]] const SmallRun& files() const { return files_; }
  [[nodiscard]] fs::path of_rank(int rank, const std::string& file) const {
    return files_.folder() / (std::to_string(rank) + "/" + file);
  }
  void write(int rank, const std::string& file, const std::string& content) const {
    files_.folder().write(std::to_string(rank) + "/" + file, content);
  }
  void write_on_both(const std::string& file, const std::string& content) const {
    for (const int rank : {0, 1}) write(rank, file, content);
  }
  void copy_to_both(const fs::path& from, const std::string& to) const {
    for (const int rank : {0, 1}) fs::copy(from, of_rank(rank, to), fs::copy_options::recursive);
  }
  // In rank 1's file the first `from` is replaced by `to`, of the same length.
  void change(const std::string& file, const std::string& from, const std::string& to) const {
    auto text = base::read_file(of_rank(1, file));
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    write(1, file, text.replace(at, from.size(), to));
  }

  [[nodiscard]] Finished run(const Words& more = {}) const {
    auto line = "cd " + files_.folder().path().string() + "/$OMPI_COMM_WORLD_RANK && exec " + TESSERA_TRAIN;
    const Words own{"--model.config_path", "config.json", "--data.train_path", "train.jsonl"};
    for (const auto& word : files_.words(joined(own, more))) line += " '" + word + "'";
    return run_command(joined(mpirun(2), {"sh", "-c", line}), mpi_environment());
  }

 private:
  SmallRun files_;
};

// Checks that the run is refused once, because of `difference` on rank 1, before anything is written.
void check_refused(const TwoHosts& hosts, const std::string& difference, const Words& more = {}) {
  CAPTURE(difference);
  const auto finished = hosts.run(more);
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK_THAT(finished.err, ContainsSubstring("error rank 1 was started with other ") && ContainsSubstring(difference));
  CHECK_FALSE(fs::exists(hosts.files().output()));
}

TEST_CASE("a config.json that differs on one host is refused with the key and both values") {
  struct Change {
    std::string key, from, to;
  };
  const TwoHosts hosts;
  const auto config = base::read_file(hosts.of_rank(0, "config.json"));
  for (const auto& [key, here, there] : {Change{"num_experts_per_tok", "2", "3"},
                                         {"norm_topk_prob", "true", "false"},
                                         {"rope_theta", "10000.0", "10007.0"},
                                         {"rms_norm_eps", "1e-06", "2e-06"}}) {
    const auto with = [&](const std::string& value) {
      auto text = config;
      if (const auto at = text.find("\"" + key + "\""); at != std::string::npos)
        text.erase(at, text.find_first_of(",\n", at) + 1 - at);
      return text.insert(text.find('{') + 1, "\"" + key + "\": " + value + ",");
    };
    hosts.write(0, "config.json", with(here));
    hosts.write(1, "config.json", with(there));
    check_refused(hosts, "config.json: " + key + " is " + there + " there, and " + here + " on rank 0");
  }
}

TEST_CASE("data of one size and other content on one host are refused, in every format, also those held out") {
  const TwoHosts hosts;
  hosts.change("train.jsonl", "[0,", "[1,");
  check_refused(hosts, "the content of data.train_path (hash) is ");

  const TwoHosts held_out;
  held_out.change("eval.jsonl", "[5,", "[6,");
  check_refused(held_out, "the content of data.eval_path (hash) is ", {"--data.eval_path", "eval.jsonl"});

  const TwoHosts text;
  text.write_on_both("train.txt", std::string(4000, 'a') + 'x' + std::string(4000, 'b'));
  text.change("train.txt", "x", "y");
  check_refused(text, "the content of data.train_path (hash) is ",
                {"--data.train_path", "train.txt", "--model.vocab_size", "300"});

  const TwoHosts pair;
  for (const char* rank : {"0", "1"})
    write_pair<std::uint16_t>(pair.files().folder(), std::string(rank) + "/t",
                              {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 + (rank[0] - '0'), 17, 18}}, 8);
  check_refused(pair, "the content of data.train_path (hash) is ", {"--data.train_path", "t.bin"});
}

TEST_CASE("counts that read alike when they are rounded are compared as they are") {
  const TwoHosts hosts;
  const std::vector<std::int64_t> ids(50'001, 7), more(50'011, 7);
  write_pair<std::uint16_t>(hosts.files().folder(), "0/t", {ids}, 8);
  write_pair<std::uint16_t>(hosts.files().folder(), "1/t", {more}, 8);
  check_refused(hosts, "the number of windows of data.train_path is 25005 there, and 25000 on rank 0",
                {"--data.train_path", "t.bin", "--data.max_seq_len", "2"});
}

TEST_CASE("a plan that differs on one host is refused, also where it makes no difference yet") {
  const TwoHosts hosts;
  nlohmann::json plan;
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    plan["ep"][std::string("model.layers.*.mlp.experts.") + name] = "Shard(0)";
  plan["emb"]["model.embed_tokens.weight"] = "Shard(0)";
  hosts.write_on_both("plan.json", nlohmann::json({{"extra_parallel_plan", plan}}).dump());
  hosts.change("plan.json", "model.embed_tokens", "model.embed_*okens");
  check_refused(hosts, "plan.emb.0 is model.embed_*okens.weight there, and model.embed_tokens.weight on rank 0",
                {"--train.accelerator.parallel_plan", "plan.json", "--train.accelerator.extra_parallel_names", "ep",
                 "--train.accelerator.extra_parallel_sizes", "2"});
}

TEST_CASE("weights to start from that differ on one host are refused: of HuggingFace, and of a checkpoint") {
  const SmallRun trained;
  const auto finished = run_command(
      joined({TESSERA_TRAIN}, trained.words({"--train.max_steps", "1", "--train.checkpoint.save_hf_weights", "true"})));
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const Words from_hf{"--model.model_path", "hf"};

  const TwoHosts headers;
  headers.copy_to_both(trained.output() / "hf", "hf");
  headers.change("hf/model.safetensors", R"("format":"pt")", R"("format":"tf")");
  check_refused(headers, "hf/model.safetensors (hash) is ", from_hf);

  const TwoHosts weights;
  weights.copy_to_both(trained.output() / "hf", "hf");
  const auto file = weights.of_rank(1, "hf/model.safetensors");
  auto bytes = base::read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  weights.write(1, "hf/model.safetensors", bytes);
  check_refused(weights, "hf/model.safetensors (hash) is ", from_hf);

  const auto other = run_command(
      joined({TESSERA_TRAIN}, trained.words({"--train.max_steps", "1", "--train.seed", "7",
                                             "--train.checkpoint.output_dir", trained.folder() / "other"})));
  REQUIRE(other.code == 0);
  const TwoHosts checkpoints;
  fs::copy(trained.output() / "step_000001", checkpoints.of_rank(0, "saved"));
  fs::copy(trained.folder() / "other" / "step_000001", checkpoints.of_rank(1, "saved"));
  check_refused(checkpoints, "the manifest of saved (hash) is ",
                {"--train.checkpoint.load_path", "saved", "--train.checkpoint.allow_changes", "true"});
}

TEST_CASE("ranks that would convert different weights are refused, and no folder is made") {
  const SmallRun files;
  for (const char* rank : {"0", "1"}) {
    const auto trained =
        run_command(joined({TESSERA_TRAIN}, files.words({"--train.max_steps", "1", "--train.seed", rank,
                                                         "--train.checkpoint.output_dir", files.folder() / rank})));
    INFO(trained.err);
    REQUIRE(trained.code == 0);
  }
  const auto target = (files.folder() / "hf").string();
  const auto line = "cd " + files.folder().path().string() + "/$OMPI_COMM_WORLD_RANK && exec " + TESSERA_CONVERT +
                    " step_000001 " + target;
  const auto finished = run_command(joined(mpirun(2), {"sh", "-c", line}), mpi_environment());
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK_THAT(finished.err, ContainsSubstring("rank 1 was started with other ") &&
                               ContainsSubstring("the manifest of step_000001 (hash) is "));
  CHECK_FALSE(fs::exists(target));
}

TEST_CASE("ranks that were started with another setting are refused with its name and both values") {
  const SmallRun files;
  auto command = joined(joined(mpirun(2), {TESSERA_TRAIN}), files.words());
  command.emplace_back(":");
  command = joined(joined(command, {"-n", "2", TESSERA_TRAIN}), files.words({"--train.max_steps", "6"}));
  const auto finished = run_command(command, mpi_environment());
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK_THAT(finished.err, ContainsSubstring("rank 2 was started with other settings, another model or plan, or other "
                                             "data than rank 0: train.max_steps is 6 there, and 5 on rank 0;"));
  CHECK_FALSE(fs::exists(files.output()));
}

TEST_CASE("an error that all ranks meet is told once, however long the launcher waits before it kills them") {
  const SmallRun files;
  nlohmann::json plan;
  plan["extra_parallel_plan"]["ep"]["model.no_such"] = "Shard(0)";
  files.folder().write("plan.json", plan.dump());
  files.folder().write("broken.json", "{");
  const auto missing = (files.folder() / "missing").string();
  const auto told_once = [&](int ranks, const std::string& waits, const char* program, const Words& words,
                             const std::string& reason) {
    CAPTURE(words);
    const auto finished =
        run_command(joined(joined(mpirun(ranks, {"--mca", "odls_base_sigkill_timeout", waits}), {program}), words),
                    mpi_environment());
    INFO(finished.err);
    CHECK(finished.code == 2);
    CHECK(count_of("] error ", finished.err) == 1);
    CHECK(count_of(reason, finished.err) == 1);
    CHECK_FALSE(fs::exists(files.output()));
  };
  told_once(8, "10", TESSERA_TRAIN, files.words({"--train.no_such_setting", "3"}), "no_such_setting");
  // Longer than the three seconds for which rank 0 was once left to speak alone.
  const auto by_three = [&](const Words& more, const std::string& reason) {
    told_once(3, "4", TESSERA_TRAIN, files.words(more), reason);
  };
  by_three({"--train.accelerator.parallel_plan", files.folder() / "plan.json", "--train.accelerator.ep_size", "3"},
           "matches no parameter");
  by_three({"--data.train_path", missing}, "no file, folder or pattern matches");
  by_three({"--model.config_path", files.folder() / "broken.json"}, "broken.json");
  by_three({"--model.model_path", missing}, missing);
  by_three({"--dry-run", "--rank", "3"}, "--rank 3 is not one of 3 ranks");
  told_once(3, "4", TESSERA_TRAIN, {missing}, missing);
  told_once(3, "4", TESSERA_CONVERT, {missing, missing + "2"}, missing + " is not there");
}

// Without PMIx tasks of Slurm, or ranks of another MPI, cannot hear of each other.
TEST_CASE("processes of one launcher that MPI cannot join are refused once a host") {
  const SmallRun files;
  std::string line;
  for (int rank = 0; rank < 4; ++rank) {
    line += "PMI_SIZE=4 PMI_RANK=" + std::to_string(rank) + " " + TESSERA_TRAIN;
    for (const auto& word : files.words()) line += " '" + word + "'";
    line += " & ";
  }
  const auto finished = run_command({"sh", "-c", line + "wait"});
  INFO(finished.err);
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK(count_of("4 ranks were announced (PMI_SIZE=4), but MPI sees 1", finished.err) == 1);
  CHECK_FALSE(fs::exists(files.output()));
}

}  // namespace
}  // namespace tessera::test
