// If this failed, a typo in a settings file would let a run train on defaults for hours.
#include "config/json_reader.h"

#include <cmath>

#include "config/dump.h"
#include "support/catch.h"
#include "unit/config/read.h"

namespace tessera::config {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::read_text;
using Texts = std::vector<std::string>;

TEST_CASE("a settings file sets what it names and nothing else") {
  const auto read = read_text(R"({
    // comments are allowed
    "model": {"config_path": "hf", "num_experts": 6, "rope_scaling": null, "model_config": {"rope_theta": 1e6}},
    "data": {"train_path": ["a.txt", "b,c"], "max_seq_len": 96},
    "train": {"optimizer": {"type": "sgd", "momentum": 0.9, "betas": [0.8, 1e-3], "norm_type": "inf"},
              "max_steps": 7, "global_batch_size": null, "debug": {"poison_freed": true}}
  })");
  CHECK(read.problems.empty());
  const Settings& s = read.settings;
  CHECK(s.model.config_path == "hf");
  CHECK(s.model.overrides == std::map<std::string, std::string>{
                                 {"num_experts", "6"}, {"rope_scaling", "null"}, {"rope_theta", "1000000.0"}});
  CHECK(s.data.train_path == Texts{"a.txt", "b,c"});
  CHECK(s.data.max_seq_len == 96);
  CHECK(s.train.optimizer.type == OptimizerType::sgd);
  CHECK(s.train.optimizer.momentum == 0.9);
  CHECK(s.train.optimizer.betas == std::vector<double>{0.8, 1e-3});
  CHECK(std::isinf(s.train.optimizer.norm_type));
  CHECK(s.train.max_steps == 7);
  CHECK(s.train.global_batch_size == 0);
  CHECK(s.train.debug.poison_freed);
  CHECK(s.train.seed == 42);
}

TEST_CASE("a mistyped name is refused with its line and the nearest name") {
  CHECK_THAT(read_text("{\"train\": {\n\"accelerator\": {\n\"expert_paralel\": 2,\n\"ep_sizes\": 2}}}").problems,
             ContainsSubstring("settings.json:3: unknown setting train.accelerator.expert_paralel") &&
                 ContainsSubstring("settings.json:4: unknown setting train.accelerator.ep_sizes; did you mean "
                                   "train.accelerator.ep_size?"));
  CHECK_THAT(read_text(R"({"train": {"micro-batch-size": 2}})").problems,
             ContainsSubstring("did you mean train.micro_batch_size?"));
  CHECK_THAT(read_text(R"({"train": {"lr": 1e-3}})").problems, ContainsSubstring("did you mean train.optimizer.lr?"));
  CHECK_THAT(read_text(R"({"train": {"acelerator": {}}})").problems,
             ContainsSubstring("did you mean train.accelerator?"));
  CHECK_THAT(read_text(R"({"model": {"hiden_size": 8}})").problems,
             ContainsSubstring("did you mean model.hidden_size?"));
  CHECK_THAT(read_text(R"({"train.seed": 8})").problems, ContainsSubstring("write nested objects"));
}

TEST_CASE("a value of the wrong type is refused with the way out") {
  const auto problem = [](const std::string& member) { return read_text("{\"train\": {" + member + "}}").problems; };
  CHECK_THAT(problem("\"max_steps\": \"8\""),
             ContainsSubstring("train.max_steps = \"8\" is a string; write 8 without quotes"));
  CHECK_THAT(problem("\"max_steps\": 1.5"),
             ContainsSubstring("train.max_steps = 1.5 is not an integer; give an integer"));
  CHECK_THAT(problem("\"max_steps\": true"), ContainsSubstring("is a boolean; give an integer"));
  CHECK_THAT(problem("\"seed\": null"), ContainsSubstring("= null; leave the setting out for its default"));
  CHECK_THAT(problem("\"seed\": [1]"), ContainsSubstring("train.seed = [1] is a list; give an integer"));
  CHECK_THAT(problem("\"seed\": 18446744073709551615"), ContainsSubstring("out of range"));
  CHECK_THAT(problem("\"debug\": {\"poison_freed\": 1}"), ContainsSubstring("= 1 is a number; give true or false"));
  CHECK_THAT(problem("\"debug\": {\"poison_freed\": \"true\"}"), ContainsSubstring("write true without quotes"));
  CHECK_THAT(problem("\"optimizer\": {\"lr\": \"0.1\"}"), ContainsSubstring("write 0.1 without quotes"));
  CHECK_THAT(problem("\"optimizer\": {\"lr\": \"inf\"}"), ContainsSubstring("is a string; give a number"));
  CHECK_THAT(problem("\"optimizer\": {\"betas\": 0.9}"), ContainsSubstring("give a list of numbers"));
  CHECK_THAT(problem("\"optimizer\": {\"betas\": [0.9, 1]}"),
             ContainsSubstring("betas[1] = 1 is out of range; at least 0, below 1"));
  CHECK_THAT(problem("\"precision\": \"float16\""),
             ContainsSubstring("\"float16\" is none of: auto, float32, bfloat16, float64; did you mean bfloat16?"));
  CHECK_THAT(problem("\"optimizer\": 3"), ContainsSubstring("train.optimizer is a section; give an object"));
  CHECK_THAT(problem("\"checkpoint\": {\"output_dir\": \"\"}"), ContainsSubstring("is empty"));
  CHECK_THAT(read_text("[1]").problems, ContainsSubstring("settings are one JSON object"));
}

