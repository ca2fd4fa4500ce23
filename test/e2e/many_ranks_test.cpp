// If this failed, `mpirun -n 4 tessera-train ...` would train other numbers than one rank, or print everything four
// times.
#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/file.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string accelerator = "--train.accelerator.";

// {"ep 2", "emb 4"} -> the three lists.
Words extra(const std::vector<std::pair<std::string, int>>& groups, bool innermost = true) {
  Words sizes{accelerator + "extra_parallel_sizes"}, names{accelerator + "extra_parallel_names"};
  Words placements{accelerator + "extra_parallel_placement_innermost"};
  for (const auto& [name, size] : groups) {
    sizes.push_back(std::to_string(size));
    names.push_back(name);
    placements.emplace_back(innermost ? "true" : "false");
  }
  return joined(joined(sizes, names), placements);
}

struct Ran {
  Finished finished;
  std::vector<MetricsLine> metrics;
};

// One rank without mpirun.
Ran train(const SmallRun& files, int ranks, const Words& more) {
  std::filesystem::remove_all(files.output());
  const auto words = files.words(more);
  Ran ran;
  ran.finished = ranks == 1 ? run_command(joined({TESSERA_TRAIN}, words)) : run_ranks(ranks, words);
  INFO(ran.finished.err);
  REQUIRE(ran.finished.code == 0);
  ran.metrics = read_metrics(files.output() / "metrics.jsonl");
  return ran;
}

// Losses and norms of float64 runs.
void check_same(const Ran& ran, const Ran& of_one_rank) {
  for (const char* key : {"loss", "ce_loss", "aux_loss", "z_loss", "grad_norm", "tokens", "eval/ce_loss"}) {
    INFO(key);
    const auto values = column(ran.metrics, key);
    const auto expected = column(of_one_rank.metrics, key);
    REQUIRE(values.size() == expected.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      CAPTURE(k, values[k], expected[k]);
      CHECK(std::abs(values[k] - expected[k]) <= 1e-10 * std::abs(expected[k]));
    }
  }
}

const Words exact{"--train.precision", "float64"};
// Micro-steps of as many sequences on any number of ranks, which pooled balance needs.
Words micro_step_of_four(int ranks) { return {"--train.micro_batch_size", std::to_string(4 / ranks)}; }
// Balance that is the same however a global batch is cut.
const Words by_sequence = joined(exact, {"--model.balance_loss", "sequence"});

TEST_CASE("the command with ep 2 and emb 4 on four ranks trains with the losses and norms of one rank, told once") {
  const SmallRun files;
  const auto steps = joined(exact, {"--data.eval_path", files.folder() / "eval.jsonl",
                                    "--train.moe_load_balance_monitor_interval", "1", "--train.log.every", "1"});
  const auto one = train(files, 1, joined(steps, micro_step_of_four(1)));
  // The settings in a file, the groups on the command line.
  nlohmann::json settings;
  const auto words = files.words(joined(steps, micro_step_of_four(4)));
  for (std::size_t k = 0; k + 1 < words.size(); k += 2) {
    auto pointer = "/" + words[k].substr(2);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const auto number = nlohmann::json::parse(words[k + 1], nullptr, false);
    settings[nlohmann::json::json_pointer(pointer)] = number.is_discarded() ? nlohmann::json(words[k + 1]) : number;
  }
  const auto file = files.folder().write("settings.json", settings.dump());
  std::filesystem::remove_all(files.output());
  Ran four;
  four.finished = run_ranks(4, joined({file.string()}, extra({{"ep", 2}, {"emb", 4}})));
  const auto& err = four.finished.err;
  INFO(err);
  REQUIRE(four.finished.code == 0);
  four.metrics = read_metrics(files.output() / "metrics.jsonl");
  check_same(four, one);
  REQUIRE(column(four.metrics, "loss").size() == 5);
  for (const char* group : {"grad_norm/dense", "grad_norm/ep", "grad_norm/emb"})
    for (const double norm : column(four.metrics, group)) CHECK(norm > 0);
  // One rank wrote, one rank spoke. The last line is the groups' traffic.
  REQUIRE(four.metrics.size() == one.metrics.size() + 1);
  four.metrics.pop_back();
  CHECK(column(four.metrics, "step") == column(one.metrics, "step"));
  for (std::size_t k = 0; k < one.metrics.size(); ++k) CHECK(four.metrics[k].expert_load == one.metrics[k].expert_load);
  CHECK(std::filesystem::exists(files.output() / "settings.resolved.json"));
  for (const char* line : {"Tessera\n", "  ranks          4: 4 on ", "  layout         dp_replicate 1, dp_shard 4; ",
                           "\nstep 1/5 ", "\nstep 5/5 ", "evaluation after step 5", "all 5 steps are done"}) {
    INFO(line);
    CHECK(count_of(line, "\n" + err) == 1);
  }
  CHECK(four.finished.out.empty());
}

