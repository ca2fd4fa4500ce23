// If this failed, tessera-convert would write other bytes on several ranks than on one, change weights, or accept a
// damaged checkpoint.
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "checkpoint/float_type.h"
#include "support/catch.h"
#include "support/huggingface_folder.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

Finished convert(const Words& words) { return run_command(joined({TESSERA_CONVERT}, words)); }

Finished convert_by(int ranks, const Words& words) {
  return run_command(joined(joined(mpirun(ranks), {TESSERA_CONVERT}), words), mpi_environment());
}

std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::directory_iterator(folder))
    content[entry.path().filename().string()] = base::read_file(entry.path());
  return content;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// Three ranks trained it: experts among two of them would not divide, so among three.
void train(const SmallRun& files) {
  const auto finished = run_ranks(
      3,
      files.words({"--train.accelerator.extra_parallel_names", "ep", "--train.accelerator.extra_parallel_sizes", "3",
                   "--data.eval_path", files.folder() / "eval.jsonl", "--train.checkpoint.save_hf_weights", "true"}));
  INFO(finished.err);
  REQUIRE(finished.code == 0);
}

TEST_CASE("a trained model goes out and in again, by any number of ranks, with the same bytes") {
  const SmallRun files;
  const auto& folder = files.folder();
  train(files);
  const Words small{"--max-shard-size", "4KB"};
  const auto one = convert(joined({files.output(), folder / "one"}, small));
  INFO(one.err);
  REQUIRE(one.code == 0);
  CHECK_THAT(one.err, ContainsSubstring("float32 weights in"));
  const auto three = convert_by(3, joined({files.output(), folder / "three"}, small));
  INFO(three.err);
  REQUIRE(three.code == 0);
  const auto expected = content_of(folder / "one");
  CHECK(expected.size() > 8);
  CHECK(content_of(folder / "three") == expected);

  REQUIRE(convert({folder / "one", folder / "back"}).code == 0);
  REQUIRE(convert_by(3, {folder / "three", folder / "back_by_three"}).code == 0);
  CHECK(names_in(folder / "back") == std::set<std::string>{"manifest.json", "shard_00000.safetensors"});
  CHECK(names_in(folder / "back_by_three") == std::set<std::string>{"manifest.json", "shard_00000.safetensors",
                                                                    "shard_00001.safetensors",
                                                                    "shard_00002.safetensors"});
  for (const char* back : {"back", "back_by_three"}) {
    const auto again = folder / (std::string(back) + "_again");
    REQUIRE(convert_by(2, joined({folder / back, again}, small)).code == 0);
    CHECK(content_of(again) == expected);
  }
}

TEST_CASE(
    "save_hf_weights writes what tessera-convert makes of the last checkpoint, and a run that goes on replaces it") {
  const SmallRun files;
  train(files);
  const auto first = content_of(files.output() / "hf");
  REQUIRE(convert({files.output(), files.folder() / "one"}).code == 0);
  CHECK(content_of(files.folder() / "one") == first);
  const auto more = run_command(
      joined({TESSERA_TRAIN}, files.words({"--train.checkpoint.load_path", "auto", "--train.checkpoint.save_hf_weights",
                                           "true", "--data.eval_path", files.folder() / "eval.jsonl",
                                           "--train.max_steps", "7", "--train.micro_batch_size", "3"})));
  INFO(more.err);
  REQUIRE(more.code == 0);
  REQUIRE(convert({files.output() / "step_000007", files.folder() / "two"}).code == 0);
  CHECK(content_of(files.output() / "hf") == content_of(files.folder() / "two"));
  CHECK(content_of(files.output() / "hf").at("model.safetensors") != first.at("model.safetensors"));
}

TEST_CASE("a run that begins with a converted checkpoint is the run that begins with the HuggingFace folder") {
  const SmallRun files;
  const auto& folder = files.folder();
  train(files);
  REQUIRE(convert({files.output(), folder / "hf"}).code == 0);
  REQUIRE(convert_by(3, {folder / "hf", folder / "ck"}).code == 0);
  const auto from = [&](const Words& more) {
    const auto output = folder / more.front().substr(2);
    const auto finished =
        run_command(joined({TESSERA_TRAIN}, files.words(joined(more, {"--train.checkpoint.output_dir", output}))));
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return column(read_metrics(output / "metrics.jsonl"), "loss");
  };
  const auto losses = from({"--model.model_path", folder / "hf"});
  CHECK(losses.size() == 5);
  CHECK(from({"--train.checkpoint.load_path", folder / "ck"}) == losses);
}

// A step with a learning rate of 0 changes no bit.
TEST_CASE("HuggingFace's weights go through a run of any layout and out again, bit for bit, whatever their shapes") {
  using namespace checkpoint;
  int turn = 0;
  for (const auto sizes : {Sizes::coprime, Sizes::square, Sizes::square_fused})
    for (const int ranks : {1, 2, 4}) {
      const bool fused = ++turn % 2 == 0;
      CAPTURE(static_cast<int>(sizes), ranks, fused);
      auto config = small_config(sizes);
      config.vocab_size = 31;  // of the documents
      const SmallRun files;
      const auto type = ranks == 2 ? ElementType::BF16 : ElementType::F32;
      const auto separate = separate_tensors(config, type);
      write_folder(files.folder() / "in", config, fused ? fused_tensors(config, type) : separate, type);
      Words words{"--model.config_path",  files.folder() / "in",
                  "--model.model_path",   files.folder() / "in",
                  "--train.optimizer.lr", "0",
                  "--train.max_steps",    "1"};
      if (ranks > 1)
        words = joined(words, {"--train.accelerator.extra_parallel_names", "ep",
                               "--train.accelerator.extra_parallel_sizes", std::to_string(ranks)});
      const auto trained = run_ranks(ranks, files.words(words));
      INFO(trained.err);
      REQUIRE(trained.code == 0);
      REQUIRE(convert({files.output(), files.folder() / "out", "--dtype", std::string(torch_name(type))}).code == 0);
      CHECK(read_tensors(files.folder() / "out", type) == separate);
    }
}

