// What the segments of Qwen3Moe share, and how one of them sees the values and weights it is given.
#pragma once

#include <utility>

#include "base/error.h"
#include "model/qwen3_moe.h"
#include "ops/rotary.h"

namespace tessera::model {

struct Qwen3Moe::State {
  State(const architecture::Architecture& architecture, device::Numbers numbers_of_run, double z_coef,
        Owners owners_of_run);

  architecture::ModelConfig config;
  config::BalanceLoss balance;
  device::Numbers numbers;
  double router_z_loss_coef;
  Owners owners;
  at::Device device;
  ops::GroupedPath expert_path;

  // The tables of `positions`, made once per micro-batch: all layers pass the same tensor.
  const ops::RotaryTables& rotary(const at::Tensor& positions);
  // The sets of tokens over which the router's statistics are summed: the sequences, or one set of all tokens.
  [[nodiscard]] at::Tensor set_starts(const at::Tensor& sequence_starts) const;

 private:
  at::Tensor rotary_positions;
  ops::RotaryTables rotary_tables;
};

// One segment's view: values by kind, of the segment's own layer unless said otherwise.
class SegmentView {
 public:
  SegmentView(const architecture::Step& step, Values& values, const Weights& weights)
      : step_(step), values_(values), weights_(weights) {}

  [[nodiscard]] const at::Tensor& operator[](architecture::ValueKind kind) const { return at({kind, step_.layer}); }
  // A value that belongs to no layer.
  [[nodiscard]] const at::Tensor& model(architecture::ValueKind kind) const { return at({kind}); }
  [[nodiscard]] const at::Tensor& at(architecture::ValueId id) const {
    const auto found = values_.find(id);
    base::expect(found != values_.end(), "{} reads {}, which nobody wrote", step_.name(), architecture::name(id));
    return found->second;
  }
  [[nodiscard]] bool has(architecture::ValueKind kind) const { return values_.contains({kind, step_.layer}); }

  void set(architecture::ValueKind kind, at::Tensor value) const { set({kind, step_.layer}, std::move(value)); }
  void set_next(architecture::ValueKind kind, at::Tensor value) const {
    set({kind, step_.layer + 1}, std::move(value));
  }
  void set(architecture::ValueId id, at::Tensor value) const { values_.insert_or_assign(id, std::move(value)); }

  [[nodiscard]] device::Weight& weight(architecture::Role role) const {
    device::Weight* const weight = optional_weight(role);
    base::expect(weight != nullptr, "{} has no weight of role {}", step_.name(), static_cast<int>(role));
    return *weight;
  }
  // Null where the model has none (biases).
  [[nodiscard]] device::Weight* optional_weight(architecture::Role role) const {
    return weights_[static_cast<std::size_t>(role)];
  }

 private:
  const architecture::Step& step_;
  Values& values_;
  const Weights& weights_;
};

}  // namespace tessera::model
