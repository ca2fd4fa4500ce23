#include "fixture.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "architecture/family.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors.h"

namespace tessera::test {
namespace {

const std::filesystem::path fixtures = std::filesystem::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "fixtures";

std::string_view name_of(Bits bits) { return bits == Bits::float32 ? "float32" : "float64"; }

at::ScalarType type_of(checkpoint::ElementType type) {
  switch (type) {
    case checkpoint::ElementType::F32: return at::kFloat;
    case checkpoint::ElementType::F64: return at::kDouble;
    case checkpoint::ElementType::I64: return at::kLong;
    default: base::fail("a fixture holds {}", checkpoint::name(type));
  }
}

at::Tensor read_tensor(const checkpoint::SafetensorsFile& file, const checkpoint::StoredTensor& stored) {
  const auto bytes = file.bytes(stored);
  const at::Tensor tensor = at::empty(stored.shape, type_of(stored.type));
  base::require(bytes.size() == tensor.nbytes(), "{}: {} bytes", stored.name, bytes.size());
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor integers(const nlohmann::json& list) { return at::tensor(list.get<std::vector<std::int64_t>>()); }

config::BalanceLoss balance_of(const std::string& name) {
  if (name == "per_layer") return config::BalanceLoss::per_layer;
  if (name == "sequence") return config::BalanceLoss::sequence;
  base::require(name == "pooled", "balance loss {}", name);
  return config::BalanceLoss::pooled;
}

at::Tensor ascending(const at::Tensor& rows) { return std::get<0>(at::sort(rows, -1)); }

// Our slots, by expert, as the experts of each token.
at::Tensor choices_of(const ComposedModel& model, std::int32_t layer, const architecture::ModelConfig& config) {
  const at::Tensor& choice = model.value(architecture::ValueKind::slot_choice, layer);
  const at::Tensor by_token = std::get<0>(at::sort(choice));
  return at::remainder(by_token, config.num_experts).view({-1, config.num_experts_per_tok});
}

}  // namespace

std::vector<std::string> Fixture::names() {
  std::vector<std::string> list;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) list.push_back(entry.path().filename());
  std::sort(list.begin(), list.end());
  return list;
}

device::Numbers numbers_of(Bits bits) {
  const auto type = bits == Bits::float32 ? at::kFloat : at::kDouble;
  return {type, type, type};
}

Fixture::Fixture(const std::string& name) : folder_(fixtures / name) {
  base::Problems problems;
  const auto config = base::parse_json_file(folder_ / "config.json", base::JsonComments::refused);
  config_ = architecture::read_model_config(config, {}, problems);
  problems.throw_if_any(config.source());
  const auto document = base::parse_json_file(folder_ / "expected.json", base::JsonComments::refused);
  const nlohmann::json& expected = document.value();
  balance_ = balance_of(expected.at("balance_loss"));
  z_loss_coef_ = expected.at("z_loss_coef");
  num_parameters_ = expected.at("num_parameters");
  const nlohmann::json& batch = expected.at("batch");
  batch_ = {integers(batch.at("ids")), integers(batch.at("labels")), integers(batch.at("positions")),
            integers(batch.at("attention_starts")), integers(batch.at("sequence_starts"))};
}

Outcome Fixture::expected(Bits bits) const {
  const auto document = base::parse_json_file(folder_ / "expected.json", base::JsonComments::refused);
  const nlohmann::json& numbers = document.value().at(name_of(bits));
  Outcome outcome;
  outcome.loss = numbers.at("loss");
  outcome.cross_entropy = numbers.at("cross_entropy");
  outcome.aux_loss = numbers.at("aux_loss");
  outcome.z_loss = numbers.at("z_loss");
  outcome.norms = numbers.at("norms").get<std::map<std::string, double>>();
  const checkpoint::SafetensorsFile file(folder_ / (std::string(name_of(bits)) + ".safetensors"));
  constexpr std::string_view gradient = "gradient.", top_k = "top_k.";
  for (const checkpoint::StoredTensor& stored : file.tensors()) {
    const at::Tensor tensor = read_tensor(file, stored);
    if (stored.name == "logits") {
      outcome.logits = tensor;
    } else if (stored.name.starts_with(top_k)) {
      outcome.top_k[std::stoll(stored.name.substr(top_k.size()))] = ascending(tensor);
    } else {
      base::require(stored.name.starts_with(gradient), "{} in a fixture", stored.name);
      outcome.gradients[stored.name.substr(gradient.size())] = tensor;
    }
  }
  return outcome;
}

Training Fixture::expected_training(Bits bits) const {
  const auto document = base::parse_json_file(folder_ / "expected.json", base::JsonComments::refused);
  const nlohmann::json& numbers = document.value().at(name_of(bits)).at("optimizer");
  Training training;
  training.settings.lr = numbers.at("lr");
  training.settings.betas = numbers.at("betas").get<std::vector<double>>();
  training.settings.eps = numbers.at("eps");
  training.settings.weight_decay = numbers.at("weight_decay");
  training.settings.max_grad_norm = numbers.at("max_grad_norm");
  training.losses = numbers.at("losses").get<std::vector<double>>();
  training.gradient_norms = numbers.at("gradient_norms").get<std::vector<double>>();
  const checkpoint::SafetensorsFile file(folder_ / (std::string(name_of(bits)) + ".trained.safetensors"));
  for (const checkpoint::StoredTensor& stored : file.tensors())
    training.weights[stored.name] = read_tensor(file, stored);
  return training;
}

model::StepFacts facts_of(const architecture::Architecture& architecture, const Batch& batch) {
  model::StepFacts facts;
  facts.loss_scale = 1.0 / static_cast<double>(batch.labels.ne(-100).sum().item<std::int64_t>());
  const auto sequences = static_cast<double>(batch.sequence_starts.numel() - 1);
  facts.balance_scale = architecture.balance() == config::BalanceLoss::sequence ? 1 / sequences : 1;
  facts.routed_tokens = static_cast<double>(batch.ids.numel());
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < architecture.config().num_hidden_layers; ++layer)
    if (architecture.config().is_moe_layer(layer)) ++layers;
  facts.z_scale = 1 / (facts.routed_tokens * static_cast<double>(layers));
  return facts;
}

void load_weights(const std::filesystem::path& file, const architecture::Architecture& architecture,
                  const ComposedModel& model) {
  const checkpoint::HuggingFaceCheckpoint weights(file, architecture.parameters());
  for (const base::ParameterSpec& parameter : architecture.parameters())
    checkpoint::read_box(weights.parameter(parameter.fqn), layout::whole_box(parameter.shape),
                         model.parameter(parameter.fqn));
}

Outcome run(const architecture::Architecture& architecture, ComposedModel& model, const Batch& batch) {
  const model::StepFacts facts = facts_of(architecture, batch);
  model.zero_gradients();
  const model::HeadSums sums = model.train(batch, facts);
  Outcome outcome;
  outcome.loss = model.value(architecture::ValueKind::loss).item<double>();
  outcome.cross_entropy = sums.cross_entropy.item<double>() * facts.loss_scale;
  outcome.aux_loss = sums.balance.item<double>();
  outcome.z_loss = sums.z.item<double>();
  outcome.logits = model.logits();
  for (std::int32_t layer = 0; layer < architecture.config().num_hidden_layers; ++layer)
    if (architecture.config().is_moe_layer(layer))
      outcome.top_k[layer] = choices_of(model, layer, architecture.config());
  for (const base::ParameterSpec& parameter : architecture.parameters())
    outcome.gradients[parameter.fqn] = model.gradient(parameter.fqn);
  return outcome;
}

}  // namespace tessera::test
