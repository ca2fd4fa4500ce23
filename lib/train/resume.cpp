#include "train/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "architecture/family.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/quantity.h"
#include "checkpoint/companions.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/restore.h"
#include "comm/agreement.h"
#include "config/dump.h"
#include "config/fields.h"
#include "train/total_steps.h"

namespace tessera::train {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t fresh = -1;         // rank 0's decisions, beside the step of a checkpoint in the output folder
constexpr std::int64_t as_asked_for = -2;  // load_path, or its latest

std::int64_t decide(const config::CheckpointSettings& settings, base::Path& asked) {
  const base::Path output = settings.output_dir;
  const bool is_auto = settings.load_path == "auto";
  const bool names_one = !settings.load_path.empty() && !is_auto;
  if (settings.own_first || is_auto) {
    if (const auto latest = checkpoint::latest_step(output)) {
      if (names_one)
        base::log_info(
            "{} has checkpoints of its own, so train.checkpoint.load_path = {} is not read: it was for the first start",
            output.string(), settings.load_path);
      return *latest;
    }
    if (names_one)
      base::log_info("first start, from train.checkpoint.load_path = {}: there is no checkpoint in {}",
                     settings.load_path, output.string());
    else
      base::log_info("fresh start: there is no checkpoint in {}", output.string());
  }
  if (names_one) {
    asked = checkpoint::find_checkpoint(settings.load_path);
    return as_asked_for;
  }
  if (settings.own_first || is_auto) return fresh;
  if (const auto listing = checkpoint::list_checkpoints(output); !listing.whole.empty())
    base::log_warning(
        "{} has checkpoints of an earlier run ({}). This run starts afresh and will replace those whose step it "
        "reaches; to go on from the latest, give --train.checkpoint.load_path auto",
        output.string(), checkpoint::describe(listing));
  return fresh;
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// The value of a setting in a dump; null where it is absent.
Json value_at(const Json& dump, std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  const Json::json_pointer pointer("/" + path);
  return dump.contains(pointer) ? dump.at(pointer) : Json();
}

// Members of config.json that decide over initial values alone, or are another's spelling.
bool matters_once_trained(const std::string& key) {
  return key != "initializer_range" && key != "architectures" && key != "num_local_experts" && key != "rope_parameters";
}

void compare_models(const std::string& stored, const architecture::ModelConfig& config, Changes& changes) {
  const auto before = Json::parse(stored), now = Json::parse(architecture::to_config_json(config));
  if (!before.is_object()) return;
  for (const auto& [key, value] : now.items()) {
    const auto it = before.find(key);
    if (it == before.end() || *it == value) continue;
    const auto line = fmt::format("model.{}: {} -> {}", key, shown(*it), shown(value));
    (matters_once_trained(key) ? changes.altering : changes.harmless).push_back(line);
  }
}

void compare_settings(const std::string& stored, const config::Settings& settings, Changes& changes) {
  const auto before = Json::parse(stored), now = Json::parse(config::dump_settings(settings));
  if (!before.is_object()) return;
  for (const auto& field : config::fields()) {
    if (field.role != config::FieldRole::setting || field.on_resume == config::OnResume::by_effect) continue;
    const auto was = value_at(before, field.path), is = value_at(now, field.path);
    if (was == is || !before.contains(field.path.substr(0, field.path.find('.')))) continue;
    const auto line = fmt::format("{}: {} -> {}", field.path, shown(was), shown(is));
    (field.on_resume == config::OnResume::alters ? changes.altering : changes.harmless).push_back(line);
  }
}

// Learning rates that follow from the number of steps.
bool depends_on_total_steps(const config::OptimizerSettings& optimizer) {
  return optimizer.lr_decay_style != config::DecayStyle::constant || optimizer.lr_warmup_ratio > 0;
}

bool are_known_to_differ(std::uint64_t a, std::uint64_t b) { return a != 0 && b != 0 && a != b; }

// How to keep micro-steps of so many sequences on these ranks, if that can be.
std::string way_to_micro_step(std::int64_t sequences, std::int64_t data_ranks) {
  if (sequences % data_ranks != 0) return "";
  return fmt::format(" (--train.micro_batch_size {} keeps them)", sequences / data_ranks);
}

void compare_progress(const checkpoint::Progress& was, const checkpoint::Progress& is, const Blueprint& blueprint,
                      Changes& changes) {
  const auto& settings = blueprint.settings;
  if (was.data_hash != is.data_hash)
    changes.altering.push_back(fmt::format(
        "data.train_path: these are other data, or in another order; {} would begin with their first window",
        settings.train.checkpoint.allow_changes ? "this run" : "a run that allows it"));
  else if (are_known_to_differ(was.data_fingerprint, is.data_fingerprint))
    changes.altering.push_back(
        "data.train_path: files have changed (their sizes or contents differ), although the compared windows have not");
  if (are_known_to_differ(was.held_out_fingerprint, is.held_out_fingerprint))
    changes.harmless.push_back(
        "data.eval_path: the held-out data have changed; evaluations before and after the change are of different "
        "data");
  if (was.global_batch != is.global_batch)
    changes.altering.push_back(
        fmt::format("train.global_batch_size: {} -> {} sequences", was.global_batch, is.global_batch));
  if (was.total_steps != is.total_steps) {
    const bool alters = depends_on_total_steps(settings.train.optimizer);
    (alters ? changes.altering : changes.harmless)
        .push_back(fmt::format("steps of the whole run (train.max_steps, train.num_train_epochs): {} -> {}{}",
                               was.total_steps, is.total_steps, alters ? "; learning rates follow from them" : ""));
  }
  const bool by_micro_step = settings.model.balance_loss != config::BalanceLoss::sequence &&
                             blueprint.architecture.config().router_aux_loss_coef != 0 &&
                             blueprint.architecture.config().moe_layers() > 0;
  // No micro-step has more sequences than the step; 0: of a checkpoint that does not say.
  const auto before = std::min(was.micro_step, was.global_batch), now = std::min(is.micro_step, is.global_batch);
  if (by_micro_step && before > 0 && before != now)
    changes.altering.push_back(fmt::format(
        "sequences of a micro-step (train.micro_batch_size times data ranks), over which the balance loss is taken: {} "
        "-> {}{}",
        before, now, way_to_micro_step(before, blueprint.data_ranks())));
}

std::optional<base::Path> choose_checkpoint(const config::CheckpointSettings& settings, comm::Communicator& world) {
  std::int64_t decision = 0;
  base::Path asked;
  comm::agree_on(world, [&] {
    if (world.rank() == 0) decision = decide(settings, asked);
  });
  decision = comm::numbers_of_ranks(world, decision).front();
  if (decision == fresh) return std::nullopt;
  if (decision != as_asked_for) return checkpoint::checkpoint_folder(settings.output_dir, decision);
  comm::agree_on(world, [&] {
    if (world.rank() != 0) asked = checkpoint::find_checkpoint(settings.load_path);
  });
  return asked;
}

// A HuggingFace folder, or the checkpoints of a run that began with one, give the model more than Tessera reads.
SavedModel model_of(const checkpoint::StoredCheckpoint* stored, const Blueprint& blueprint, std::int64_t rank) {
  const auto& weights = blueprint.settings.model.model_path;
  auto text = blueprint.config_text;
  checkpoint::Companions companions;
  if (stored != nullptr) {
    text = checkpoint::merged_config(stored->manifest().model, text);
    if (rank == 0) companions = checkpoint::companions_of(stored->folder(), stored->manifest());
  } else if (rank == 0 && !weights.empty()) {
    companions = checkpoint::companions_beside(weights);
  }
  SavedModel model{checkpoint::config_json_with(text, blueprint.architecture.config(), std::nullopt), nullptr};
  if (!companions.empty()) model.companions = std::make_shared<const checkpoint::Companions>(std::move(companions));
  return model;
}

// Logs what has changed, or refuses it.
void report_changes(const checkpoint::StoredCheckpoint& stored, const Changes& changes,
                    const config::CheckpointSettings& settings) {
  if (!settings.allow_changes && !changes.altering.empty())
    base::fail(
        "{} was written by a run that these settings would not continue:\n  {}\nWith --train.checkpoint.allow_changes "
        "true the run goes on nevertheless, as another one",
        stored.folder().string(), fmt::join(changes.altering, "\n  "));
  for (const auto& change : changes.altering) base::log_warning("this run is changed by {}", change);
  if (!changes.harmless.empty())
    base::log_info("settings that differ from the checkpoint's and do not alter the run:\n  {}",
                   fmt::join(changes.harmless, "\n  "));
}

// A checkpoint that was found, once it is known that this run may go on from it.
std::unique_ptr<checkpoint::StoredCheckpoint> open_checkpoint(const base::Path& folder, const Blueprint& blueprint) {
  auto stored = std::make_unique<checkpoint::StoredCheckpoint>(folder);
  checkpoint::require_same_parameters(*stored, blueprint.architecture.parameters());
  return stored;
}

// max_steps and num_train_epochs are those of the whole run: a checkpoint may have passed them.
void warn_of_passed_limits(const config::TrainSettings& settings, const checkpoint::StoredCheckpoint& stored,
                           const checkpoint::Progress& start) {
  const auto has_taken = fmt::format("{} has taken {} steps", stored.folder().string(), start.step);
  constexpr const char* meaning = "it counts from the run's first start, so nothing is left to train";
  if (settings.max_steps > 0 && settings.max_steps < start.step)
    base::log_warning("train.max_steps = {}, but {}: {}", settings.max_steps, has_taken, meaning);
  if (start.epoch > settings.num_train_epochs || (start.epoch == settings.num_train_epochs && start.window > 0))
    base::log_warning("train.num_train_epochs = {}, but {}, into epoch {}: {}", settings.num_train_epochs, has_taken,
                      start.epoch + 1, meaning);
}

checkpoint::Progress start_of(const checkpoint::StoredCheckpoint* stored, const Blueprint& blueprint,
                              const data::Dataset& training, const data::Dataset* evaluation) {
  const auto data = hash_of(training);
  auto start = stored != nullptr ? progress_from(stored->manifest(), data) : checkpoint::Progress{.data_hash = data};
  const auto fingerprint = training.corpus().fingerprint().value();
  if (start.data_fingerprint != fingerprint) start.data_content = 0;  // that of other data
  start.data_fingerprint = fingerprint;
  start.held_out_fingerprint = evaluation != nullptr ? evaluation->corpus().fingerprint().value() : 0;
  start.global_batch = blueprint.global_batch;
  start.micro_step = blueprint.settings.train.micro_batch_size * blueprint.data_ranks();
  start.total_steps = total_steps(training, blueprint.settings.train, blueprint.global_batch, start);
  return start;
}

}  // namespace

std::uint64_t hash_of(const data::Dataset& dataset) {
  const auto windows = dataset.windows(0);
  base::Xxh3Stream hash;
  const auto add = [&](const auto& numbers) { hash.update(std::as_bytes(std::span(numbers))); };
  add(std::vector{windows});
  for (const auto index : std::set{std::int64_t{0}, windows / 3, windows / 2, windows - 1}) {
    const auto window = dataset.window(0, index);
    add(window.ids);
    add(window.labels);
  }
  return hash.digest();
}

Changes changes_since(const checkpoint::Manifest& manifest, const Blueprint& blueprint,
                      const checkpoint::Progress& progress) {
  Changes changes;
  compare_models(manifest.model, blueprint.architecture.config(), changes);
  // Weights that nothing trained have nothing to go on with.
  if (manifest.settings == "null") return changes;
  compare_settings(manifest.settings, blueprint.settings, changes);
  compare_progress(manifest.progress, progress, blueprint, changes);
  return changes;
}

checkpoint::Progress progress_from(const checkpoint::Manifest& manifest, std::uint64_t data_hash) {
  auto progress = manifest.progress;
  if (progress.data_hash != data_hash) progress.epoch = progress.window = 0;
  progress.data_hash = data_hash;
  return progress;
}

Beginning find_beginning(const Blueprint& blueprint, const data::Dataset& training, const data::Dataset* evaluation,
                         comm::Communicator& ranks) {
  const auto& settings = blueprint.settings.train.checkpoint;
  Beginning beginning;
  beginning.folder = choose_checkpoint(settings, ranks);
  comm::agree_on(ranks, [&] {
    auto& stored = beginning.stored;
    if (beginning.folder) stored = open_checkpoint(*beginning.folder, blueprint);
    beginning.progress = start_of(stored.get(), blueprint, training, evaluation);
    beginning.model = model_of(stored.get(), blueprint, ranks.rank());
    if (!stored) return;
    report_changes(*stored, changes_since(stored->manifest(), blueprint, beginning.progress), settings);
    warn_of_passed_limits(blueprint.settings.train, *stored, beginning.progress);
  });
  return beginning;
}

std::optional<SavedCheckpoint> Beginning::saved_in(const base::Path& output, comm::Communicator& ranks) const {
  std::error_code ignored;
  const bool is_here = folder && std::filesystem::equivalent(*folder / "..", output, ignored);
  if (comm::numbers_of_ranks(ranks, is_here ? 1 : 0).front() == 0) return std::nullopt;
  return SavedCheckpoint{progress.step, *folder};
}

void log_resume(const Beginning& beginning, const Assembly& assembly) {
  if (!beginning.stored) return;
  const auto& stored = *beginning.stored;
  const auto& restored = assembly.restored();
  base::log_info("resumed from {} after step {} ({}): {} read of {} needed, hashes of {} of {} verified",
                 stored.folder().string(), beginning.progress.step, stored.manifest().layout,
                 base::format_bytes(restored.bytes_read), base::format_bytes(restored.bytes_needed),
                 base::format_bytes(restored.bytes_verified), base::format_bytes(stored.bytes()));
  if (beginning.is_finished())
    base::log_info("all {} steps had been taken before this start: nothing is left to train", beginning.progress.step);
  if (!restored.absent.empty())
    base::log_warning("the checkpoint has no {}: the optimizer starts anew", fmt::join(restored.absent, ", "));
  const auto& model_path = assembly.blueprint().settings.model.model_path;
  if (!model_path.empty())
    base::log_warning("the weights are those of the checkpoint, not those of model.model_path = {}", model_path);
}

}  // namespace tessera::train
