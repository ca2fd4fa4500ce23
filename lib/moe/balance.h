// Load-balancing losses (Fedus et al. 2021, https://arxiv.org/abs/2101.03961, equations 4 to 6) in HuggingFace's form
// (`load_balancing_loss_func`: not divided by k), and the router z-loss (Zoph et al. 2022,
// https://arxiv.org/abs/2202.08906, 5).
//
// Each function returns this rank's share for one micro-step, without the coefficient; the shares of all ranks are to
// be summed. Results are [] in the type of the probabilities, and differentiable in these.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tessera::moe {

// Pooled over layers: experts * sum_e f_e p_e, where N = routed_tokens * layers, f_e = slots of expert e over all
// layers and ranks / N, p_e = sum of this rank's probabilities of e over all layers / N.
//
// probability: per MoE layer [sets, experts], summed over sets here. count [layers, sets, experts] int64, summed over
// the ranks of the micro-step. routed_tokens: tokens of the micro-step over all its ranks (0 gives 0).
[[nodiscard]] at::Tensor pooled_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count,
                                        double routed_tokens);

// The same formula for each layer alone (N = routed_tokens), averaged over layers.
[[nodiscard]] at::Tensor per_layer_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count,
                                           double routed_tokens);

// The pooled formula for each sequence alone (N = its tokens * layers), *summed* over this rank's sequences; the caller
// divides by the sequences of the global batch. Sets are sequences; count holds this rank's slots; sequence_starts
// [sets + 1] int64 on the CPU. A sequence without tokens gives 0.
[[nodiscard]] at::Tensor sequence_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count,
                                          const at::Tensor& sequence_starts);

// Returns the sum over layers of RouterStatistics::z; the caller divides by routed tokens * layers.
[[nodiscard]] at::Tensor router_z_loss(const std::vector<at::Tensor>& z);

}  // namespace tessera::moe
