// If this failed, a setting would be read, printed and then ignored: each row of the field table, moved off its
// default, must change what a run does or be refused.
#include <ATen/Parallel.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "config/fields.h"
#include "support/catch.h"
#include "support/finished_command.h"
#include "support/heard_syncs.h"
#include "support/ranked_command.h"
#include "support/temp_folder.h"
#include "support/words.h"

namespace tessera {
namespace {

using Catch::Matchers::ContainsSubstring;
using config::Field;
using test::count_of;
using test::joined;
using test::Words;
using Options = std::map<std::string, Words>;  // "--x" -> its words

struct Run {
  int exit_code = 0;
  std::string out, err;
  std::string metrics;           // content of metrics.jsonl, where the base line has it
  std::string folders;           // names in the output folder
  bool wrote_elsewhere = false;  // into the folder that the example of output_dir names
  std::string trace;             // content of the file that the example of log.trace names
  int threads = 0;               // of LibTorch
  bool saved_aside = false;      // a thread of its own put files on the disk
};

// stopped_rank: two ranks, of which one is stopped after its first step.
enum class Start { run, dry_run, stopped_rank };

// The part of a run that a case compares.
struct View {
  Start start = Start::run;
  std::function<std::string(const Run&)> text;
};

// How a row shows that it matters: in the view, or, without a view, by a refusal with this reason.
struct Case {
  View view;
  std::string refusal{};
  Words both{};     // of the run with and of the run without the row
  Words example{};  // instead of the table's
  Words earlier{};  // of a run into the same folder, before each of the two
};

std::string part_from(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  return from == std::string::npos ? "" : text.substr(from, text.find(end, from + begin.size()) - from);
}

// A part of --dry-run: "groups", "parameters", "program", "memory".
View section(const std::string& name) {
  return {Start::dry_run, [name](const Run& run) { return part_from(run.out, "\n# " + name, "\n# "); }};
}

// A line of the start page.
View start_line(const std::string& name) {
  return {Start::run, [name](const Run& run) { return part_from(run.err, "\n  " + name + " ", "\n"); }};
}

// The lines of the log with this beginning.
View lines_with(const std::string& beginning) {
  return {Start::run, [beginning](const Run& run) {
            std::string found = beginning + ":";
            std::istringstream lines(run.err);
            for (std::string line; std::getline(lines, line);)
              if (line.starts_with(beginning)) found += line + ";";
            return found;
          }};
}

View step_lines() {
  return {Start::run, [](const Run& run) {
            std::string steps;
            std::istringstream lines(run.err);
            for (std::string line; std::getline(lines, line);)
              if (line.starts_with("step ")) steps += line.substr(0, line.find("loss")) + ";";
            return "lines " + steps;
          }};
}

// The values of `key` in metrics.jsonl, from step `first` on; for an array only that it is there.
View metric(const std::string& key, std::int64_t first = 1) {
  return {Start::run, [key, first](const Run& run) {
            std::string values = key + ":";
            std::istringstream lines(run.metrics);
            for (std::string line; std::getline(lines, line);) {
              const auto object = nlohmann::json::parse(line);
              if (!object.contains(key) || object.at("step") < first) continue;
              values +=
                  " " + object.at("step").dump() + " " + (object.at(key).is_array() ? "list" : object.at(key).dump());
            }
            return values;
          }};
}

View folders() {
  return {Start::run, [](const Run& run) { return run.folders; }};
}

// A number about the state after a run within this process.
View left_behind(const std::function<std::int64_t(const Run&)>& number) {
  return {Start::run, [number](const Run& run) { return std::to_string(number(run)); }};
}

View exit_code() {
  return {Start::run, [](const Run& run) { return std::to_string(run.exit_code); }};
}

// The loss in which a row must show at once: other rows show only after the first update.
View loss_at_once() {
  return {Start::run, [](const Run& run) { return part_from(run.metrics, "\"loss\"", ","); }};
}

void lay_over(Options& options, const Words& words) {
  std::string open;
  for (const auto& word : words) {
    if (word.starts_with("--"))
      options[open = word] = {};
    else
      options[open].push_back(word);
  }
}

const std::string accelerator = "--train.accelerator.";
const std::string optimizer = "--train.optimizer.";

Words plan_for(int ranks) { return {"--dry-run", accelerator + "world_size", std::to_string(ranks)}; }

Words group(const std::string& name, int size) {
  return {accelerator + "extra_parallel_names", name, accelerator + "extra_parallel_sizes", std::to_string(size)};
}

constexpr const char* oracle_checkpoint = TESSERA_SOURCE_DIR "/test/oracle/huggingface_layouts/per_expert";

// The files that the rows need, and one run for every line of words.
class Bench {
 public:
  Bench() {
    const std::string config = R"("model_type": "qwen3_moe", "vocab_size": 257, "hidden_size": 24,
      "intermediate_size": 22, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 5,
      "num_experts_per_tok": 2, "moe_intermediate_size": 14, "initializer_range": 0.3, "norm_topk_prob": false,
      "router_aux_loss_coef": 0.02, "max_position_embeddings": 64})";
    folder_.write("config.json", "{\"num_hidden_layers\": 2, " + config);
    folder_.write("other.json", "{\"num_hidden_layers\": 1, " + config);
    std::string lines;
    for (int i = 0; i < 24; ++i)
      lines += nlohmann::json({{"text", "line " + std::to_string(i * i) + ".\n"},
                               {"content", "Satz " + std::to_string(i * 7 % 11) + "!\n"}})
                   .dump() +
               "\n";
    folder_.write("train.jsonl", lines);
    folder_.write("faulty.jsonl", lines + "{\"text\": \"cut");
    folder_.write("other.txt", std::string(300, 'a') + std::string(200, 'b'));
    folder_.write("ids.jsonl", "{\"input_ids\": [1, 5, 2, 9, 3, 10, 4, 0, 7, 7, 2, 6, 1, 8, 3, 5, 2, 2, 9, 4]}\n");
    folder_.write("plan.json", "{\"extra_parallel_plan\": {\"ep\": {\"model.embed_tokens.weight\": \"Shard(0)\"}}}");
  }

