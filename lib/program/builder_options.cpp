#include "program/builder_options.h"

#include "base/error.h"

namespace tessera::program {

BuilderOptions builder_options(const config::Settings& settings) {
  const auto& fsdp = settings.train.accelerator.fsdp_config;
  const auto& recompute = settings.train.gradient_checkpointing;
  BuilderOptions options;
  options.mode = fsdp.fsdp_mode;
  options.reshard_after_forward = fsdp.reshard_after_forward;
  if (fsdp.forward_prefetch)
    base::expect(fsdp.prefetch_depth != config::automatic, "a prefetch depth that is not resolved");
  options.prefetch_depth = fsdp.forward_prefetch ? static_cast<std::int32_t>(fsdp.prefetch_depth) : 0;
  if (recompute.enable)
    options.recompute = recompute.scope == config::RecomputeScope::full ? Recompute::full : Recompute::experts;
  options.overlap_exchange = settings.train.accelerator.overlap_exchange;
  options.fusion = settings.train.debug.poison_freed ? Fusion::none : Fusion::neighbours;
  return options;
}

}  // namespace tessera::program
