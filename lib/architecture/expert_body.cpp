#include "architecture/expert_body.h"

namespace tessera::architecture {

const ExpertBody& swiglu_body() {
  using Use = ExpertMatrix::Use;
  static const ExpertBody body{
      .name = "swiglu",
      .matrices = {{"mlp.experts.gate_proj", Use::into, {Dim::experts, Dim::expert_inner, Dim::hidden}},
                   {"mlp.experts.up_proj", Use::into, {Dim::experts, Dim::expert_inner, Dim::hidden}},
                   {"mlp.experts.down_proj", Use::out, {Dim::experts, Dim::hidden, Dim::expert_inner}}},
      .fused_name = "mlp.experts.gate_up_proj",
      .fused = {"mlp.experts.gate_proj", "mlp.experts.up_proj"}};
  return body;
}

}  // namespace tessera::architecture