TEST_CASE("clipping limits: 0 and inf are meant, negative and NaN are refused") {
  const auto read = [](const std::string& limit) {
    return read_text("{\"train\": {\"optimizer\": {\"max_grad_norm\": " + limit + "}}}");
  };
  CHECK(read("0").settings.train.optimizer.max_grad_norm == 0);
  CHECK(std::isinf(read("\"inf\"").settings.train.optimizer.max_grad_norm));
  CHECK_THAT(read("-1").problems, ContainsSubstring("= -1 is out of range; at least 0, or inf"));
  CHECK_THAT(read("\"nan\"").problems, ContainsSubstring("is a string; give a number"));
}

TEST_CASE("one setting under two names in one file is refused") {
  CHECK_THAT(
      read_text("{\"model\": {\"num_experts\": 6,\n\"model_config\": {\"num_experts\": 7}}}").problems,
      ContainsSubstring("settings.json:1: model.num_experts is another spelling of model.model_config.num_experts "
                        "(settings.json:2)"));
  CHECK_THROWS_WITH(read_text("{\"train\": {\"seed\": 1,\n\"seed\": 2}}"), ContainsSubstring("twice"));
  CHECK_THROWS_WITH(read_text("{\"train\": {\"seed\": 1,}}"), ContainsSubstring("settings.json:1"));
}

TEST_CASE("a HuggingFace config.json given as settings is refused with the hint to use it") {
  for (const char* text : {R"({"model_type": "qwen3_moe", "hidden_size": 64})", R"({"architectures": ["X"]})",
                           R"({"hidden_size": 64, "num_hidden_layers": 2})"})
    CHECK_THAT(read_text(text).problems, ContainsSubstring("use --model.config_path settings.json"));
}

TEST_CASE("VeOmni's other spellings mean the same") {
  const auto read = read_text(R"({
    "model": {"accelerator": {"fsdp_config": {"fsdp_mode": "ddp"}, "gradient_checkpointing": {"enable": true}},
              "optimizer": {"lr": 0.25}},
    "train": {"accelerator": {"fsdp_config": {"mixed_precision": {"enable": true, "param_dtype": "bfloat16",
                                                                  "reduce_dtype": "float32"}},
                              "ep_size": 4, "ep_outside": true}}
  })");
  CHECK(read.problems.empty());
  const TrainSettings& t = read.settings.train;
  CHECK(t.accelerator.fsdp_config.fsdp_mode == FsdpMode::ddp);
  CHECK(t.gradient_checkpointing.enable);
  CHECK(t.optimizer.lr == 0.25);
  CHECK(t.precision == Precision::bfloat16);
  CHECK(t.accelerator.extra_parallel_names == Texts{"ep"});
  CHECK(t.accelerator.extra_parallel_sizes == std::vector<std::int64_t>{4});
  CHECK(t.accelerator.extra_parallel_placement_innermost == std::vector<bool>{false});
}

TEST_CASE("ep_size joins the extra parallel lists, unless ep is there already") {
  const auto read = [](const std::string& members) {
    return read_text("{\"train\": {\"accelerator\": {" + members + "}}}");
  };
  const auto both = read(R"("extra_parallel_names": ["emb"], "extra_parallel_sizes": [2], "ep_size": 4)");
  CHECK(both.problems.empty());
  CHECK(both.settings.train.accelerator.extra_parallel_names == Texts{"emb", "ep"});
  CHECK(both.settings.train.accelerator.extra_parallel_sizes == std::vector<std::int64_t>{2, 4});
  CHECK(both.settings.train.accelerator.extra_parallel_placement_innermost.empty());
  const auto outside =
      read(R"("extra_parallel_names": ["emb"], "extra_parallel_sizes": [2], "ep_size": 4, "ep_outside": true)");
  CHECK(outside.settings.train.accelerator.extra_parallel_placement_innermost == std::vector<bool>{true, false});
  CHECK_THAT(read(R"("extra_parallel_names": ["ep"], "extra_parallel_sizes": [2], "ep_size": 4)").problems,
             ContainsSubstring("say the same twice"));
  CHECK_THAT(read(R"("ep_outside": true)").problems,
             ContainsSubstring("has no effect without train.accelerator.ep_size"));
  CHECK(read(R"("ep_size": 1)").settings.train.accelerator.extra_parallel_names.empty());
}