  [[nodiscard]] std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

  [[nodiscard]] Options options(const Words& more) const {
    Options options;
    lay_over(options,
             {"--model.config_path", *this / "config.json", "--data.train_path", *this / "train.jsonl",
              "--data.max_seq_len", "11", "--train.max_steps", "4", "--train.global_batch_size", "3", "--train.threads",
              "1", optimizer + "lr", "0.02", "--train.checkpoint.output_dir", *this / "output"});
    lay_over(options, more);
    return options;
  }

  // The same line, after the same earlier one, is run once.
  const Run& run(const Options& options, Start start = Start::run, const Words& earlier = {}) {
    const auto words = words_of(options);
    const auto key = joined(words, earlier);
    const auto found = runs_.find(key);
    if (found != runs_.end()) return found->second;
    std::filesystem::remove_all(folder_ / "output");
    std::filesystem::remove_all(folder_ / "elsewhere");
    std::filesystem::remove(folder_ / "trace.json");
    if (!earlier.empty()) REQUIRE(to_its_end(words_of(this->options(earlier))).exit_code == 0);
    auto run = start == Start::stopped_rank ? with_a_stopped_rank(words) : to_its_end(words);
    if (std::filesystem::exists(folder_ / "output/metrics.jsonl"))
      run.metrics = base::read_file(folder_ / "output/metrics.jsonl");
    if (std::filesystem::exists(folder_ / "output")) run.folders = names_in(folder_ / "output");
    run.wrote_elsewhere = std::filesystem::exists(folder_ / "elsewhere/metrics.jsonl");
    if (std::filesystem::exists(folder_ / "trace.json")) run.trace = base::read_file(folder_ / "trace.json");
    return runs_.emplace(key, std::move(run)).first->second;
  }
  [[nodiscard]] bool wrote() const { return std::filesystem::exists(folder_ / "output"); }

