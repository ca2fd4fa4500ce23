#include "comparison.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include <cmath>

namespace tessera::test {
namespace {

class Differences {
 public:
  void compare(const std::string& what, double ours, double expected, double bar) {
    const double error = std::abs(ours - expected) / std::max(std::abs(expected), 1e-300);
    if (!(error <= bar)) list_.push_back(fmt::format("{}: {:.17g}, expected {:.17g}", what, ours, expected));
  }

  // By the largest value of `expected`; if that is zero, exactly.
  void compare(const std::string& what, const at::Tensor& ours, const at::Tensor& expected, double bar) {
    if (ours.sizes() != expected.sizes()) {
      list_.push_back(what + ": another shape");
      return;
    }
    const double largest = expected.abs().max().item<double>();
    const double error = at::sub(ours.to(at::kDouble), expected.to(at::kDouble)).abs().max().item<double>();
    if (!(error <= bar * largest))
      list_.push_back(fmt::format("{}: differs by {:.3g}, its largest value is {:.3g}", what, error, largest));
  }

  void compare_exactly(const std::string& what, const at::Tensor& ours, const at::Tensor& expected) {
    if (!at::equal(ours, expected)) list_.push_back(what + ": not equal");
  }

  // The same keys, and each pair of tensors by `compare_one`.
  template <class Key, class CompareOne>
  void compare_maps(const std::string& what, const std::map<Key, at::Tensor>& ours,
                    const std::map<Key, at::Tensor>& expected, const CompareOne& compare_one) {
    for (const auto& [key, tensor] : expected) {
      const std::string name = fmt::format("{} {}", what, key);
      const auto found = ours.find(key);
      if (found == ours.end()) {
        list_.push_back(name + ": missing");
      } else {
        compare_one(name, found->second, tensor);
      }
    }
    for (const auto& [key, tensor] : ours)
      if (!expected.contains(key)) list_.push_back(fmt::format("{} {}: not expected", what, key));
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

}  // namespace

Bars bars_of(Bits bits) { return bits == Bits::float32 ? Bars{1e-5, 1e-6, 1e-4} : Bars{1e-10, 1e-10, 1e-10}; }

std::vector<std::string> differences(const Outcome& ours, const Outcome& expected, const Bars& bars) {
  Differences found;
  found.compare("loss", ours.loss, expected.loss, bars.losses);
  found.compare("cross entropy", ours.cross_entropy, expected.cross_entropy, bars.losses);
  found.compare("aux loss", ours.aux_loss, expected.aux_loss, bars.losses);
  found.compare("z-loss", ours.z_loss, expected.z_loss, bars.losses);
  for (const auto& [p, norm] : ours.norms)
    found.compare("norm of gradients with p = " + p, norm, expected.norms.at(p), bars.losses);
  if (expected.logits.defined()) found.compare("logits", ours.logits, expected.logits, bars.logits);
  found.compare_maps(
      "top-k of layer", ours.top_k, expected.top_k,
      [&](const std::string& what, const at::Tensor& a, const at::Tensor& b) { found.compare_exactly(what, a, b); });
  found.compare_maps("gradient of", ours.gradients, expected.gradients,
                     [&](const std::string& what, const at::Tensor& a, const at::Tensor& b) {
                       found.compare(what, a, b, bars.gradients);
                     });
  return found.take();
}

std::vector<std::string> differences(const Training& ours, const Training& expected, const Bars& bars) {
  Differences found;
  found.compare("number of steps", static_cast<double>(ours.losses.size()), static_cast<double>(expected.losses.size()),
                0);
  for (std::size_t k = 0; k < std::min(ours.losses.size(), expected.losses.size()); ++k) {
    const auto step = fmt::format(" of step {}", k + 1);
    found.compare("loss" + step, ours.losses[k], expected.losses[k], bars.losses);
    found.compare("norm" + step, ours.gradient_norms[k], expected.gradient_norms[k], bars.losses);
  }
  found.compare_maps("weights", ours.weights, expected.weights,
                     [&](const std::string& what, const at::Tensor& a, const at::Tensor& b) {
                       found.compare(what, a, b, bars.gradients);
                     });
  return found.take();
}

}  // namespace tessera::test