TEST_CASE("a step with fewer sequences than ranks, and held-out data of fewer windows, are those of one rank") {
  const SmallRun files;
  files.folder().write("few.jsonl", jsonl_of(small_documents(3, 40)));
  const auto words = joined(by_sequence, {"--train.global_batch_size", "2", "--data.eval_path",
                                          files.folder() / "few.jsonl", "--train.eval_steps", "2"});
  const auto one = train(files, 1, words);
  CHECK(column(one.metrics, "eval/ce_loss").size() == 3);
  check_same(train(files, 4, joined(words, extra({{"ep", 2}, {"emb", 4}}))), one);
  check_same(train(files, 3, joined(words, extra({{"ep", 3}}))), one);
}

// A checkpoint of the model's initial values with routers of zero: of equal probabilities the lowest expert's is
// chosen, which rank 0 owns.
std::filesystem::path write_checkpoint_with_zero_routers(const SmallRun& files, const Words& model) {
  Start start(files.settings(model));
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& p : start.assembly().store().parameters()) {
    const auto values = (p.placement.parameter.fqn.ends_with("mlp.gate.weight") ? p.master.mul(0) : p.master);
    const auto begin = data.size();
    const auto bytes = static_cast<std::size_t>(values.numel()) * sizeof(float);
    data.resize(begin + bytes);
    std::memcpy(data.data() + begin, values.contiguous().data_ptr<float>(), bytes);
    header[p.placement.parameter.fqn] = {
        {"dtype", "F32"}, {"shape", p.placement.parameter.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const auto text = header.dump();
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  std::filesystem::copy_file(files.folder() / "config.json", files.folder() / "checkpoint" / "config.json");
  return files.folder().write("checkpoint/model.safetensors", file + text + data).parent_path();
}

std::vector<std::vector<std::int64_t>> last_load(const Ran& ran) {
  std::vector<std::vector<std::int64_t>> load;
  for (const auto& line : ran.metrics)
    if (!line.expert_load.empty()) load = line.expert_load;
  return load;
}

TEST_CASE("twenty steps whose tokens all go to rank 0's experts end, as those of one rank") {
  const SmallRun files;
  std::filesystem::create_directory(files.folder() / "checkpoint");
  // The only weight of a token is 1 whatever the router says, so that the router's gradient is zero and it stays.
  const Words model{"--model.num_experts_per_tok", "1", "--model.router_aux_loss_coef", "0"};
  const auto checkpoint = write_checkpoint_with_zero_routers(files, model);
  const auto words = joined(joined(exact, model), {"--model.model_path", checkpoint, "--train.max_steps", "20",
                                                   "--train.moe_load_balance_monitor_interval", "20"});
  const auto one = train(files, 1, words);
  const auto load = last_load(one);
  REQUIRE(load.size() == 2);
  for (const auto& layer : load)
    CHECK((layer.front() > 0 && layer == std::vector<std::int64_t>{layer.front(), 0, 0, 0, 0}));
  for (const auto& [ranks, size, innermost] : {std::tuple{2, 2, true}, {4, 4, true}, {4, 2, false}}) {
    CAPTURE(ranks, size, innermost);
    const auto many = train(files, ranks, joined(words, extra({{"ep", size}}, innermost)));
    check_same(many, one);
    CHECK(last_load(many) == load);
  }
}

TEST_CASE("a name of one's own splits attention outputs, with the losses of one rank; the log says what it saves") {
  const SmallRun files;
  const nlohmann::json wide{{"model.layers.*.self_attn.o_proj.weight", "Shard(0)"}};
  const auto plan =
      files.folder().write("plan.json", nlohmann::json({{"extra_parallel_plan", {{"wide", wide}}}}).dump());
  const auto one = train(files, 1, by_sequence);
  const auto many =
      train(files, 4, joined(joined(by_sequence, extra({{"wide", 2}})), {accelerator + "parallel_plan", plan}));
  check_same(many, one);
  INFO(many.finished.err);
  CHECK(count_of("  note: wide splits parameters that are gathered whole for every use: it saves memory, not traffic",
                 many.finished.err) == 1);
  for (const double norm : column(many.metrics, "grad_norm/wide")) CHECK(norm > 0);
}

TEST_CASE("a token id outside the vocabulary is refused on two ranks with its place, told once, and -100 is a label") {
  const SmallRun files;
  const auto data = files.folder().write("ids.jsonl", R"({"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]})"
                                                      "\n"
                                                      R"({"input_ids": [1, 2, 31, 4]})"
                                                      "\n");
  const auto finished = run_ranks(2, files.words(joined(extra({{"emb", 2}}), {"--data.train_path", data})));
  INFO(finished.err);
  CHECK(finished.code == 2);
  CHECK_THAT(finished.err,
             ContainsSubstring("rank 0: ") && ContainsSubstring("ids.jsonl:2: input_ids[2] = 31 is outside"));
  CHECK(count_of("] error ", finished.err) == 1);
  CHECK_FALSE(std::filesystem::exists(files.output()));
  const auto document = nlohmann::json({{"input_ids", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
                                        {"labels", {1, -100, 3, 4, 5, 6, -100, 8, 9, 10, 11, 12, 13}}})
                            .dump();
  const auto labels = files.folder().write("labels.jsonl", document + "\n" + document + "\n");
  const auto words = joined(by_sequence, {"--data.train_path", labels});
  check_same(train(files, 2, joined(words, extra({{"emb", 2}}))), train(files, 1, words));
}

}  // namespace
}  // namespace tessera::test
