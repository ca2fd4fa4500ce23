// Rows of `model.*`: the source of the model, and overrides of keys of config.json.
#include <nlohmann/json.hpp>

#include "config/field_rows.h"

namespace tessera::config {
namespace {

// A row that overrides `key` of config.json. The value travels as JSON text; null overrides too (it unsets the key).
Field config_key(const std::string& key, Form form, std::vector<std::string> example, Words words) {
  form.absence = Absence::allowed;
  Field field{.path = "model." + key,
              .group = {},
              .form = form,
              .role = FieldRole::config_key,
              .help = std::move(words.help),
              .observe = std::move(words.observe),
              .absent = "as in config.json"};
  field.example = std::move(example);
  field.get = [key, form](const Draft& d) -> std::optional<Value> {
    const auto given = d.settings.model.overrides.find(key);
    if (given == d.settings.model.overrides.end()) return std::nullopt;
    Reading reading = read_json_value(form, nlohmann::json::parse(given->second));
    base::expect(reading.value.has_value(), "override of {} {}", key, reading.problem);
    return std::move(reading.value);
  };
  field.set = [key](Draft& d, const Value& v) { d.settings.model.overrides[key] = to_json(v).dump(); };
  return field;
}

Form integer_form(Range range) { return {.kind = Kind::integer, .range = range}; }
Form number_form(Range range) { return {.kind = Kind::number, .range = range}; }
Form boolean_form() { return {.kind = Kind::boolean}; }

std::vector<Field> source_rows() {
  return {
      on_resume(OnResume::by_effect,
                optional_row("model.config_path", &ModelSettings::config_path, {.kind = Kind::path}, "model.model_path",
                             "config.json",
                             {"HuggingFace config.json of the model, or its folder.", "the model on the start page"})),
      on_resume(OnResume::by_effect,
                optional_row("model.model_path", &ModelSettings::model_path, {.kind = Kind::path},
                             "initial values drawn from train.seed", "checkpoint",
                             {"HuggingFace checkpoint (safetensors) to start from; read once, each rank only its part.",
                              "the first loss is the checkpoint's"})),
      on_resume(OnResume::alters,
                number("model.router_z_loss_coef", &ModelSettings::router_z_loss_coef, at_least(0), "0.001",
                       {"Weight of the router z-loss, which keeps router logits small; costs nothing measurable.",
                        "loss differs from ce_loss + aux_loss by z_loss"})),
      on_resume(
          OnResume::alters,
          word("model.balance_loss", &ModelSettings::balance_loss, {"pooled", "per_layer", "sequence"}, "sequence",
               {"Tokens over which the load-balancing loss is computed: those of a micro-step over all layers together "
                "(pooled, as in HuggingFace), those of a micro-step for each layer (per_layer), or those of each "
                "sequence (sequence: the same for every micro-batch size and layout).",
                "aux_loss in metrics.jsonl"})),
  };
}

std::vector<Field> shape_rows() {
  return {
      config_key("vocab_size", integer_form(count_from(1)), {"320"},
                 {"Rows of the embedding and of the head.", "parameter counts on the start page"}),
      config_key("hidden_size", integer_form(count_from(1)), {"96"},
                 {"Width of the residual stream.", "parameter counts on the start page"}),
      config_key("intermediate_size", integer_form(count_from(1)), {"160"},
                 {"Width of the dense layers' MLP.", "parameter counts, where a layer is dense"}),
      config_key("num_hidden_layers", integer_form(count_from(1)), {"3"},
                 {"Number of layers.", "parameter counts and the program of --dry-run"}),
      config_key("num_attention_heads", integer_form(count_from(1)), {"8"},
                 {"Query heads.", "shape of q_proj in --dry-run"}),
      config_key("num_key_value_heads", integer_form(count_from(1)), {"1"},
                 {"Key and value heads; divides the query heads.", "shape of k_proj in --dry-run"}),
      config_key("head_dim", integer_form(count_from(1)), {"24"},
                 {"Width of one head; hidden_size / num_attention_heads where config.json lacks the key.",
                  "shape of q_proj in --dry-run"}),
      config_key("attention_bias", boolean_form(), {"true"},
                 {"Whether the attention's projections have biases.", "parameter table of --dry-run"}),
      config_key(
          "tie_word_embeddings", boolean_form(), {"true"},
          {"Whether the head uses the weights of the embedding.", "parameter table of --dry-run has no lm_head"}),
      config_key("max_position_embeddings", integer_form(count_from(1)), {"4096"},
                 {"Number of positions that the model supports; data.max_seq_len may not exceed it.",
                  "the greatest data.max_seq_len that is accepted"}),
      config_key("rope_theta", number_form(above(0)), {"500000"},
                 {"Base of the rotary embedding.", "the losses, from the first step on"}),
      config_key("rope_parameters", {.kind = Kind::object}, {"{\"rope_theta\":500000,\"rope_type\":\"default\"}"},
                 {"The rotary embedding in the newer spelling: rope_theta and rope_type (default only).",
                  "the losses, from the first step on"}),
      config_key("rms_norm_eps", number_form(above(0)), {"0.001"},
                 {"Term that every norm adds to the mean square.", "the losses, from the first step on"}),
      config_key("initializer_range", number_form(at_least(0)), {"0.05"},
                 {"Standard deviation of initial values; unused with model.model_path.", "the first loss"}),
  };
}

std::vector<Field> expert_rows() {
  return {
      config_key("num_experts", integer_form(count_from(0)), {"6"},
                 {"Experts of each MoE layer; 0: every layer is dense.", "parameter counts on the start page"}),
      config_key("num_local_experts", integer_form(count_from(0)), {"6"},
                 {"Newer spelling of num_experts.", "parameter counts on the start page"}),
      config_key(
          "num_experts_per_tok", integer_form(count_from(1)), {"1"},
          {"Experts that each token is sent to; costs compute in proportion.", "active parameters on the start page"}),
      config_key("moe_intermediate_size", integer_form(count_from(1)), {"40"},
                 {"Width of one expert.", "parameter counts on the start page"}),
      config_key("norm_topk_prob", boolean_form(), {"true"},
                 {"Whether a token's weights over its experts are divided by their sum.",
                  "the losses, from the first step on"}),
      config_key("router_aux_loss_coef", number_form(at_least(0)), {"0.05"},
                 {"Weight of the load-balancing loss; 0 turns it off.",
                  "loss - ce_loss in metrics.jsonl: this weight times aux_loss"}),
      config_key("decoder_sparse_step", integer_form(count_from(1)), {"2"},
                 {"Distance between layers with experts: 1 gives every layer experts, 2 every second one.",
                  "parameter table of --dry-run"}),
      config_key("mlp_only_layers", {.kind = Kind::integers, .range = count_from(0)}, {"0"},
                 {"Layers that are dense, counted from 0.", "parameter table of --dry-run"}),
  };
}

// Keys with only one supported value. They exist so that a user can correct a config.json.
std::vector<Field> fixed_rows() {
  return {
      config_key("hidden_act", {.kind = Kind::text}, {"gelu"},
                 {"Activation of the experts and MLPs; only silu is supported.", "refused: not supported"}),
      config_key("attention_dropout", number_form(between(0, 1)), {"0.1"},
                 {"Dropout of attention weights; only 0 is supported.", "refused: not supported"}),
      config_key("use_sliding_window", boolean_form(), {"true"},
                 {"Windowed attention; only false is supported.", "refused: not supported"}),
      config_key("sliding_window", integer_form(count_from(1)), {"4096"},
                 {"Width of windowed attention; a config.json may have the key, which has no effect as "
                  "use_sliding_window is false.",
                  "refused: no effect"}),
      config_key("rope_scaling", {.kind = Kind::object}, {"{\"rope_type\":\"yarn\",\"factor\":4}"},
                 {"Scaling of the rotary embedding; only null is supported, which unsets the key of a config.json.",
                  "refused: not supported"}),
  };
}

}  // namespace

void add_model_fields(std::vector<Field>& table) {
  add_rows(table, "Model", source_rows());
  add_rows(table, "Overrides of config.json: shape", shape_rows());
  add_rows(table, "Overrides of config.json: experts", expert_rows());
  add_rows(table, "Overrides of config.json: keys with only one supported value", fixed_rows());
}

}  // namespace tessera::config