TEST_CASE("mixed precision that contradicts itself or train.precision is refused") {
  const auto read = [](const std::string& mixed, const std::string& rest = "") {
    return read_text("{\"train\": {" + rest + "\"accelerator\": {\"fsdp_config\": {\"mixed_precision\": {" + mixed +
                     "}}}}}");
  };
  CHECK(read("\"enable\": false").settings.train.precision == Precision::float32);
  CHECK(read("\"enable\": true").settings.train.precision == Precision::bfloat16);
  CHECK(read("\"param_dtype\": \"float32\"").settings.train.precision == Precision::float32);
  CHECK(read("\"enable\": true", "\"precision\": \"bfloat16\", ").problems.empty());
  CHECK_THAT(read("\"enable\": true", "\"precision\": \"float64\", ").problems, ContainsSubstring("contradict"));
  CHECK_THAT(read("\"enable\": false, \"param_dtype\": \"bfloat16\"").problems, ContainsSubstring("contradicts"));
  CHECK_THAT(read("\"reduce_dtype\": \"bfloat16\"").problems, ContainsSubstring("is none of: float32"));
  CHECK_THAT(read("\"param_dtype\": \"float16\"").problems, ContainsSubstring("is none of: bfloat16, float32"));
}

TEST_CASE("VeOmni names without a meaning are refused with the reason, or noted where they change nothing") {
  const auto noted =
      read_text(R"({"train": {"gc_steps": 500, "init_device": "meta", "wandb": {"enable": false, "project": "p"},
    "torch_compile": {"enable": false}, "accelerator": {"offload_config": {"enable_activation": false}}},
    "model": {"ops_implementation": {"attn_implementation": "sdpa"}}, "data": {"dataloader": {"num_workers": 2}}})");
  CHECK(noted.problems.empty());
  REQUIRE(noted.notices.size() == 8);
  CHECK(dump_settings(noted.settings) == dump_settings(Settings{}));
  CHECK_THAT(noted.notices[0], ContainsSubstring("has no effect: "));
  const auto refused = read_text(
      "{\"train\": {\"torch_compile\": {\n\"enable\": true},\"checkpoint\": {\"manager\": \"dcp\"},"
      "\"wandb\": {\"enable\": true}, \"dyn_bsz\": true}}");
  CHECK_THAT(refused.problems,
             ContainsSubstring("settings.json:2: train.torch_compile.enable = true is not a setting here: ") &&
                 ContainsSubstring("train.checkpoint.manager = \"dcp\" is not a setting here: ") &&
                 ContainsSubstring("metrics.jsonl") && ContainsSubstring("train.dyn_bsz"));
}

TEST_CASE("a dump reads back to the same settings, to the last bit") {
  Settings s;
  s.model.config_path = "a \"b\"/ü.json";
  s.model.overrides = {{"rope_theta", "500000.5"},
                       {"head_dim", "null"},
                       {"mlp_only_layers", "[0,2]"},
                       {"rope_parameters", "{\"rope_theta\":1e6}"}};
  s.data.train_path = {"x", "y"};
  s.train.optimizer.lr = 0.1 + 0.2;
  s.train.optimizer.eps = 4.9406564584124654e-324;
  s.train.optimizer.betas = {1.0 / 3.0, 0.9999999999999999};
  s.train.optimizer.max_grad_norm = std::numeric_limits<double>::infinity();
  s.train.seed = 9223372036854775807ULL;
  s.train.accelerator.extra_parallel_names = {"ep"};
  s.train.accelerator.extra_parallel_sizes = {1};
  s.train.accelerator.extra_parallel_placement_innermost = {false};
  const std::string text = dump_settings(s);
  const auto again = read_text(text);
  CHECK(again.problems.empty());
  CHECK(dump_settings(again.settings) == text);
  CHECK(again.settings.train.optimizer.lr == s.train.optimizer.lr);
  CHECK(again.settings.train.optimizer.eps == s.train.optimizer.eps);
  CHECK(again.settings.train.optimizer.betas == s.train.optimizer.betas);
  CHECK(again.settings.train.optimizer.max_grad_norm == s.train.optimizer.max_grad_norm);
  CHECK(again.settings.train.seed == s.train.seed);
  CHECK(again.settings.model.config_path == s.model.config_path);
}

}  // namespace
}  // namespace tessera::config
