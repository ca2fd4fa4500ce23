// How one segment sees the values and weights that it is given.
#pragma once

#include <string_view>
#include <utility>

#include "architecture/block.h"
#include "base/error.h"
#include "model/segment.h"

namespace tessera::model {

// Values by kind are those of the segment's own layer unless a function says otherwise.
class SegmentView {
 public:
  SegmentView(const architecture::Step& step, Values& values, const Weights& weights)
      : step_(step), values_(values), weights_(weights) {}

  [[nodiscard]] const architecture::Step& step() const { return step_; }
  [[nodiscard]] const at::Tensor& operator[](architecture::ValueKind kind) const { return at({kind, step_.layer}); }
  // Returns a value that belongs to no layer.
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

  // Returns the weight that the step's uses call `name`.
  [[nodiscard]] device::Weight& weight(std::string_view name) const {
    device::Weight* const weight = optional_weight(name);
    base::expect(weight != nullptr, "{} has no weight {}", step_.name(), name);
    return *weight;
  }
  // Returns null where the model has none (biases).
  [[nodiscard]] device::Weight* optional_weight(std::string_view name) const {
    for (std::size_t k = 0; k < step_.uses.size() && k < weights_.size(); ++k)
      if (step_.uses[k].name == name) return weights_[k];
    return nullptr;
  }

 private:
  const architecture::Step& step_;
  Values& values_;
  const Weights& weights_;
};

}  // namespace tessera::model