 private:
  static Words words_of(const Options& options) {
    Words words;
    for (const auto& [option, values] : options) words = joined(joined(words, {option}), values);
    return words;
  }
  static std::string names_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
    std::string text;
    for (const auto& name : names) text += name + " ";
    return text;
  }
  static Run to_its_end(const Words& words) {
    const test::HeardSyncs heard;
    const auto finished = test::run_tessera_train(words);
    Run run{.exit_code = finished.exit_code, .out = finished.out, .err = finished.err};
    run.threads = at::get_num_threads();
    run.saved_aside = heard.has_heard_another_thread();
    return run;
  }

  // What the rest of the job has done ten seconds after one of its two ranks stopped.
  [[nodiscard]] Run with_a_stopped_rank(const Words& words) const {
    test::Command job(joined(joined(test::mpirun(2), {TESSERA_TRAIN}), words), test::mpi_environment());
    REQUIRE(test::wait_for_lines(job, *this / "output/metrics.jsonl", 1));
    const auto stopped = test::process_of_rank(job, 1);
    REQUIRE(stopped > 0);
    ::kill(stopped, SIGSTOP);
    for (int tenths = 0; tenths < 100 && job.is_running(); ++tenths)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::string state = job.is_running() ? "still waits" : "has ended";
    if (job.is_running()) ::kill(stopped, SIGKILL);
    const auto finished = job.wait();
    return {.exit_code = finished.code, .out = state, .err = finished.err};
  }

  test::TempFolder folder_;
  std::map<Words, Run> runs_;
};

Case refused(const std::string& reason, const Words& example = {}) { return {{}, reason, {}, example}; }

using Cases = std::map<std::string, Case>;

void add_model_cases(Cases& cases, const Bench& bench) {
  cases["model.config_path"] = {section("parameters"), {}, {}, {bench / "other.json"}};
  cases["model.model_path"] = {
      loss_at_once(),
      {},
      {"--model.config_path", oracle_checkpoint, "--data.train_path", bench / "ids.jsonl", "--data.max_seq_len", "5"},
      {oracle_checkpoint}};
  cases["model.router_z_loss_coef"] = {loss_at_once()};
  cases["model.balance_loss"] = {metric("aux_loss")};
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
        "attention_bias", "tie_word_embeddings", "num_experts", "num_local_experts", "moe_intermediate_size",
        "decoder_sparse_step", "mlp_only_layers", "num_experts_per_tok"})
    cases[std::string("model.") + key] = {section("parameters")};
  cases["model.intermediate_size"] = {section("parameters"), {}, {"--model.mlp_only_layers", "0"}};
  for (const char* key :
       {"rope_theta", "rope_parameters", "rms_norm_eps", "initializer_range", "norm_topk_prob", "router_aux_loss_coef"})
    cases[std::string("model.") + key] = {loss_at_once()};
  cases["model.max_position_embeddings"] =
      refused("data.max_seq_len = 11 is above max_position_embeddings = 10", {"10"});
  for (const char* key : {"hidden_act", "attention_dropout", "use_sliding_window"})
    cases[std::string("model.") + key] = refused(std::string("not supported: model.") + key);
  cases["model.rope_scaling"] = refused("not supported: model.rope_scaling.rope_type");
  cases["model.sliding_window"] = refused("model.sliding_window = 4096 has no effect");
}

void add_data_cases(Cases& cases, const Bench& bench) {
  cases["data.train_path"] = {loss_at_once(), {}, {}, {bench / "other.txt"}};
  cases["data.eval_path"] = {metric("eval/perplexity"), {}, {}, {bench / "other.txt"}};
  cases["data.format"] = {loss_at_once()};
  cases["data.text_keys"] = {loss_at_once()};
  cases["data.on_bad_line"] = {exit_code(), {}, {"--data.train_path", bench / "faulty.jsonl"}};
  cases["data.max_seq_len"] = {metric("tokens"), {}, {}, {"13"}};
  cases["data.documents"] = {loss_at_once()};
}

