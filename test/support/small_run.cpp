#include "support/small_run.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "config/command_line.h"
#include "data/batch.h"
#include "data/loader.h"
#include "layout/share.h"
#include "support/catch.h"
#include "train/total_steps.h"

namespace tessera::test {
namespace {

constexpr const char* small_config = R"({
  "model_type": "qwen3_moe",
  "vocab_size": 31,
  "hidden_size": 15,
  "intermediate_size": 17,
  "num_hidden_layers": 3,
  "num_attention_heads": 6,
  "num_key_value_heads": 3,
  "head_dim": 4,
  "moe_intermediate_size": 11,
  "num_experts": 5,
  "num_experts_per_tok": 2,
  "norm_topk_prob": true,
  "mlp_only_layers": [0],
  "initializer_range": 0.3,
  "router_aux_loss_coef": 0.02,
  "max_position_embeddings": 64
})";

model::Values values_of(const data::Batch& b) {
  return model::batch_values(b.ids, b.labels, b.positions, b.attention_starts, b.sequence_starts);
}

double number_of(const nlohmann::json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.get<double>();
}

MetricsLine line_of(const nlohmann::json& object) {
  MetricsLine line{.kind = object.at("kind").get<std::string>(), .numbers = {}, .expert_load = {}};
  for (const auto& [key, value] : object.items()) {
    if (key == "expert_load")
      line.expert_load = value.get<std::vector<std::vector<std::int64_t>>>();
    else if (!value.is_string() && !value.is_array())
      line.numbers[key] = number_of(value);
  }
  return line;
}

}  // namespace

std::vector<std::vector<std::int64_t>> small_documents(std::int64_t count, std::int64_t seed) {
  std::vector<std::vector<std::int64_t>> documents;
  for (std::int64_t d = seed; d < seed + count; ++d) {
    auto& ids = documents.emplace_back();
    for (std::int64_t i = 0; i < 3 + d * 7 % 17; ++i) ids.push_back((d * 11 + i * i * 3 + i) % 31);
  }
  return documents;
}

std::string jsonl_of(const std::vector<std::vector<std::int64_t>>& documents) {
  std::string text;
  for (const auto& ids : documents) text += nlohmann::json({{"input_ids", ids}}).dump() + "\n";
  return text;
}

SmallRun::SmallRun() {
  folder_.write("config.json", small_config);
  folder_.write("train.jsonl", jsonl_of(small_documents(23)));
  folder_.write("eval.jsonl", jsonl_of(small_documents(7, 23)));
}

