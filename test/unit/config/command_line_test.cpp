// If this failed, a word of the command line would be misread or ignored.
#include "config/command_line.h"

#include <unistd.h>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/fields.h"
#include "support/catch.h"
#include "unit/config/read.h"

namespace tessera::config {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::problems_of_line;
using test::read_line;
using test::read_training;
using test::training;
using Texts = std::vector<std::string>;

// A settings file that lives as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tessera_settings_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + ".json");
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Texts with_file(const TemporaryFile& file, const Texts& words = {}) {
  Texts line{file.path()};
  for (const std::string& word : training(words)) line.push_back(word);
  return line;
}

TEST_CASE("options set what they name") {
  const Settings s = read_training({"--train.optimizer.lr", "1e-3", "--train.debug.poison_freed", "1", "--train.seed=7",
                                    "--train.optimizer.betas", "0.5", "0.75", "--train.precision", "float64",
                                    "--train.accelerator.dp_shard_size", "-1", "--model.mlp_only_layers", "0", "2",
                                    "--train.optimizer.norm_type", "inf", "--model.rope_scaling", "null"});
  CHECK(s.train.optimizer.lr == 1e-3);
  CHECK(s.train.debug.poison_freed);
  CHECK(s.train.seed == 7);
  CHECK(s.train.optimizer.betas == std::vector<double>{0.5, 0.75});
  CHECK(s.train.precision == Precision::float64);
  CHECK(s.train.accelerator.dp_shard_size == -1);
  CHECK(s.model.overrides ==
        std::map<std::string, std::string>{{"mlp_only_layers", "[0,2]"}, {"rope_scaling", "null"}});
  CHECK(std::isinf(s.train.optimizer.norm_type));
}

TEST_CASE("later files override earlier ones, and the command line overrides files") {
  const TemporaryFile first(
      R"({"train": {"seed": 1, "max_steps": 10, "num_train_epochs": 3}, "model": {"config_path": "hf"}})");
  const TemporaryFile second(R"({"train": {"seed": 2, "max_steps": 20}, "data": {"train_path": "a,b"}})");
  const Settings s = read_line({first.path(), second.path(), "--train.seed", "3"}).settings;
  CHECK(s.train.seed == 3);
  CHECK(s.train.max_steps == 20);
  CHECK(s.train.num_train_epochs == 3);
  CHECK(s.data.train_path == Texts{"a", "b"});
  CHECK(read_line({first.path(), second.path(), "--train.max_steps", "null"}).settings.train.max_steps == 0);
}

TEST_CASE("a later source overrides another spelling of the same setting") {
  const TemporaryFile mixed(R"({"train": {"accelerator": {"fsdp_config": {"mixed_precision": {"enable": true}}}}})");
  CHECK(read_line(with_file(mixed)).settings.train.precision == Precision::bfloat16);
  CHECK(read_line(with_file(mixed, {"--train.precision", "float64"})).settings.train.precision == Precision::float64);
  const TemporaryFile own(R"({"train": {"precision": "float64"}})");
  const std::string enable = "--train.accelerator.fsdp_config.mixed_precision.enable";
  CHECK(read_line(with_file(own, {enable, "false"})).settings.train.precision == Precision::float32);
}

TEST_CASE("a list takes every word that follows, commas separate paths too") {
  const Settings s =
      read_line({"--model.config_path", "hf", "--data.train_path", "a", "b,c", "--train.seed", "1"}).settings;
  CHECK(s.data.train_path == Texts{"a", "b", "c"});
}

TEST_CASE("a path with a comma is taken whole if it is there, and in a JSON list always") {
  const TemporaryFile a(""), b("");
  const std::string whole = a.path() + ",x", pair = a.path() + ",y", split = a.path() + "," + b.path();
  std::ofstream(whole) << "x";
  std::ofstream(pair + ".idx") << "x";
  CHECK(read_training({"--data.eval_path", whole, split, pair}).data.eval_path ==
        Texts{whole, a.path(), b.path(), pair});
  const TemporaryFile list(R"({"data": {"eval_path": [")" + split + R"("]}})");
  const TemporaryFile word(R"({"data": {"eval_path": ")" + whole + R"("}})");
  CHECK(read_line(with_file(list)).settings.data.eval_path == Texts{split});
  CHECK(read_line(with_file(word)).settings.data.eval_path == Texts{whole});
  std::filesystem::remove(whole);
  std::filesystem::remove(pair + ".idx");
  CHECK(read_training({"--data.eval_path", whole}).data.eval_path == Texts{a.path(), "x"});
}

TEST_CASE("[] is the empty list of every list setting, and overrides a file's") {
  int lists = 0;
  for (const Field& field : fields()) {
    if (!is_list(field.form.kind)) continue;
    CAPTURE(field.path);
    ++lists;
    for (const Texts& spelled : {Texts{"--" + field.path, "[]"}, Texts{"--" + field.path + "=[]"}}) {
      Texts line{"--print-settings"};
      line.insert(line.end(), spelled.begin(), spelled.end());
      const std::string problems = problems_of_line(line);
      if (field.path == "train.optimizer.betas") {  // always two
        CHECK_THAT(problems, ContainsSubstring("betas has 0 values"));
        continue;
      }
      REQUIRE(problems.empty());
      Draft draft;
      draft.settings = read_line(line).settings;
      const std::optional<Value> value = field.get(draft);
      REQUIRE(value);
      CHECK(to_json(*value) == nlohmann::json::array());
    }
  }
  CHECK(lists >= 8);
  const TemporaryFile file(R"({"model": {"mlp_only_layers": [0, 2]}, "data": {"eval_path": ["a", "b"]}})");
  const Settings s = read_line(with_file(file, {"--model.mlp_only_layers", "[]", "--data.eval_path", "[]"})).settings;
  CHECK(s.model.overrides.at("mlp_only_layers") == "[]");
  CHECK(s.data.eval_path.empty());
  CHECK(read_training({"--data.eval_path", "[ab]", "x"}).data.eval_path == Texts{"[ab]", "x"});  // a pattern
  CHECK_THAT(problems_of_line(training({"--model.mlp_only_layers"})),
             ContainsSubstring("--model.mlp_only_layers has no value; give integer ..., or [] for the empty list"));
  CHECK_THAT(problems_of_line(training({"--model.mlp_only_layers", "1", "[]"})),
             ContainsSubstring("--model.mlp_only_layers[1] = [] is not an integer"));
}

TEST_CASE("unknown options are refused with the nearest name") {
  CHECK_THAT(problems_of_line(training({"--train.accelerator.expert_paralel", "2"})),
             ContainsSubstring("unknown option --train.accelerator.expert_paralel"));
  CHECK_THAT(problems_of_line(training({"--train.micro-batch-size", "2"})),
             ContainsSubstring("did you mean --train.micro_batch_size?"));
  CHECK_THAT(problems_of_line(training({"--lr", "2"})), ContainsSubstring("did you mean --train.optimizer.lr?"));
  CHECK_THAT(problems_of_line(training({"--data.ep_size", "2"})),
             ContainsSubstring("did you mean --train.accelerator.ep_size?"));
  CHECK_THAT(problems_of_line(training({"--dryrun"})), ContainsSubstring("did you mean --dry-run?"));
  CHECK_THAT(problems_of_line({"-x"}), ContainsSubstring("unknown option -x"));
  CHECK_THAT(problems_of_line(training({"--train.optimizer", "2"})), ContainsSubstring("is a section"));
  CHECK_THAT(problems_of_line(training({"--train.wandb.enable", "true"})), ContainsSubstring("is not a setting here"));
}

TEST_CASE("wrong values are refused with the way out") {
  const auto problem = [](const std::string& name, const std::string& value) {
    return problems_of_line(training({"--" + name, value}));
  };
  CHECK_THAT(problem("train.max_steps", "1.5"), ContainsSubstring("--train.max_steps = 1.5 is not an integer"));
  CHECK_THAT(problem("train.max_steps", "8x"), ContainsSubstring("is not an integer"));
  CHECK_THAT(problem("train.max_steps", "99999999999999999999"), ContainsSubstring("is out of range"));
  CHECK_THAT(problem("train.max_steps", "0"), ContainsSubstring("= 0 is out of range; at least 1"));
  CHECK_THAT(problem("train.global_batch_size", "0"), ContainsSubstring("= 0 is out of range; at least 1"));
  CHECK_THAT(problem("train.micro_batch_size", "0"), ContainsSubstring("= 0 is out of range; at least 1"));
  CHECK_THAT(problem("train.debug.poison_freed", "yes"),
             ContainsSubstring("= yes is not a boolean; give true or false"));
  CHECK_THAT(problem("train.optimizer.lr", "fast"), ContainsSubstring("= fast is not a number"));
  CHECK_THAT(problem("train.optimizer.lr", "1e999"), ContainsSubstring("does not fit into 64 bits"));
  CHECK_THAT(problem("train.optimizer.lr", "inf"), ContainsSubstring("is not finite"));
  CHECK_THAT(problem("train.optimizer.max_grad_norm", "nan"), ContainsSubstring("= nan is not a number"));
  CHECK_THAT(problem("train.optimizer.max_grad_norm", "-1"),
             ContainsSubstring("= -1 is out of range; at least 0, or inf"));
  CHECK_THAT(problem("train.optimizer.norm_type", "0.5"), ContainsSubstring("is out of range; at least 1, or inf"));
  CHECK_THAT(problem("model.rope_parameters", std::string(60000, '[')), ContainsSubstring("is not a JSON object"));
  CHECK_THAT(problem("model.rope_parameters", "[1]"), ContainsSubstring("= [1] is not a JSON object"));
  CHECK_THAT(problem("model.hidden_act", "\xff"), ContainsSubstring("is not UTF-8"));
  CHECK_THAT(problem("data.eval_path", "a,,b"), ContainsSubstring("data.eval_path[1] = \"\" is empty"));
  CHECK_THAT(problem("model.rope_parameters", "yarn"), ContainsSubstring("is not a JSON object"));
  CHECK_THAT(problem("train.optimizer.type", "muon"), ContainsSubstring("\"muon\" is none of: adamw, sgd"));
}

TEST_CASE("an option without a value, or given twice, is refused") {
  CHECK_THAT(problems_of_line(training({"--train.seed"})),
             ContainsSubstring("--train.seed has no value; give integer"));
  CHECK_THAT(problems_of_line(training({"--train.seed", "--dry-run"})), ContainsSubstring("--train.seed has no value"));
  CHECK_THAT(problems_of_line(training({"--train.seed", "1", "--train.seed", "2"})),
             ContainsSubstring("--train.seed is given twice"));
  CHECK_THAT(problems_of_line(training({"--model.head_dim", "8", "--model.model_config.head_dim", "8"})),
             ContainsSubstring("--model.model_config.head_dim is another spelling of --model.head_dim"));
  CHECK_THAT(problems_of_line(training({"--dry-run", "--dry-run"})), ContainsSubstring("--dry-run is given twice"));
  CHECK_THAT(problems_of_line(training({"--dry-run=1"})), ContainsSubstring("--dry-run takes no value"));
}

TEST_CASE("a file that is absent, broken or HuggingFace's is one problem among the others") {
  const TemporaryFile huggingface(R"({"model_type": "qwen3_moe"})");
  const TemporaryFile broken("{\"train\": {\n\"seed\": 1,\n}}");
  const std::string text =
      problems_of_line({huggingface.path(), broken.path(), "/nowhere/settings.json", "--train.lr", "1"});
  CHECK_THAT(text, ContainsSubstring("use --model.config_path " + huggingface.path()));
  CHECK_THAT(text, ContainsSubstring(broken.path() + ":3"));
  CHECK_THAT(text, ContainsSubstring("/nowhere/settings.json"));
  CHECK_THAT(text, ContainsSubstring("unknown option --train.lr"));
}

TEST_CASE("a setting that an unreadable settings file may hold is not reported as missing") {
  const TemporaryFile huggingface(R"({"model_type": "qwen3_moe"})");
  CHECK(problems_of_line({huggingface.path()}) ==
        "settings: " + huggingface.path() +
            " is a HuggingFace config.json, not a settings file; use --model.config_path " + huggingface.path());
  const TemporaryFile broken("{\"train\": {\n\"seed\": 1,\n}}");
  for (const std::string& file : {broken.path(), std::string("/nowhere/settings.json")}) {
    CHECK_THAT(problems_of_line({file}), !ContainsSubstring("is missing"));
    CHECK_THAT(problems_of_line({file}), !ContainsSubstring("problems in settings"));
  }
  CHECK_THAT(problems_of_line({huggingface.path(), "--train.eval_steps", "5"}), ContainsSubstring("held-out data"));
}

TEST_CASE("all problems of a command line are told at once, as bad input") {
  try {
    read_line({"--train.sed", "1", "--train.max_steps", "x", "--train.optimizer.lr", "-1",
               "--train.accelerator.tp_size", "2"});
    FAIL("nothing was thrown");
  } catch (const base::Error& error) {
    CHECK(error.code() == base::ExitCode::bad_input);
    CHECK_THAT(error.what(), ContainsSubstring("6 problems in settings:") && ContainsSubstring("--train.sed") &&
                                 ContainsSubstring("--train.max_steps") && ContainsSubstring("--train.optimizer.lr") &&
                                 ContainsSubstring("tensor parallelism") &&
                                 ContainsSubstring("model.config_path is missing") &&
                                 ContainsSubstring("data.train_path is missing"));
  }
}

TEST_CASE("--help and --manual win over everything that is wrong") {
  CHECK(read_line({"--nonsense", "--train.accelerator.tp_size", "4", "--help"}).action == Action::help);
  CHECK(read_line({"-h", "/nowhere.json"}).action == Action::help);
  CHECK(read_line({"--train.seed", "x", "--manual"}).action == Action::manual);
}

TEST_CASE("actions exclude each other, and --rank belongs to --dry-run") {
  CHECK(read_line(training()).action == Action::train);
  CHECK(read_line({"--print-settings"}).action == Action::print_settings);
  const CommandLine dry = read_line(training({"--dry-run", "--train.accelerator.world_size", "8", "--rank", "5"}));
  CHECK(dry.action == Action::dry_run);
  CHECK(dry.rank == 5);
  CHECK(dry.settings.train.accelerator.world_size == 8);
  CHECK_THAT(problems_of_line(training({"--dry-run", "--print-settings"})), ContainsSubstring("exclude each other"));
  CHECK_THAT(problems_of_line(training({"--rank", "1"})), ContainsSubstring("--rank needs --dry-run"));
  CHECK_THAT(problems_of_line(training({"--dry-run", "--rank", "-1"})),
             ContainsSubstring("--rank = -1 is out of range"));
  CHECK_THAT(problems_of_line(training({"--dry-run", "--rank", "8", "--train.accelerator.world_size", "8"})),
             ContainsSubstring("--rank = 8 is no rank"));
  CHECK_THAT(problems_of_line(training({"--train.accelerator.world_size", "8"})),
             ContainsSubstring("is for --dry-run only"));
}

TEST_CASE("notices name what was accepted without effect") {
  const CommandLine line = read_line(training({"--train.gc_steps", "500"}));
  REQUIRE(line.notices.size() == 1);
  CHECK_THAT(line.notices[0], ContainsSubstring("train.gc_steps has no effect: there is no garbage collector"));
}

}  // namespace
}  // namespace tessera::config