void add_train_cases(Cases& cases, const Bench& bench) {
  cases["train.micro_batch_size"] = {metric("aux_loss")};
  cases["train.global_batch_size"] = {metric("tokens")};
  cases["train.max_steps"] = {metric("step")};
  cases["train.num_train_epochs"] = {metric("step"), {}, {"--train.max_steps", "null"}};
  cases["train.eval_steps"] = {metric("eval/ce_loss"), {}, {"--data.eval_path", bench / "other.txt"}};
  cases["train.seed"] = {loss_at_once()};
  cases["train.threads"] = {left_behind([](const Run& run) { return run.threads; }), {}, {}, {"2"}};
  cases["train.precision"] = {loss_at_once()};
  cases["train.enable_full_determinism"] = {start_line("precision")};  // the rest: test/gpu/training_test.cpp
  const Words diverging{optimizer + "type", "sgd", optimizer + "lr", "1e30", optimizer + "max_grad_norm", "0"};
  cases["train.on_nonfinite"] = {exit_code(), {}, diverging};
  cases["train.max_consecutive_skips"] = {
      exit_code(),
      {},
      joined(diverging, {"--train.on_nonfinite", "skip", "--train.max_consecutive_skips", "2"}),
      {"0"}};
  cases["train.gradient_checkpointing.enable"] = {section("program")};
  cases["train.gradient_checkpointing.scope"] = {
      section("program"), {}, {"--train.gradient_checkpointing.enable", "true"}};
  cases["train.moe_load_balance_monitor_interval"] = {metric("expert_load")};
}

void add_optimizer_cases(Cases& cases) {
  const Words cosine{optimizer + "lr_decay_style", "cosine"};
  const Words sgd{optimizer + "type", "sgd"};
  cases["train.optimizer.type"] = {metric("loss", 2)};
  cases["train.optimizer.lr"] = {metric("loss", 2)};
  cases["train.optimizer.lr_min"] = {metric("loss", 2), {}, cosine};
  cases["train.optimizer.lr_start"] = {metric("loss", 2), {}, {optimizer + "lr_warmup_ratio", "0.5"}};
  cases["train.optimizer.lr_warmup_ratio"] = {metric("loss", 2)};
  cases["train.optimizer.lr_decay_style"] = {metric("loss", 2)};
  cases["train.optimizer.lr_decay_ratio"] = {metric("loss", 2), {}, cosine};
  cases["train.optimizer.betas"] = {metric("loss", 3)};  // Adam's first update does not depend on them
  cases["train.optimizer.eps"] = {metric("loss", 2)};
  cases["train.optimizer.momentum"] = {metric("loss", 3), {}, sgd};
  cases["train.optimizer.weight_decay"] = {metric("loss", 2)};
  cases["train.optimizer.no_decay_params"] = {metric("loss", 2), {}, {optimizer + "weight_decay", "0.1"}};
  cases["train.optimizer.max_grad_norm"] = {metric("loss", 2), {}, sgd};
  cases["train.optimizer.norm_type"] = {metric("grad_norm")};
}

void add_accelerator_cases(Cases& cases, const Bench& bench) {
  const auto both = [](const Words& words) { return joined(plan_for(4), words); };
  cases["train.accelerator.dp_replicate_size"] = {section("groups"), {}, plan_for(4)};
  cases["train.accelerator.dp_shard_size"] = {section("groups"), {}, plan_for(4)};
  cases["train.accelerator.extra_parallel_sizes"] = {section("groups"), {}, both(group("ep", 1))};
  cases["train.accelerator.extra_parallel_names"] = {section("parameters"), {}, both(group("ep", 2))};
  cases["train.accelerator.extra_parallel_placement_innermost"] = {section("groups"), {}, both(group("ep", 2))};
  cases["train.accelerator.ep_size"] = {section("groups"), {}, plan_for(4)};
  cases["train.accelerator.ep_outside"] = {section("groups"), {}, both({accelerator + "ep_size", "2"})};
  cases["train.accelerator.parallel_plan"] = {section("parameters"), {}, both(group("ep", 2)), {bench / "plan.json"}};
  const std::string fsdp = "train.accelerator.fsdp_config.";
  for (const char* name : {"fsdp_mode", "reshard_after_forward", "forward_prefetch", "prefetch_depth"})
    cases[fsdp + name] = {section("program")};
  cases[fsdp + "mixed_precision.enable"] = {loss_at_once()};
  cases[fsdp + "mixed_precision.param_dtype"] = {loss_at_once()};
  cases[fsdp + "mixed_precision.reduce_dtype"] = refused("is none of: float32");
  // Tests see no GPU.
  cases["train.accelerator.device"] = refused("train.accelerator.device = cuda, but ");
  cases["train.accelerator.backend"] = refused("train.accelerator.backend = nccl moves memory of GPUs");
  cases["train.accelerator.world_size"] = {section("groups"), {}, {"--dry-run"}};
  cases["train.accelerator.overlap_exchange"] = {
      section("program"), {}, joined(joined(plan_for(2), group("ep", 2)), {"--train.global_batch_size", "4"})};
  const View state{Start::stopped_rank, [](const Run& run) { return run.out; }};
  cases["train.accelerator.timeout_s"] = {
      state, {}, {"--train.max_steps", "1000000", "--train.num_train_epochs", "1000000"}, {"2"}};
}