TEST_CASE("--inspect prints the same page for any number of ranks, and ends with 2 and a name if a byte was changed") {
  const SmallRun files;
  train(files);
  const auto one = convert({"--inspect", files.output()});
  INFO(one.err);
  CHECK(one.code == 0);
  for (const char* part : {"step       5 of 5", "ep 3", "master, exp_avg, exp_avg_sq", "all hashes agree"})
    CHECK_THAT(one.out, ContainsSubstring(part));
  const auto three = convert_by(3, {"--inspect", files.output()});
  CHECK(three.code == 0);
  CHECK(three.out == one.out);
  const auto shard = files.output() / "step_000005" / "shard_00001.safetensors";
  auto bytes = base::read_file(shard);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  for (const auto& finished : {convert({"--inspect", files.output()}), convert_by(3, {"--inspect", files.output()}),
                               convert_by(3, {files.output(), files.folder() / "hf"})}) {
    INFO(finished.err);
    CHECK(finished.code == 2);
    CHECK(count_of("does not have the hash", finished.err) == 1);
    CHECK_THAT(finished.err, ContainsSubstring("shard_00001.safetensors: tensor "));
  }
  CHECK_FALSE(fs::exists(files.folder() / "hf"));
  CHECK_FALSE(fs::exists(files.folder() / "hf.tmp"));
}

TEST_CASE("a conversion that is not possible is refused once, with 2, and nothing is written") {
  const SmallRun files;
  const auto& folder = files.folder();
  const auto fixture = fs::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "fixtures" / "base";
  REQUIRE(convert({fixture, folder / "ck"}).code == 0);
  const auto before = names_in(folder.path());
  const auto new_folder = (folder / "new").string();
  struct Wrong {
    Words words;
    std::string named;
  };
  for (const auto& [words, named] :
       {Wrong{{}, "give a SOURCE and a TARGET"}, Wrong{{folder / "ck"}, "give a SOURCE and a TARGET"},
        Wrong{{folder / "none", new_folder}, "none is not there"},
        Wrong{{folder.path(), new_folder}, "is neither a checkpoint"},
        Wrong{{folder / "train.jsonl", new_folder}, "is neither a checkpoint"},
        Wrong{{folder / "ck", folder / "ck"}, "exists already"},
        Wrong{{folder / "ck", new_folder, "--dtype", "int8"}, "--dtype int8 is not a type"},
        Wrong{{folder / "ck", new_folder, "--experts", "both"}, "--experts both"},
        Wrong{{folder / "ck", new_folder, "--max-shard-size", "0"}, "--max-shard-size 0"},
        Wrong{{folder / "ck", new_folder, "--max-shard-size", "5 apples"}, "--max-shard-size 5 apples"},
        Wrong{{folder / "ck", new_folder, "--max-shard-size", "99999999999GB"}, "--max-shard-size 99999999999GB"},
        Wrong{{folder / "ck", new_folder, "--config", fixture}, "--config"},
        Wrong{{fixture, new_folder, "--experts", "fused"}, "--experts fused: applies to HuggingFace folders"},
        Wrong{{fixture, new_folder, "--dtype", "bfloat16"}, "float32 or float64, not bfloat16"},
        Wrong{{fixture / "model.safetensors", new_folder, "--config", folder / "none.json"}, "none.json"},
        Wrong{{"--inspect", folder / "ck", "--dtype", "float32"}, "--inspect"},
        Wrong{{"--inspekt", folder / "ck"}, "--inspekt"}}) {
    const auto finished = convert(words);
    INFO(named << "\n" << finished.err);
    CHECK(finished.code == 2);
    CHECK(count_of("] error ", finished.err) == 1);
    CHECK_THAT(finished.err, ContainsSubstring(named));
  }
  const auto ranks = convert_by(3, {folder / "none", new_folder});
  CHECK(ranks.code == 2);
  CHECK(count_of("none is not there", ranks.err) == 1);
  CHECK(names_in(folder.path()) == before);
}

TEST_CASE("names with spaces, relative ones, links and a slash at the end are folders like others") {
  const SmallRun files;
  const auto& folder = files.folder();
  const auto fixture = fs::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "fixtures" / "base";
  fs::create_directories(folder / "a b");
  fs::create_directory_symlink(folder / "a b", folder / "link");
  REQUIRE(convert({fixture, (folder / "link" / "c d").string() + "/"}).code == 0);
  CHECK(names_in(folder / "a b") == std::set<std::string>{"c d"});
  const auto there = fs::current_path();
  fs::current_path(folder / "a b");
  const auto finished = convert({"c d", "out"});
  const auto up = convert({"./c d/", "../up/"});
  fs::current_path(there);
  INFO(finished.err << up.err);
  CHECK(finished.code == 0);
  CHECK(up.code == 0);
  CHECK(content_of(folder / "a b" / "out") == content_of(folder / "up"));
  CHECK(base::read_file(folder / "up" / "model.safetensors") == base::read_file(fixture / "model.safetensors"));
}

TEST_CASE("--help prints one page, whatever the number of ranks") {
  const auto help = convert_by(2, {"--help"});
  CHECK(help.code == 0);
  CHECK(count_of("--max-shard-size", help.out) == 1);
}

}  // namespace
}  // namespace tessera::test
