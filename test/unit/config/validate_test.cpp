// If this failed, contradicting settings would start a run that does something else than was asked for.
#include "config/validate.h"

#include "support/catch.h"
#include "unit/config/read.h"

namespace tessera::config {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::problems_of_line;
using test::training;

const std::string optimizer = "--train.optimizer.";
const std::string accelerator = "--train.accelerator.";

std::string problem(const std::vector<std::string>& words) { return problems_of_line(training(words)); }

TEST_CASE("a run needs a model and data, printing settings does not") {
  CHECK_THAT(problems_of_line({}),
             ContainsSubstring("model.config_path is missing") && ContainsSubstring("data.train_path is missing"));
  CHECK_THAT(problems_of_line({"--dry-run"}), ContainsSubstring("model.config_path is missing"));
  CHECK(problems_of_line({"--print-settings"}).empty());
  CHECK(problems_of_line({"--model.model_path", "checkpoint", "--data.train_path", "a"}).empty());
}

TEST_CASE("a schedule that rises where it should fall, or ends before it begins, is refused") {
  CHECK_THAT(problem({optimizer + "lr_decay_style", "cosine", optimizer + "lr_min", "1", optimizer + "lr", "0.5"}),
             ContainsSubstring("lr_min = 1 is above lr = 0.5"));
  CHECK_THAT(problem({optimizer + "lr_start", "1", optimizer + "lr_warmup_ratio", "0.1"}),
             ContainsSubstring("is above lr"));
  CHECK_THAT(problem({optimizer + "lr_decay_style", "linear", optimizer + "lr_warmup_ratio", "0.5",
                      optimizer + "lr_decay_ratio", "0.25"}),
             ContainsSubstring("the decay would end before it begins"));
  CHECK_THAT(problem({optimizer + "lr_decay_style", "wsd", optimizer + "lr_warmup_ratio", "0.5",
                      optimizer + "lr_decay_ratio", "0.75"}),
             ContainsSubstring("lr_decay_ratio at most 0.5"));
  CHECK(problem({optimizer + "lr_decay_style", "wsd", optimizer + "lr_warmup_ratio", "0.25",
                 optimizer + "lr_decay_ratio", "0.75"})
            .empty());
}

TEST_CASE("settings that the chosen mode does not read are refused") {
  CHECK_THAT(problem({optimizer + "lr_min", "1e-6"}),
             ContainsSubstring("has no effect with lr_decay_style = constant"));
  CHECK_THAT(problem({optimizer + "lr_decay_ratio", "0.5"}),
             ContainsSubstring("has no effect with lr_decay_style = constant"));
  CHECK_THAT(problem({optimizer + "lr_start", "1e-6"}), ContainsSubstring("has no effect without warm-up"));
  CHECK_THAT(problem({optimizer + "momentum", "0.9"}), ContainsSubstring("has no effect with type = adamw"));
  CHECK_THAT(problem({optimizer + "type", "sgd", optimizer + "eps", "0.1"}),
             ContainsSubstring("has no effect with type = sgd"));
  CHECK_THAT(problem({optimizer + "type", "sgd", optimizer + "betas", "0.5", "0.5"}),
             ContainsSubstring("has no effect with type = sgd"));
  CHECK_THAT(problem({optimizer + "no_decay_params", "*.weight"}),
             ContainsSubstring("has no effect with weight_decay = 0"));
  CHECK_THAT(problem({"--train.gradient_checkpointing.scope", "experts"}),
             ContainsSubstring("has no effect with enable = false"));
  CHECK_THAT(problem({"--data.format", "text", "--data.text_keys", "body"}),
             ContainsSubstring("data.text_keys = body has no effect with data.format = text"));
  CHECK_THAT(problem({"--data.format", "megatron", "--data.on_bad_line", "skip"}),
             ContainsSubstring("data.on_bad_line = skip has no effect with data.format = megatron"));
  CHECK_THAT(problem({"--train.eval_steps", "5"}), ContainsSubstring("needs held-out data"));
}

TEST_CASE("AdamW takes two betas") {
  CHECK_THAT(problem({optimizer + "betas", "0.9"}), ContainsSubstring("betas has 1 values; give two"));
  CHECK_THAT(problem({optimizer + "betas", "0.9", "0.9", "0.9"}), ContainsSubstring("betas has 3 values"));
}

TEST_CASE("data and extra parallelism are built; of the other axes only the size 1") {
  for (const std::string action : {"--dry-run", ""}) {
    const auto of_action = [&](std::vector<std::string> words) {
      if (!action.empty()) words.push_back(action);
      return problem(words);
    };
    CHECK(of_action({accelerator + "dp_shard_size", "1", accelerator + "dp_replicate_size", "1",
                     accelerator + "tp_size", "1", accelerator + "ep_size", "1"})
              .empty());
    for (const char* name : {"dp_replicate_size", "dp_shard_size", "ep_size"})
      CHECK(of_action({accelerator + name, "2"}).empty());
    CHECK(of_action({accelerator + "extra_parallel_sizes", "2", "4", accelerator + "extra_parallel_names", "ep", "emb"})
              .empty());
    for (const char* name : {"tp_size", "pp_size", "ulysses_size", "cp_size"})
      CHECK_THAT(of_action({accelerator + name, "2"}), ContainsSubstring("not yet built: "));
  }
}

TEST_CASE("every device goes with every backend, but the CPU with NCCL") {
  for (const std::string device : {"auto", "cpu", "cuda"})
    for (const std::string backend : {"auto", "mpi", "nccl"}) {
      CAPTURE(device, backend);
      const auto said = problem({accelerator + "backend", backend, accelerator + "device", device});
      if (device == "cpu" && backend == "nccl")
        CHECK_THAT(said,
                   ContainsSubstring("backend = nccl moves memory of GPUs only, but train.accelerator.device = cpu"));
      else
        CHECK(said == "");
    }
}

TEST_CASE("every way to shard is accepted, and prefetch must agree with its depth") {
  for (const char* mode : {"fsdp2", "zero3", "zero2", "zero1", "ddp"})
    CHECK(problem({accelerator + "fsdp_config.fsdp_mode", mode}).empty());
  CHECK(problem({accelerator + "fsdp_config.forward_prefetch", "false"}).empty());
  CHECK(problem({accelerator + "fsdp_config.prefetch_depth", "3"}).empty());
  CHECK_THAT(
      problem({accelerator + "fsdp_config.prefetch_depth", "3", accelerator + "fsdp_config.forward_prefetch", "false"}),
      ContainsSubstring("contradicts forward_prefetch = false"));
}

TEST_CASE("float64 belongs to the CPU") {
  CHECK(problem({"--train.precision", "float64"}).empty());
  CHECK_THAT(problem({"--train.precision", "float64", accelerator + "device", "cuda"}),
             ContainsSubstring("the CPU's reference mode"));
}

}  // namespace
}  // namespace tessera::config
