#include "architecture/blocks/attention.h"

#include "model/kernel.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

void project(const SegmentView& s, const Context& context) {
  const auto& c = context.config;
  const ops::RotaryTables tables{s.model(ValueKind::rotary_cosine), s.model(ValueKind::rotary_sine)};
  const at::Tensor normed =
      ops::rms_norm(s[ValueKind::hidden], s.weight(architecture::attention::input_norm), c.rms_norm_eps);
  const auto products = ops::linear(
      normed, {{&s.weight(architecture::attention::query), s.optional_weight(architecture::attention::query_bias)},
               {&s.weight(architecture::attention::key), s.optional_weight(architecture::attention::key_bias)},
               {&s.weight(architecture::attention::value), s.optional_weight(architecture::attention::value_bias)}});
  const auto heads = [&](const at::Tensor& flat) {
    return flat.view({flat.size(0), flat.size(1) / c.head_dim, c.head_dim});
  };
  const auto norm_and_turn = [&](const at::Tensor& flat, std::string_view gain) {
    return ops::rotate(ops::rms_norm(heads(flat), s.weight(gain), c.rms_norm_eps), tables);
  };
  s.set(ValueKind::query, norm_and_turn(products[0], architecture::attention::query_norm));
  s.set(ValueKind::key, norm_and_turn(products[1], architecture::attention::key_norm));
  s.set(ValueKind::value, heads(products[2]));
}

void attend(const SegmentView& s, const Context& /*c*/) {
  s.set(ValueKind::head_attention,
        ops::causal_attention(s[ValueKind::head_query], s[ValueKind::head_key], s[ValueKind::head_value],
                              s.model(ValueKind::attention_starts)));
}

void multiply_output(const SegmentView& s, const Context& /*c*/) {
  s.set(ValueKind::attention_partial,
        ops::linear(s[ValueKind::attention].flatten(1), s.weight(architecture::attention::output),
                    s.optional_weight(architecture::attention::output_bias)));
}

}  // namespace

std::span<const Kernel> attention_kernels() {
  namespace block = architecture::attention;
  static constexpr Kernel kernels[]{
      {block::project, project}, {block::attend, attend}, {block::output_product, multiply_output}};
  return kernels;
}

}  // namespace tessera::model