void add_output_cases(Cases& cases, const Bench& bench) {
  cases["train.checkpoint.output_dir"] = {
      {Start::run, [](const Run& run) { return std::string(run.wrote_elsewhere ? "elsewhere" : "output"); }},
      {},
      {},
      {bench / "elsewhere"}};
  const std::string checkpoint = "train.checkpoint.";
  const Words saving{"--train.checkpoint.save_steps", "1"};
  const Words two_steps{"--train.max_steps", "2"};
  cases[checkpoint + "save_steps"] = {folders()};
  cases[checkpoint + "save_epochs"] = {folders(), {}, {"--train.max_steps", "null", "--train.num_train_epochs", "3"}};
  cases[checkpoint + "save_last"] = {folders()};
  cases[checkpoint + "save_hf_weights"] = {folders()};
  cases[checkpoint + "save_async"] = {left_behind([](const Run& run) { return run.saved_aside ? 1 : 0; }), {}, saving};
  cases[checkpoint + "keep_last"] = {folders(), {}, saving};
  cases[checkpoint + "keep_every"] = {folders(), {}, joined(saving, {"--train.checkpoint.keep_last", "1"})};
  cases[checkpoint + "load_path"] = {lines_with("resumed from"), {}, {}, {}, two_steps};
  cases[checkpoint + "own_first"] = {lines_with("resumed from"), {}, {}, {}, two_steps};
  cases[checkpoint + "allow_changes"] = {
      exit_code(), {}, {"--train.checkpoint.load_path", "auto", optimizer + "lr", "0.01"}, {}, two_steps};
  cases["train.log.level"] = {step_lines()};
  cases["train.log.every"] = {step_lines(), {}, {"--train.max_steps", "25", "--train.num_train_epochs", "9"}};
  cases["train.log.trace"] = {left_behind([](const Run& run) { return count_of("\"name\":\"Forward ", run.trace); }),
                              {},
                              {},
                              {bench / "trace.json"}};
  cases["train.debug.only"] = {lines_with("  note: seconds")};  // whose: told_numbers_test.cpp
  cases["train.debug.check_replicas"] = {lines_with("replicas after")};
  cases["train.debug.poison_freed"] = {section("memory")};
}

Cases all_cases(const Bench& bench) {
  Cases cases;
  add_model_cases(cases, bench);
  add_data_cases(cases, bench);
  add_train_cases(cases, bench);
  add_optimizer_cases(cases);
  add_accelerator_cases(cases, bench);
  add_output_cases(cases, bench);
  return cases;
}

void check_refused(Bench& bench, const Words& words, const std::string& reason) {
  const auto& run = bench.run(bench.options(words));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring(reason));
  CHECK(run.err.find(reason) == run.err.rfind(reason));  // told once
  CHECK_FALSE(bench.wrote());
}

void check_changes(Bench& bench, const Field& field, const Case& one) {
  auto both = one.both;
  if (one.view.start == Start::dry_run && std::find(both.begin(), both.end(), "--dry-run") == both.end())
    both.emplace_back("--dry-run");
  const auto& example = one.example.empty() ? field.example : one.example;
  const auto& before = bench.run(bench.options(both), one.view.start, one.earlier);
  const auto& after =
      bench.run(bench.options(joined(joined(both, {"--" + field.path}), example)), one.view.start, one.earlier);
  CAPTURE(before.err, after.err);
  const bool is_about_the_end = one.view.start == Start::stopped_rank;
  const bool may_stop = field.path == "train.on_nonfinite" || field.path == "train.max_consecutive_skips" ||
                        field.path == "data.on_bad_line" || field.path == "train.checkpoint.allow_changes";
  CHECK((before.exit_code == 0 || may_stop || is_about_the_end));
  CHECK((after.exit_code == 0 || is_about_the_end));
  const auto seen_before = one.view.text(before);
  const auto seen_after = one.view.text(after);
  CAPTURE(seen_before, seen_after);
  CHECK((!seen_before.empty() && !seen_after.empty()));
  CHECK(seen_before != seen_after);
}

