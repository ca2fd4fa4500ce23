#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tessera::optim {
namespace {

std::int64_t part_of(std::int64_t steps, double ratio) {
  return static_cast<std::int64_t>(static_cast<double>(steps) * ratio);
}

double cosine(double lr, double floor, std::int64_t step, std::int64_t warmup, std::int64_t end) {
  if (step > end) return floor;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, end - warmup));
  return floor + (lr - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

// A straight line from lr to the floor over `decay_steps` steps, of which `left` are left.
double straight(double lr, double floor, std::int64_t left, std::int64_t decay_steps) {
  if (left <= 0) return floor;
  if (left >= decay_steps) return lr;
  return floor + (lr - floor) * static_cast<double>(left) / static_cast<double>(decay_steps);
}

}  // namespace

double learning_rate(const config::OptimizerSettings& settings, std::int64_t step, std::int64_t total_steps) {
  base::expect(step >= 0, "step {} is before the first", step);
  const double lr = settings.lr, floor = std::min(settings.lr_min, lr);
  const std::int64_t warmup = part_of(total_steps, settings.lr_warmup_ratio);
  const std::int64_t decay = part_of(total_steps, settings.lr_decay_ratio);
  if (step < warmup)
    return settings.lr_start + (lr - settings.lr_start) * static_cast<double>(step) / static_cast<double>(warmup);
  switch (settings.lr_decay_style) {
    case config::DecayStyle::constant: return lr;
    case config::DecayStyle::linear: return straight(lr, floor, decay - step, decay - warmup);
    case config::DecayStyle::cosine: return cosine(lr, floor, step, warmup, decay);
    case config::DecayStyle::wsd: return straight(lr, floor, total_steps - step, std::min(decay, total_steps - warmup));
  }
  return lr;
}

}  // namespace tessera::optim
