#include "architecture/architecture.h"

#include <algorithm>
#include <array>

#include "architecture/steps.h"
#include "base/error.h"

namespace tessera::architecture {
namespace {

using Shape = std::vector<std::int64_t>;

struct RoleTraits {
  Role role;
  std::string_view name;  // behind "model.layers.<i>." for the roles of layers
  enum class Place { layer, model } place;
};

// In the order of the enumeration.
constexpr auto layer = RoleTraits::Place::layer;
constexpr auto model = RoleTraits::Place::model;
constexpr std::array roles{
    RoleTraits{Role::embedding, "model.embed_tokens.weight", model},
    RoleTraits{Role::input_norm, "input_layernorm.weight", layer},
    RoleTraits{Role::query, "self_attn.q_proj.weight", layer},
    RoleTraits{Role::key, "self_attn.k_proj.weight", layer},
    RoleTraits{Role::value, "self_attn.v_proj.weight", layer},
    RoleTraits{Role::query_bias, "self_attn.q_proj.bias", layer},
    RoleTraits{Role::key_bias, "self_attn.k_proj.bias", layer},
    RoleTraits{Role::value_bias, "self_attn.v_proj.bias", layer},
    RoleTraits{Role::output, "self_attn.o_proj.weight", layer},
    RoleTraits{Role::output_bias, "self_attn.o_proj.bias", layer},
    RoleTraits{Role::query_norm, "self_attn.q_norm.weight", layer},
    RoleTraits{Role::key_norm, "self_attn.k_norm.weight", layer},
    RoleTraits{Role::post_norm, "post_attention_layernorm.weight", layer},
    RoleTraits{Role::router, "mlp.gate.weight", layer},
    RoleTraits{Role::experts_gate, "mlp.experts.gate_proj", layer},
    RoleTraits{Role::experts_up, "mlp.experts.up_proj", layer},
    RoleTraits{Role::experts_down, "mlp.experts.down_proj", layer},
    RoleTraits{Role::dense_gate, "mlp.gate_proj.weight", layer},
    RoleTraits{Role::dense_up, "mlp.up_proj.weight", layer},
    RoleTraits{Role::dense_down, "mlp.down_proj.weight", layer},
    RoleTraits{Role::final_norm, "model.norm.weight", model},
    RoleTraits{Role::head, "lm_head.weight", model},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (static_cast<std::size_t>(roles[i].role) != i) return false;
  return static_cast<std::size_t>(Role::count_) == roles.size();
}
static_assert(in_order());

// The roles of one layer in the order of HuggingFace's modules.
std::vector<Role> roles_of_layer(const ModelConfig& config, std::int64_t layer_index) {
  std::vector<Role> list;
  const auto add = [&](Role weight, Role bias) {
    list.push_back(weight);
    if (config.attention_bias) list.push_back(bias);
  };
  add(Role::query, Role::query_bias);
  add(Role::key, Role::key_bias);
  add(Role::value, Role::value_bias);
  add(Role::output, Role::output_bias);
  list.insert(list.end(), {Role::query_norm, Role::key_norm});
  if (config.is_moe_layer(layer_index)) {
    list.insert(list.end(), {Role::experts_gate, Role::experts_up, Role::experts_down, Role::router});
  } else {
    list.insert(list.end(), {Role::dense_gate, Role::dense_up, Role::dense_down});
  }
  list.insert(list.end(), {Role::input_norm, Role::post_norm});
  return list;
}

std::vector<base::ParameterSpec> parameters_of(const ModelConfig& config) {
  std::vector<base::ParameterSpec> list;
  const auto add = [&](Role role, std::int64_t layer_index) {
    list.push_back({parameter_fqn(role, layer_index), parameter_shape(role, config)});
  };
  add(Role::embedding, -1);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    for (const Role role : roles_of_layer(config, i)) add(role, i);
  add(Role::final_norm, -1);
  if (!config.tie_word_embeddings) add(Role::head, -1);
  return list;
}

}  // namespace

std::string parameter_fqn(Role role, std::int64_t layer_index) {
  base::expect(role < Role::count_, "role {}", static_cast<int>(role));
  const RoleTraits& traits = roles[static_cast<std::size_t>(role)];
  if (traits.place == model) return std::string(traits.name);
  base::expect(layer_index >= 0, "{} needs a layer", traits.name);
  return "model.layers." + std::to_string(layer_index) + "." + std::string(traits.name);
}

std::optional<Role> role_of(std::string_view fqn) {
  constexpr std::string_view layers = "model.layers.";
  auto place = model;
  if (fqn.starts_with(layers)) {
    const std::size_t digits = fqn.find_first_not_of("0123456789", layers.size());
    if (digits == layers.size() || digits == std::string_view::npos || fqn[digits] != '.') return std::nullopt;
    fqn.remove_prefix(digits + 1);
    place = layer;
  }
  for (const RoleTraits& traits : roles)
    if (traits.place == place && traits.name == fqn) return traits.role;
  return std::nullopt;
}

bool is_norm(Role role) {
  switch (role) {
    case Role::input_norm:
    case Role::query_norm:
    case Role::key_norm:
    case Role::post_norm:
    case Role::final_norm: return true;
    default: return false;
  }
}

bool is_bias(Role role) {
  switch (role) {
    case Role::query_bias:
    case Role::key_bias:
    case Role::value_bias:
    case Role::output_bias: return true;
    default: return false;
  }
}

std::vector<std::int64_t> parameter_shape(Role role, const ModelConfig& config) {
  const auto& c = config;
  const std::int64_t query_size = c.num_attention_heads * c.head_dim;
  const std::int64_t key_size = c.num_key_value_heads * c.head_dim;
  switch (role) {
    case Role::embedding:
    case Role::head: return {c.vocab_size, c.hidden_size};
    case Role::query: return {query_size, c.hidden_size};
    case Role::query_bias: return {query_size};
    case Role::key:
    case Role::value: return {key_size, c.hidden_size};
    case Role::key_bias:
    case Role::value_bias: return {key_size};
    case Role::output: return {c.hidden_size, query_size};
    case Role::query_norm:
    case Role::key_norm: return {c.head_dim};
    case Role::router: return {c.num_experts, c.hidden_size};
    case Role::experts_gate:
    case Role::experts_up: return {c.num_experts, c.moe_intermediate_size, c.hidden_size};
    case Role::experts_down: return {c.num_experts, c.hidden_size, c.moe_intermediate_size};
    case Role::dense_gate:
    case Role::dense_up: return {c.intermediate_size, c.hidden_size};
    case Role::dense_down: return {c.hidden_size, c.intermediate_size};
    case Role::output_bias:
    case Role::input_norm:
    case Role::post_norm:
    case Role::final_norm: return {c.hidden_size};
    case Role::count_: break;
  }
  base::expect(false, "role {} has no shape", static_cast<int>(role));
  return {};
}

Architecture::Architecture(ModelConfig config, config::BalanceLoss balance)
    : config_(std::move(config)),
      balance_(balance),
      parameters_(parameters_of(config_)),
      steps_(steps_of(config_, balance_)),
      units_(units_of(steps_)) {}

const std::vector<std::int64_t>& Architecture::shape_of(std::string_view fqn) const {
  const auto found = std::ranges::find(parameters_, fqn, &base::ParameterSpec::fqn);
  base::expect(found != parameters_.end(), "the model has no parameter {}", fqn);
  return found->shape;
}

std::optional<ValueId> Architecture::summed_counts() const {
  if (balance_ == config::BalanceLoss::sequence || config_.moe_layers() == 0) return std::nullopt;
  return ValueId{ValueKind::balance_count};
}

std::int64_t Architecture::total_parameters() const {
  std::int64_t sum = 0;
  for (const base::ParameterSpec& parameter : parameters_) sum += base::elements(parameter);
  return sum;
}

std::int64_t Architecture::active_parameters() const {
  const std::int64_t one_expert = 3 * config_.hidden_size * config_.moe_intermediate_size;
  const std::int64_t idle = config_.num_experts - config_.num_experts_per_tok;
  return total_parameters() - config_.moe_layers() * idle * one_expert;
}

}  // namespace tessera::architecture
