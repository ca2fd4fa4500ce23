// If this failed, an impossible layout or plan would be trained, or a possible one would not be described correctly.
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string accelerator = "--train.accelerator.";

Words extra(const Words& names, const Words& sizes, const std::string& innermost = "true") {
  const Words placements(names.size(), innermost);
  return joined(joined(joined({accelerator + "extra_parallel_names"}, names),
                       joined({accelerator + "extra_parallel_sizes"}, sizes)),
                joined({accelerator + "extra_parallel_placement_innermost"}, placements));
}

Finished plan_for(int ranks, const SmallRun& files, const Words& more) {
  return run_command(
      joined({TESSERA_TRAIN, "--dry-run", accelerator + "world_size", std::to_string(ranks)}, files.words(more)));
}

// What the groups' table of --dry-run says of a group: "2 {0,1} {2,3}".
std::string groups_of(const Finished& dry_run, const std::string& name) {
  std::istringstream lines(dry_run.out);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, std::regex(R"(([^ ]+) +(\d+)  (.*?)  .*)")) && found[1] == name)
      return found[2].str() + " " + found[3].str();
  }
  return {};
}

TEST_CASE("groups stand side by side or apart, in each replica, each name in a grid of its own") {
  const SmallRun files;
  struct Grid {
    Words words;
    std::vector<std::pair<std::string, std::string>> groups;
  };
  const std::string alone = "1 each rank alone";
  for (const auto& grid :
       {Grid{extra({"ep"}, {"2"}), {{"ep", "2 {0,1} {2,3}"}, {"ep_fsdp", "2 {0,2} {1,3}"}, {"ep_replicate", alone}}},
        Grid{extra({"ep"}, {"2"}, "false"), {{"ep", "2 {0,2} {1,3}"}, {"ep_fsdp", "2 {0,1} {2,3}"}}},
        Grid{joined({accelerator + "dp_replicate_size", "2"}, extra({"ep"}, {"2"})),
             {{"ep", "2 {0,1} {2,3}"}, {"ep_fsdp", alone}, {"ep_replicate", "2 {0,2} {1,3}"}}},
        Grid{extra({"ep", "emb"}, {"2", "4"}),
             {{"ep", "2 {0,1} {2,3}"}, {"ep_fsdp", "2 {0,2} {1,3}"}, {"emb", "4 {0,1,2,3}"}, {"emb_fsdp", alone}}}}) {
    const auto dry_run = plan_for(4, files, grid.words);
    INFO(dry_run.out << dry_run.err);
    CHECK(dry_run.code == 0);
    for (const auto& [name, ranks] : grid.groups) CHECK(groups_of(dry_run, name) == ranks);
  }
}

TEST_CASE("a group whose size does not divide the ranks is refused with the sizes that do, once") {
  const SmallRun files;
  for (const auto& [name, size] : {std::pair{"ep", "3"}, {"emb", "3"}, {"ep", "8"}, {"ep", "0"}, {"ep", "-2"}}) {
    CAPTURE(name, size);
    const auto refused = plan_for(4, files, extra({name}, {size}));
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(count_of("] error ", refused.err) == 1);
    CHECK_THAT(refused.err, ContainsSubstring(std::string(size) + " (" + name + ")") &&
                                ContainsSubstring("4 data-parallel ranks; use 1, 2 or 4"));
  }
  const auto started = run_ranks(4, files.words(extra({"ep"}, {"3"})));
  INFO(started.err);
  CHECK(started.code == 2);
  CHECK(count_of("] error ", started.err) == 1);
  CHECK_THAT(started.err, ContainsSubstring("3 (ep) does not divide 4 data-parallel ranks; use 1, 2 or 4"));
  CHECK_FALSE(std::filesystem::exists(files.output()));
}

TEST_CASE("more experts a token than there are, or none, are refused on several ranks too") {
  const SmallRun files;
  const std::map<std::string, std::string> reasons{{"6", "num_experts_per_tok = 6 is above num_experts = 5"},
                                                   {"0", "num_experts_per_tok = 0 is out of range; at least 1"}};
  for (const auto& [top_k, reason] : reasons) {
    const auto refused =
        run_ranks(2, files.words(joined({"--model.num_experts_per_tok", top_k}, extra({"ep"}, {"2"}))));
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(count_of("] error ", refused.err) == 1);
    CHECK_THAT(refused.err, ContainsSubstring(reason));
    CHECK_FALSE(std::filesystem::exists(files.output()));
  }
}

// A plan file with these patterns of each name.
std::string write_plan(const SmallRun& files, const std::map<std::string, Words>& patterns) {
  nlohmann::json plan;
  for (const auto& [name, list] : patterns)
    for (const auto& pattern : list) plan[name][pattern] = "Shard(0)";
  return files.folder().write("plan.json", nlohmann::json({{"extra_parallel_plan", plan}}).dump(1));
}

const std::string experts = "model.layers.*.mlp.experts.";
const Words all_experts{experts + "gate_proj", experts + "up_proj", experts + "down_proj"};

TEST_CASE("a plan with a typo, two patterns for one parameter, or without the name in use is refused, once") {
  const SmallRun files;
  struct Wrong {
    std::map<std::string, Words> patterns;
    std::string reason, near;
  };
  const std::string typo = "model.layers.*.mlp.expert.gate_proj";
  for (const auto& wrong :
       {Wrong{{{"ep", joined(all_experts, {typo})}}, typo + "\" matches no parameter", experts + "gate_proj"},
        Wrong{{{"ep", joined(all_experts, {experts + "*"})}}, "both match model.layers.1.mlp.experts.", "keep one"},
        Wrong{{{"experts", all_experts}}, "extra_parallel_names: ep has no entry", "experts"}}) {
    const auto plan = write_plan(files, wrong.patterns);
    const auto refused = run_ranks(2, files.words(joined({accelerator + "parallel_plan", plan}, extra({"ep"}, {"2"}))));
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(count_of("] error ", refused.err) == 1);
    CHECK(count_of(wrong.reason, refused.err) >= 1);
    CHECK_THAT(refused.err, ContainsSubstring(wrong.near));
    CHECK_FALSE(std::filesystem::exists(files.output()));
  }
}