TEST_CASE("every setting moved off its default changes what a run does, or is refused with a reason") {
  Bench bench;
  auto cases = all_cases(bench);
  for (const Field& field : config::fields()) {
    CAPTURE(field.path, field.observe);
    if (!field.not_yet.empty()) {
      check_refused(bench, joined(joined({"--" + field.path}, field.example), field.beside),
                    "not yet built: " + field.not_yet);
      continue;
    }
    const auto found = cases.find(field.path);
    CHECK(found != cases.end());  // a new row needs a case above
    if (found == cases.end()) continue;
    const auto& one = found->second;
    if (one.view.text)
      check_changes(bench, field, one);
    else
      check_refused(bench, joined({"--" + field.path}, one.example.empty() ? field.example : one.example), one.refusal);
    cases.erase(found);
  }
  std::string left;
  for (const auto& entry : cases) left += entry.first + " ";
  CHECK(left == "");
}

TEST_CASE("a problem with groups is told once, with the sizes that would do") {
  Bench bench;
  const auto lists = accelerator + "extra_parallel_";
  const std::string first = "train.accelerator.extra_parallel_sizes[0] = ";
  check_refused(bench, joined(plan_for(16), group("wing", 0)),
                first + "0 (wing) is less than 1 and cannot divide 16 data-parallel ranks; use 1, 2, 4, 8 or 16");
  check_refused(bench, group("wing", 0), first + "0 (wing) is less than 1");
  check_refused(bench, joined(plan_for(8), group("ep", 3)),
                "3 (ep) does not divide 8 data-parallel ranks; use 1, 2, 4 or 8");
  check_refused(bench,
                joined(plan_for(16), {lists + "names", "wing", "tail", lists + "sizes", "4", "2",
                                      lists + "placement_innermost", "true"}),
                "train.accelerator.extra_parallel_sizes, extra_parallel_names and extra_parallel_placement_innermost "
                "have lengths 2, 2 and 1");
  check_refused(bench, joined(plan_for(4), {lists + "names", "tp", lists + "sizes", "1"}),
                "would be confused with a group of the layout");
  check_refused(bench, {"--print-settings", lists + "names", "ep"}, "have lengths 0, 1 and 0");
  check_refused(bench, group("ep", 3), "3 (ep) does not divide 1 data-parallel rank; use 1");
}

TEST_CASE("each level of the log shows more than the next") {
  Bench bench;
  std::vector<std::size_t> lengths;
  for (const char* level : {"debug", "info", "warning"})
    lengths.push_back(bench.run(bench.options({"--train.log.level", level})).err.size());
  CHECK(lengths[0] > lengths[1]);
  CHECK(lengths[1] > lengths[2]);
  CHECK(lengths[2] == 0);
  const auto skipping = [&](const char* level) {
    return bench.run(bench.options({"--train.log.level", level, optimizer + "type", "sgd", optimizer + "lr", "1e30",
                                    optimizer + "max_grad_norm", "0", "--train.on_nonfinite", "skip"}));
  };
  CHECK_THAT(skipping("warning").err, ContainsSubstring("warning step "));
  CHECK(skipping("error").err.empty());
}

TEST_CASE("problems of settings and of groups stand in one message") {
  Bench bench;
  const auto& run =
      bench.run(bench.options(joined(joined(plan_for(4), group("ep", 3)), {optimizer + "lr_min", "1e-6"})));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("2 problems in settings:") && ContainsSubstring("lr_min") &&
                          ContainsSubstring("3 (ep)"));
}

}  // namespace
}  // namespace tessera