Words SmallRun::words(const Words& more) const {
  std::map<std::string, Words> options{{"--model.config_path", {folder_ / "config.json"}},
                                       {"--data.train_path", {folder_ / "train.jsonl"}},
                                       {"--data.max_seq_len", {"13"}},
                                       {"--train.global_batch_size", {"4"}},
                                       {"--train.num_train_epochs", {"100"}},
                                       {"--train.max_steps", {"5"}},
                                       {"--train.threads", {"1"}},
                                       {"--train.optimizer.lr", {"0.01"}},
                                       {"--train.checkpoint.output_dir", {output()}}};
  Words* values = nullptr;
  for (const auto& word : more) {
    if (word.starts_with("--")) {
      values = &options[word];
      values->clear();
    } else {
      REQUIRE(values != nullptr);
      values->push_back(word);
    }
  }
  Words all;
  for (const auto& [option, list] : options) {
    all.push_back(option);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

config::Settings SmallRun::settings(const Words& more) const {
  std::vector<const char*> argv{"tessera-train"};
  const auto all = words(more);
  for (const auto& word : all) argv.push_back(word.c_str());
  return config::read_command_line(static_cast<int>(argv.size()), argv.data()).settings;
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& file) {
  std::vector<MetricsLine> lines;
  const auto text = base::read_file(file);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    lines.push_back(line_of(base::parse_json_line(text.substr(at, end - at), file.string(), 1)));
    at = end + 1;
  }
  return lines;
}

std::vector<double> column(const std::vector<MetricsLine>& lines, const std::string& key) {
  std::vector<double> values;
  for (const auto& line : lines)
    if (const auto found = line.numbers.find(key); found != line.numbers.end()) values.push_back(found->second);
  return values;
}

Trained run_training(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& world) {
  Start start(settings, world);
  auto& assembly = start.assembly();
  const auto& training = start.training();
  const auto evaluation = train::make_dataset(assembly.blueprint(), train::Split::evaluation);
  const std::filesystem::path output = settings.train.checkpoint.output_dir;
  std::filesystem::create_directories(output);
  const train::StopSignals signals;
  train::MetricsFile metrics(output / "metrics.jsonl", train::ExistingMetrics::replace);
  const auto steps = train::total_steps(training, settings.train, assembly.blueprint().global_batch);
  train::Report report(steps, 1, train::Audience::file);
  train::Trainer trainer({.assembly = assembly,
                          .training = training,
                          .evaluation = evaluation.get(),
                          .signals = signals,
                          .metrics = &metrics,
                          .report = report});
  Trained trained;
  trained.ending = trainer.train();
  metrics.close();
  trained.metrics = read_metrics(output / "metrics.jsonl");
  for (const auto& p : assembly.store().parameters()) trained.masters[p.placement.parameter.fqn] = p.master.clone();
  for (const auto& state : assembly.optimizer().state())
    trained.moments[state.fqn + "/" + state.name] = state.tensor.clone();
  return trained;
}

train::Blueprint blueprint_of(const config::Settings& settings, std::int64_t ranks) {
  base::set_log(base::LogLevel::error, true);
  at::set_num_threads(static_cast<int>(settings.train.threads));
  return train::make_blueprint(settings, ranks);
}

Start::Start(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& world)
    : Start(blueprint_of(settings, world->size()), world) {}

Start::Start(train::Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
             checkpoint::StoredCheckpoint* stored, const std::shared_ptr<comm::Communicator>& gpu_world)
    : assembly_(std::move(blueprint), world, stored, gpu_world),
      training_(train::make_dataset(assembly_.blueprint(), train::Split::training)) {}

std::vector<Start::Step> Start::steps(std::int64_t count) const {
  const auto& blueprint = assembly_.blueprint();
  data::LoaderOptions options;
  options.global_batch = blueprint.global_batch;
  const auto rank = blueprint.layout.position(assembly_.rank(), layout::GroupId::data());
  options.shares = [&, rank](std::int64_t windows) {
    return layout::sequences_of_rank(windows, blueprint.settings.train.micro_batch_size, blueprint.data_ranks(), rank);
  };
  data::Loader loader(*training_, options);
  std::vector<Step> steps;
  while (std::ssize(steps) < count) {
    const auto loaded = loader.next();
    REQUIRE(loaded.has_value());
    auto& step = steps.emplace_back();
    step.windows = loaded->windows.count;
    for (const auto& batch : loaded->batches) step.inputs.batches.push_back(values_of(batch));
  }
  return steps;
}

executor::StepInputs inputs_of(const std::vector<std::vector<data::Window>>& micro_batches) {
  executor::StepInputs inputs;
  for (const auto& windows : micro_batches) inputs.batches.push_back(values_of(data::make_batch(windows)));
  return inputs;
}

Gradients gradients(train::Assembly& assembly, const Start::Step& step) {
  return gradients(assembly, assembly.program(program::StepKind::train, step.windows), step.inputs);
}

Gradients gradients(train::Assembly& assembly, program::Program program, const executor::StepInputs& inputs) {
  REQUIRE(program.instructions.back().op == program::Op::update);
  program.instructions.pop_back();
  Gradients gradients;
  gradients.result = assembly.executor().run(program, inputs);
  for (const auto& p : assembly.store().parameters()) gradients.of[p.placement.parameter.fqn] = p.gradient.clone();
  assembly.store().zero_gradients();
  return gradients;
}

Gradients first_gradients(const config::Settings& settings) {
  Start start(settings);
  return gradients(start.assembly(), start.steps(1).front());
}

at::Tensor part_of(const at::Tensor& whole, const layout::Box& box) {
  auto part = whole;
  for (std::size_t d = 0; d < box.dims.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), box.dims[d].begin, box.dims[d].size());
  return part;
}

double largest_deviation(const TensorsByName& tensors, const TensorsByName& expected) {
  REQUIRE(tensors.size() == expected.size());
  double largest = 0;
  for (const auto& [name, tensor] : expected) {
    REQUIRE(tensors.contains(name));
    const auto& other = tensors.at(name);
    REQUIRE(other.sizes() == tensor.sizes());
    if (tensor.numel() == 0) continue;
    const auto scale = tensor.abs().max().to(at::kDouble).item<double>();
    const auto difference = other.sub(tensor).abs().max().to(at::kDouble).item<double>();
    const auto deviation = difference == 0 ? 0 : difference / scale;
    if (!(deviation <= largest)) largest = std::isnan(deviation) ? std::numeric_limits<double>::infinity() : deviation;
  }
  return largest;
}

bool same_bits(const TensorsByName& a, const TensorsByName& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && at::equal(one.second, other.second);
  });
}

}  // namespace tessera::test