TEST_CASE("a plan of two parent modules splits both; an entry that is not in use is one line of the log") {
  const SmallRun files;
  const auto plan = write_plan(files, {{"ep", joined(all_experts, {"model.layers.*.self_attn.o_proj.weight"})},
                                       {"emb", {"model.embed_tokens.weight"}}});
  const auto words = joined({accelerator + "parallel_plan", plan}, extra({"ep"}, {"2"}));
  const auto dry_run = plan_for(4, files, joined(words, {"--rank", "3"}));
  INFO(dry_run.out << dry_run.err);
  CHECK(dry_run.code == 0);
  const auto row = [&](const std::string& pattern) {
    return std::regex_search(dry_run.out, std::regex("\n" + pattern + " *\n"));
  };
  // Rank 3 is the second of its ep group and the second of its ep_fsdp group: 5 = [3, 2], 11 = [6, 5], 15 = [8, 7].
  for (const char* layer : {"1", "2"}) {
    const std::string prefix = std::string(R"(model\.layers\.)") + layer + R"(\.)";
    CHECK(row(prefix + R"(mlp\.experts\.gate_proj +\[5, 11, 15\] +ep, ep_fsdp +\[3, 5\) +\[6, 11\) +\[0, 15\))"));
    CHECK(row(prefix + R"(mlp\.experts\.down_proj +\[5, 15, 11\] +ep, ep_fsdp +\[3, 5\) +\[8, 15\) +\[0, 11\))"));
    CHECK(row(prefix + R"(self_attn\.o_proj\.weight +\[15, 24\] +ep, ep_fsdp +\[8, 15\) +\[12, 24\))"));
  }
  CHECK(row(R"(model\.embed_tokens\.weight +\[31, 15\] +fsdp +\[24, 31\) +\[0, 15\))"));
  const auto trained = run_ranks(2, files.words(joined(words, {"--train.max_steps", "1"})));
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(count_of("note: " + plan + " has entries that this run does not use: emb (not named); FSDP shards their " +
                     "parameters like all others",
                 trained.err) == 1);
}

// Qwen3-235B-A22B's config.json, from huggingface.co/Qwen/Qwen3-235B-A22B.
const nlohmann::json qwen3_235b{{"model_type", "qwen3_moe"},
                                {"vocab_size", 151936},
                                {"hidden_size", 4096},
                                {"intermediate_size", 12288},
                                {"num_hidden_layers", 94},
                                {"num_attention_heads", 64},
                                {"num_key_value_heads", 4},
                                {"head_dim", 128},
                                {"moe_intermediate_size", 1536},
                                {"num_experts", 128},
                                {"num_experts_per_tok", 8},
                                {"norm_topk_prob", true},
                                {"decoder_sparse_step", 1},
                                {"router_aux_loss_coef", 0.001},
                                {"max_position_embeddings", 40960}};

TEST_CASE("a model of 235 billion parameters is planned for any of 1024 ranks, readably") {
  const SmallRun files;
  const auto config = files.folder().write("qwen3_235b.json", qwen3_235b.dump());
  const auto words = joined({"--model.config_path", config, "--train.global_batch_size", "1024", "--rank", "1000"},
                            extra({"ep", "emb"}, {"64", "8"}));
  const auto dry_run = plan_for(1024, files, words);
  INFO(dry_run.err);
  REQUIRE(dry_run.code == 0);
  CHECK(groups_of(dry_run, "world") == "1024 {0,1,2,...,1023}");
  CHECK(groups_of(dry_run, "ep") == "64 {0,1,2,...,63} {64,65,66,...,127} {128,129,130,...,191} ... (16 groups)");
  CHECK(groups_of(dry_run, "emb") ==
        "8 {0,1,2,3,4,5,6,7} {8,9,10,11,12,13,14,15} {16,17,18,19,20,21,22,23} ... (128 groups)");
  CHECK_THAT(dry_run.out, ContainsSubstring("# parameters of rank 1000 (235B total, 22.2B active per token)"));
  // Rank 1000 = 15 * 64 + 40 owns experts 80 and 81, and the last of 16 blocks of dim 1; = 125 * 8 + 0 the first
  // 18992 ids, and of 4096 columns the blocks of 32 from 125 on.
  const auto row = [&](const std::string& pattern) {
    return std::regex_search(dry_run.out, std::regex("\n" + pattern + " *\n"));
  };
  CHECK(row(R"(model\.layers\.93\.mlp\.experts\.gate_proj +\[128, 1536, 4096\] +ep, ep_fsdp +\[80, 82\) +)"
            R"(\[1440, 1536\) +\[0, 4096\))"));
  CHECK(row(R"(model\.embed_tokens\.weight +\[151936, 4096\] +emb, emb_fsdp +\[0, 18992\) +\[4000, 4032\))"));
  CHECK_THAT(dry_run.out, ContainsSubstring("Exchange m0 dispatch[93] over ep"));
  CHECK_THAT(dry_run.out, ContainsSubstring("# memory of rank 1000 by purpose"));
  std::istringstream lines(dry_run.out);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  CHECK(longest <= 200);
}

}  // namespace
}  // namespace tessera::test
