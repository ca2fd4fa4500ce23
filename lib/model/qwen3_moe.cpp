#include "model/qwen3_moe.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/tensor_device.h"
#include "model/qwen3_moe_state.h"
#include "moe/experts.h"
#include "moe/merge.h"
#include "moe/pack.h"
#include "moe/router.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/lookup.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "ops/swiglu.h"
#include "ops/upload.h"

namespace tessera::model {
namespace {

using architecture::Role;
using architecture::SegmentKind;
using K = architecture::ValueKind;

// Ids ascend, and so do their owners: counts alone say which ids go where.
// What is counted stays on the host, where ids are.
void distinct_ids(const SegmentView& s, const OwnedBlocks& blocks, at::Device device) {
  if (s.has(K::unique_ids)) return;
  auto [unique, inverse, counts] = at::_unique2(s.model(K::ids), /*sorted=*/true, /*return_inverse=*/true);
  const std::int64_t* const begin = unique.const_data_ptr<std::int64_t>();
  const std::int64_t* const end = begin + unique.numel();
  const auto owners = blocks.bounds.size() - 1;
  at::Tensor count = at::empty({static_cast<std::int64_t>(owners)}, at::TensorOptions(at::kLong));
  const std::int64_t* first = begin;
  for (std::size_t owner = 0; owner < owners; ++owner) {
    const auto* next = std::lower_bound(first, end, blocks.bounds[owner + 1]);
    count.mutable_data_ptr<std::int64_t>()[owner] = next - first;
    first = next;
  }
  s.set({K::unique_ids}, std::move(unique));
  s.set({K::unique_inverse}, ops::upload(inverse, device));
  s.set({K::unique_count}, std::move(count));
}

void lookup(const SegmentView& s, const OwnedBlocks& blocks, at::Device device) {
  const at::Tensor& ids = s.model(K::wanted_ids);
  const auto first_id = blocks.bounds[static_cast<std::size_t>(blocks.own)];
  const at::Tensor rows = ops::upload(first_id == 0 ? ids : at::sub(ids, first_id), device);
  s.set({K::found_rows}, ops::lookup(rows, s.weight(Role::embedding)));
}

void expand(const SegmentView& s) {
  s.set({K::hidden, 0}, ops::take_rows(s.model(K::unique_rows), s.model(K::unique_inverse)));
}

void project(const SegmentView& s, const architecture::ModelConfig& c, const ops::RotaryTables& tables) {
  const at::Tensor normed = ops::rms_norm(s[K::hidden], s.weight(Role::input_norm), c.rms_norm_eps);
  const auto products = ops::linear(normed, {{&s.weight(Role::query), s.optional_weight(Role::query_bias)},
                                             {&s.weight(Role::key), s.optional_weight(Role::key_bias)},
                                             {&s.weight(Role::value), s.optional_weight(Role::value_bias)}});
  const auto heads = [&](const at::Tensor& flat) {
    return flat.view({flat.size(0), flat.size(1) / c.head_dim, c.head_dim});
  };
  const auto norm_and_turn = [&](const at::Tensor& flat, Role gain) {
    return ops::rotate(ops::rms_norm(heads(flat), s.weight(gain), c.rms_norm_eps), tables);
  };
  s.set(K::query, norm_and_turn(products[0], Role::query_norm));
  s.set(K::key, norm_and_turn(products[1], Role::key_norm));
  s.set(K::value, heads(products[2]));
}

void attend(const SegmentView& s) {
  s.set(K::head_attention,
        ops::causal_attention(s[K::head_query], s[K::head_key], s[K::head_value], s.model(K::attention_starts)));
}

void output_product(const SegmentView& s) {
  s.set(K::attention_partial,
        ops::linear(s[K::attention].flatten(1), s.weight(Role::output), s.optional_weight(Role::output_bias)));
}

moe::Slots slots_of(const SegmentView& s) { return {s[K::slot_token], s[K::slot_choice], s[K::slot_count]}; }

void route(const SegmentView& s, const architecture::ModelConfig& c, const at::Tensor& set_starts) {
  auto [residual, normed] =
      ops::add_rms_norm(s[K::hidden], s[K::attention_output], s.weight(Role::post_norm), c.rms_norm_eps);
  const moe::RouterOutput output = moe::route(normed, s.weight(Role::router));
  if (!s.has(K::slot_token)) {
    moe::Slots chosen = moe::choose_top_k(output.probability.detach(), c.num_experts_per_tok);
    s.set(K::slot_token, std::move(chosen.token));
    s.set(K::slot_choice, std::move(chosen.choice));
    s.set(K::slot_count, std::move(chosen.expert_count));
  }
  const moe::Slots slots = slots_of(s);
  moe::RouterStatistics statistics = moe::router_statistics(output, slots, set_starts);
  s.set(K::slot_weight, moe::slot_weight(output.probability, slots,
                                         c.norm_topk_prob ? moe::Renormalise::over_own_slots : moe::Renormalise::no));
  s.set(K::residual, std::move(residual));
  s.set(K::normed, std::move(normed));
  s.set(K::router_probability, std::move(statistics.probability));
  if (!s.has(K::router_count)) s.set(K::router_count, std::move(statistics.count));
  s.set(K::router_z, std::move(statistics.z));
}

// Top-k routes every token: a single owner gets all of them.
moe::Rows rows_of(const OwnedBlocks& experts) {
  return experts.bounds.size() == 2 ? moe::Rows::all_tokens : moe::Rows::any;
}

void pack(const SegmentView& s, const OwnedBlocks& experts) {
  const at::Tensor& normed = s[K::normed];
  if (!s.has(K::row_token)) {
    const moe::Slots slots{s[K::slot_token], at::Tensor(), s[K::slot_count]};
    moe::SendPlan plan = moe::plan_send(slots, normed.size(0), experts.bounds, moe::Routed::every_token);
    s.set(K::expert_count, std::move(plan.expert_count));
    s.set(K::row_token, std::move(plan.row_token));
    s.set(K::row_count, std::move(plan.row_count));
    s.set(K::send_slot, std::move(plan.send_slot));
  }
  s.set(K::send_rows, moe::send_rows(normed, s[K::row_token], rows_of(experts)));
  const at::Tensor& slot_weight = s[K::slot_weight];
  s.set(K::send_weight, slot_weight.view_as(slot_weight));  // a tensor of its own: the input stays a leaf
}

void experts(const SegmentView& s, ops::GroupedPath path) {
  const moe::ExpertWeights weights{&s.weight(Role::experts_gate), &s.weight(Role::experts_up),
                                   &s.weight(Role::experts_down)};
  const moe::ExpertOrder order = moe::order_by_expert(s[K::slot], s[K::source_row_count], s[K::source_expert_count]);
  s.set(K::expert_rows, moe::run_experts(s[K::rows], s[K::weight], order, weights, path));
}

void merge(const SegmentView& s, const OwnedBlocks& experts) {
  s.set_next(K::hidden, moe::merge(s[K::residual], s[K::combined_rows], s[K::row_token], rows_of(experts)));
}

void dense(const SegmentView& s, const architecture::ModelConfig& c) {
  const auto [residual, normed] =
      ops::add_rms_norm(s[K::hidden], s[K::attention_output], s.weight(Role::post_norm), c.rms_norm_eps);
  const auto products = ops::linear(normed, {{&s.weight(Role::dense_gate)}, {&s.weight(Role::dense_up)}});
  const at::Tensor inner = ops::swiglu(products[0], products[1]);
  s.set_next(K::hidden, at::add(residual, ops::linear(inner, s.weight(Role::dense_down))));
}

ops::GroupedPath path_of(const architecture::ModelConfig& c, const device::Numbers& numbers) {
  using ops::GroupedPath;
  const auto choose = [&](std::int64_t inner, std::int64_t outer) {
    return ops::choose_grouped_path(numbers.compute, device::tensor_device(numbers.place).type(),
                                    {c.num_experts, inner, outer});
  };
  const GroupedPath up = choose(c.hidden_size, c.moe_intermediate_size);
  return choose(c.moe_intermediate_size, c.hidden_size) == up ? up : GroupedPath::per_group;
}

}  // namespace

Qwen3Moe::State::State(const architecture::Architecture& architecture, device::Numbers numbers_of_run, double z_coef,
                       Owners owners_of_run)
    : config(architecture.config()),
      balance(architecture.balance()),
      numbers(numbers_of_run),
      router_z_loss_coef(z_coef),
      owners(std::move(owners_of_run)),
      device(device::tensor_device(numbers.place)),
      expert_path(path_of(config, numbers)) {
  for (const auto& step : architecture.steps())
    if (!step.owned.empty() && !owners.contains(step.owned))
      owners.emplace(step.owned, OwnedBlocks{.bounds = {0, architecture.shape_of(step.owned).front()}});
}

const ops::RotaryTables& Qwen3Moe::State::rotary(const at::Tensor& positions) {
  if (!positions.is_same(rotary_positions)) {
    rotary_tables =
        ops::rotary_tables(ops::upload(positions, device), config.rope_theta, config.head_dim, numbers.wide);
    rotary_positions = positions;
  }
  return rotary_tables;
}

Qwen3Moe::Qwen3Moe(const architecture::Architecture& architecture, device::Numbers numbers, double router_z_loss_coef,
                   Owners owners)
    : state_(std::make_unique<State>(architecture, numbers, router_z_loss_coef, std::move(owners))) {}
Qwen3Moe::~Qwen3Moe() = default;
Qwen3Moe::Qwen3Moe(Qwen3Moe&&) noexcept = default;

at::Tensor delivered(architecture::ValueKind to, const at::Tensor& sent, std::int64_t sources) {
  const auto dims = static_cast<std::int64_t>(architecture::traits_of(to).dims.size());
  return sent.dim() == dims ? sent : sent.view({sources, sent.numel() / sources});
}

const Owners& Qwen3Moe::owners() const { return state_->owners; }
ops::GroupedPath Qwen3Moe::expert_path() const { return state_->expert_path; }

void Qwen3Moe::run(const architecture::Step& step, Values& values, const Weights& weights) const {
  base::expect(step.type == architecture::Step::Type::segment, "{} is an exchange", step.name());
  const architecture::ModelConfig& config = state_->config;
  const SegmentView s(step, values, weights);
  const auto owned = [&]() -> const OwnedBlocks& { return state_->owners.find(step.owned)->second; };
  switch (step.segment) {
    case SegmentKind::distinct_ids: return distinct_ids(s, owned(), state_->device);
    case SegmentKind::lookup: return lookup(s, owned(), state_->device);
    case SegmentKind::expand: return expand(s);
    case SegmentKind::project: return project(s, config, state_->rotary(s.model(K::positions)));
    case SegmentKind::attend: return attend(s);
    case SegmentKind::output_product: return output_product(s);
    case SegmentKind::route: return route(s, config, state_->set_starts(s.model(K::sequence_starts)));
    case SegmentKind::pack: return pack(s, owned());
    case SegmentKind::experts: return experts(s, state_->expert_path);
    case SegmentKind::merge: return merge(s, owned());
    case SegmentKind::dense: return dense(s, config);
    case SegmentKind::head: break;
  }
  base::expect(false, "{} is run by run_head", step.name());
}

}  // namespace tessera::model
