#include "random_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

namespace tessera::test {
namespace {

using Integer = std::int64_t;

class Draws {
 public:
  Draws(std::uint64_t seed, Integer ranks) {
    std::seed_seq parts{seed, seed >> 32, static_cast<std::uint64_t>(ranks)};
    random_.seed(parts);
  }
  Integer number(Integer least, Integer most) {
    return least + static_cast<Integer>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(Integer n) { return number(1, n) == 1; }
  template <class T>
  T any(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(number(0, static_cast<Integer>(list.size()) - 1))];
  }
  std::string any_of(std::initializer_list<const char*> list) {
    return any(std::vector<std::string>(list.begin(), list.end()));
  }
  Integer divisor(Integer n) {
    std::vector<Integer> list;
    for (Integer d = 1; d <= n; ++d)
      if (n % d == 0) list.push_back(d);
    return any(list);
  }

 private:
  std::mt19937_64 random_;
};

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

nlohmann::json draw_model(Draws& draws) {
  const auto kv_heads = draws.number(1, 3), layers = draws.number(1, 3), experts = draws.number(1, 9);
  nlohmann::json config{{"model_type", "qwen3_moe"},
                        {"vocab_size", draws.number(7, 41)},
                        {"hidden_size", draws.number(3, 23)},
                        {"intermediate_size", draws.number(3, 19)},
                        {"num_hidden_layers", layers},
                        {"num_attention_heads", kv_heads * draws.number(1, 3)},
                        {"num_key_value_heads", kv_heads},
                        {"head_dim", 2 * draws.number(1, 4)},
                        {"moe_intermediate_size", draws.number(1, 13)},
                        {"num_experts", experts},
                        {"num_experts_per_tok", draws.number(1, std::min<Integer>(experts, 4))},
                        {"norm_topk_prob", draws.one_in(2)},
                        {"attention_bias", draws.one_in(3)},
                        {"tie_word_embeddings", draws.one_in(2)},
                        {"initializer_range", 0.1 * static_cast<double>(draws.number(1, 4))},
                        {"rms_norm_eps", draws.any<double>({1e-6, 1e-3})},
                        {"rope_theta", draws.any<double>({50, 10000})},
                        {"router_aux_loss_coef", draws.any<double>({0, 0.02, 0.5})},
                        {"max_position_embeddings", 64}};
  std::vector<Integer> dense;
  for (Integer layer = 0; layer + 1 < layers; ++layer)
    if (draws.one_in(3)) dense.push_back(layer);
  config["mlp_only_layers"] = dense;
  return config;
}

// Documents of any length, of which some have labels that do not count, or none that does; in the first all count,
// since data without any are refused.
std::string draw_documents(Draws& draws, Integer vocabulary) {
  std::string text;
  for (auto count = draws.number(4, 30); count > 0; --count) {
    std::vector<Integer> ids, labels;
    const auto counting = text.empty() ? 10 : draws.any<Integer>({10, 10, 5, 1, 0});  // of ten labels
    for (auto tokens = draws.number(2, 25); tokens > 0; --tokens) {
      ids.push_back(draws.number(0, vocabulary - 1));
      labels.push_back(draws.number(0, 9) < counting ? ids.back() : -100);
    }
    nlohmann::json line{{"input_ids", ids}};
    if (counting < 10) line["labels"] = labels;
    text += line.dump() + "\n";
  }
  return text;
}

// What a name of one's own may split: parameters that are gathered whole.
std::vector<std::string> own_patterns(const nlohmann::json& model) {
  std::vector<std::string> list{"model.layers.*.self_attn.o_proj.weight", "model.layers.*.self_attn.q_proj.weight",
                                "model.layers.*.self_attn.v_proj.weight", "model.layers.*.mlp.gate.weight"};
  if (!model.at("tie_word_embeddings").get<bool>()) list.emplace_back("lm_head.weight");
  if (!model.at("mlp_only_layers").empty()) list.emplace_back("model.layers.*.mlp.down_proj.weight");
  return list;
}

struct Sharing {
  std::string plan;
  Words words;
};

Sharing draw_sharing(Draws& draws, const nlohmann::json& model, Integer ranks) {
  const std::string a = "--train.accelerator.";
  Sharing sharing;
  const auto replicas = draws.divisor(ranks);
  if (replicas > 1 || draws.one_in(2))
    append(sharing.words,
           {a + "dp_replicate_size", std::to_string(replicas), a + "dp_shard_size", std::to_string(ranks / replicas)});
  nlohmann::json plan{{"ep", nlohmann::json::object()}, {"emb", {{"model.embed_tokens.weight", "Shard(0)"}}}};
  for (const char* part : {"gate_proj", "up_proj", "down_proj"})
    plan["ep"][std::string("model.layers.*.mlp.experts.") + part] = "Shard(0)";
  plan["own"] = {{draws.any(own_patterns(model)), "Shard(0)"}};
  std::vector<std::string> named;
  for (const char* name : {"ep", "emb", "own"})
    if (draws.one_in(2)) named.emplace_back(name);
  if (draws.one_in(2)) std::reverse(named.begin(), named.end());
  Words names{a + "extra_parallel_names"}, sizes{a + "extra_parallel_sizes"};
  Words innermost{a + "extra_parallel_placement_innermost"};
  for (const auto& name : named) {
    names.push_back(name);
    sizes.push_back(std::to_string(draws.divisor(ranks / replicas)));
    innermost.emplace_back(draws.one_in(2) ? "true" : "false");
  }
  sharing.plan = nlohmann::json{{"extra_parallel_plan", plan}}.dump();
  if (named.empty()) return sharing;
  for (const auto* list : {&names, &sizes, &innermost}) append(sharing.words, *list);
  append(sharing.words, {a + "parallel_plan", "PLAN"});
  return sharing;
}

Words draw_mode(Draws& draws) {
  const std::string fsdp = "--train.accelerator.fsdp_config.";
  const auto mode = draws.any_of({"fsdp2", "fsdp2", "zero3", "zero2", "zero1", "ddp"});
  Words words{fsdp + "fsdp_mode", mode};
  if (mode == "fsdp2" && draws.one_in(2)) append(words, {fsdp + "reshard_after_forward", "false"});
  const auto depth = draws.any_of({"0", "1", "2", "3", "4", "auto"});
  append(words, depth == "0" ? Words{fsdp + "forward_prefetch", "false"} : Words{fsdp + "prefetch_depth", depth});
  const auto recompute = draws.any_of({"none", "full", "experts"});
  if (recompute != "none")
    append(words, {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope", recompute});
  if (draws.one_in(2)) append(words, {"--train.accelerator.overlap_exchange", "true"});
  if (draws.one_in(3)) append(words, {"--train.debug.poison_freed", "true"});
  return words;
}

// What a run and its reference have in common.
Words draw_run(Draws& draws, Integer global_batch) {
  const auto type = draws.any_of({"adamw", "sgd"});
  Words words{"--train.global_batch_size",
              std::to_string(global_batch),
              "--data.max_seq_len",
              std::to_string(draws.number(2, 20)),
              "--data.documents",
              draws.any_of({"joined", "separate"}),
              "--model.router_z_loss_coef",
              draws.any_of({"0", "0.003", "0.1"}),
              "--train.seed",
              std::to_string(draws.number(0, 1000000)),
              "--train.optimizer.type",
              type,
              "--train.optimizer.weight_decay",
              draws.any_of({"0", "0.1"}),
              "--train.optimizer.max_grad_norm",
              draws.any_of({"0", "0.1", "1"}),
              "--train.optimizer.norm_type",
              draws.any_of({"2", "2", "1", "3", "1000", "inf"})};
  // Adam divides by eps what rounding leaves of a gradient that is zero.
  append(words, type == "adamw" ? Words{"--train.optimizer.eps", "1e-4"}
                                : Words{"--train.optimizer.lr", "0.05", "--train.optimizer.momentum", "0.9"});
  return words;
}

}  // namespace

config::Settings RandomCase::settings(const SmallRun& files, const Words& options) const {
  files.folder().write("config.json", config);
  files.folder().write("train.jsonl", documents);
  files.folder().write("plan.json", plan);
  auto with_plan = options;
  std::replace(with_plan.begin(), with_plan.end(), std::string("PLAN"), (files.folder() / "plan.json").string());
  return files.settings(with_plan);
}

RandomCase random_case(std::uint64_t seed, std::int64_t ranks) {
  Draws draws(seed, ranks);
  RandomCase c;
  const auto model = draw_model(draws);
  c.config = model.dump(2);
  c.documents = draw_documents(draws, model.at("vocab_size"));
  c.format = draws.any<Format>({Format::float64, Format::float64, Format::float64, Format::float32, Format::bfloat16});
  const auto balance = draws.any_of({"pooled", "per_layer", "sequence"});
  const auto micro_batch = draws.number(1, 3), together = micro_batch * ranks;
  const auto global_batch = draws.number(1, 3 * together);
  auto common = draw_run(draws, global_batch);
  append(common, {"--model.balance_loss", balance});
  const auto sharing = draw_sharing(draws, model, ranks);
  c.plan = sharing.plan;
  c.words = common;
  append(c.words, sharing.words);
  append(c.words, draw_mode(draws));
  const char* formats[] = {"float64", "float32", "bfloat16"};
  const char* format = formats[static_cast<std::size_t>(c.format)];
  append(c.words, {"--train.micro_batch_size", std::to_string(micro_batch), "--train.precision", format});
  c.reference = common;
  append(c.reference, {"--train.micro_batch_size", std::to_string(balance == "sequence" ? global_batch : together),
                       "--train.precision", c.format == Format::bfloat16 ? format : "float64"});
  return c;
}

}  // namespace tessera::test
