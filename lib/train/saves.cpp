#include "train/saves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/quantity.h"
#include "config/dump.h"

namespace tessera::train {
namespace {

checkpoint::SavedFacts facts_of(const Blueprint& blueprint, SavedModel model) {
  return {.progress = {},
          .layout = describe(blueprint.layout.sizes()),
          .settings = config::dump_settings(blueprint.settings),
          .model = std::move(model.config),
          .companions = std::move(model.companions)};
}

}  // namespace

std::string describe(const layout::LayoutSizes& sizes) {
  std::vector<std::string> axes, groups;
  const auto add = [&](const char* name, std::int64_t size) {
    if (size > 1) axes.push_back(fmt::format("{} {}", name, size));
  };
  add("pp", sizes.pp);
  add("dp_replicate", sizes.dp_replicate);
  add("dp_shard", sizes.dp_shard);
  add("ulysses", sizes.ulysses);
  add("cp", sizes.cp);
  add("tp", sizes.tp);
  for (const auto& extra : sizes.extra)
    if (extra.size > 1)
      groups.push_back(fmt::format("{} {}{}", extra.name, extra.size,
                                   extra.placement == layout::GridPlacement::outer ? " (outer)" : ""));
  auto text = fmt::format("{} {}", sizes.world(), sizes.world() == 1 ? "rank" : "ranks");
  if (!axes.empty()) text += fmt::format(": {}", fmt::join(axes, ", "));
  if (!groups.empty()) text += fmt::format("; {}", fmt::join(groups, ", "));
  return text;
}

std::string describe(const config::CheckpointSettings& settings) {
  std::vector<std::string> times;
  if (settings.save_steps > 0)
    times.push_back(settings.save_steps == 1 ? "every step" : fmt::format("every {} steps", settings.save_steps));
  if (settings.save_epochs > 0)
    times.push_back(settings.save_epochs == 1 ? "every epoch" : fmt::format("every {} epochs", settings.save_epochs));
  if (settings.save_last) times.emplace_back("at the end");
  if (times.empty()) return "none";
  auto text = fmt::format("{}", fmt::join(times, " and "));
  if (settings.save_async) text += ", in the background";
  if (settings.keep_last > 0) text += fmt::format("; the newest {} are kept", settings.keep_last);
  if (settings.keep_last > 0 && settings.keep_every > 0)
    text += fmt::format(", and those at multiples of {}", settings.keep_every);
  return text;
}

Saves::Saves(Assembly& assembly, SavedModel model, const base::Path& output, std::optional<SavedCheckpoint> latest,
             base::FileSystem& files)
    : settings_(assembly.blueprint().settings.train.checkpoint),
      facts_(facts_of(assembly.blueprint(), std::move(model))),
      saver_({.output = output, .keep_last = settings_.keep_last, .keep_every = settings_.keep_every}, assembly.store(),
             assembly.optimizer(), assembly.blueprint().layout, assembly.world(), files),
      latest_(std::move(latest)) {}

void Saves::poll() {
  if (const auto result = saver_.poll()) report(*result);
}

void Saves::after_step(const checkpoint::Progress& progress, bool epoch_has_ended) {
  poll();
  const bool by_step = settings_.save_steps > 0 && progress.step % settings_.save_steps == 0;
  const bool by_epoch = settings_.save_epochs > 0 && epoch_has_ended && progress.epoch % settings_.save_epochs == 0;
  if (by_step || by_epoch)
    save(progress, settings_.save_async && progress.step < progress.total_steps ? checkpoint::SaveMode::background
                                                                                : checkpoint::SaveMode::wait);
}

void Saves::at_end(const checkpoint::Progress& progress) {
  finish();
  // A step whose save has failed is worth a second try: it is the last.
  if (settings_.save_last && !is_saved(progress.step) && progress.step > 0) save(progress, checkpoint::SaveMode::wait);
}

void Saves::save(const checkpoint::Progress& progress, checkpoint::SaveMode mode) {
  finish();
  if (is_saved(progress.step)) return;
  facts_.progress = progress;
  saver_.start(facts_, mode);
  if (mode == checkpoint::SaveMode::wait) finish();
}

void Saves::finish() {
  if (const auto result = saver_.finish()) report(*result);
}

void Saves::report(const checkpoint::SaveResult& result) {
  failure_ = result.failure;
  for (const auto& note : result.notes) base::log_warning("after the save of step {}: {}", result.step, note);
  if (!result.failure) {
    latest_ = SavedCheckpoint{result.step, result.folder};
    base::log_info("checkpoint {}: {} in {}", result.folder.string(), base::format_bytes(result.bytes),
                   base::format_seconds(result.seconds));
    return;
  }
  base::log_warning("the save of step {} failed: {}; training goes on, {}", result.step, *result.failure,
                    latest_ ? fmt::format("the newest checkpoint is that of step {}", latest_->step)
                            : "there is no checkpoint of this run yet");
}

}  // namespace tessera::train
