#include "checkpoint/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/quantity.h"
#include "base/table.h"
#include "checkpoint/float_type.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/restore.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/agreement.h"

namespace tessera::checkpoint {
namespace {

using base::Align;

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string count_text(std::size_t files) { return fmt::format("{} {}", files, files == 1 ? "file" : "files"); }

std::string line(std::string_view name, const std::string& value) { return fmt::format("  {:<10} {}\n", name, value); }

std::string model_text(const architecture::ModelConfig& config) {
  const architecture::Architecture architecture(config, config::BalanceLoss::pooled);
  return fmt::format("{}; {} parameters", architecture.describe(), base::format_count(architecture.total_parameters()));
}

std::string progress_text(const Progress& p) {
  return fmt::format("{} of {}: {} updates, {} skipped; {} tokens", p.step, p.total_steps, p.optimizer_steps,
                     p.skipped_steps, base::format_count(p.tokens));
}

// Returns the states of the parameters; several lists if parameters differ.
std::string state_text(const Manifest& manifest) {
  std::set<std::vector<std::string>> kinds;
  for (const auto& tensor : manifest.tensors) kinds.insert(tensor.states);
  std::vector<std::string> texts;
  for (const auto& kind : kinds) texts.push_back(fmt::format("{}", fmt::join(kind, ", ")));
  return fmt::format("{}", fmt::join(texts, "; or "));
}

std::string tables(const StoredCheckpoint& stored) {
  base::Table files({{"file"}, {"bytes", Align::right}}),
      tensors({{"tensor"}, {"dtype"}, {"shape"}, {"states"}, {"pieces", Align::right}, {"bytes", Align::right}});
  for (const auto& file : stored.manifest().files) files.add_row({file.name, std::to_string(file.bytes)});
  for (const auto& tensor : stored.manifest().tensors) {
    const auto elements = static_cast<std::uint64_t>(layout::whole_box(tensor.parameter.shape).elements());
    tensors.add_row({tensor.parameter.fqn, std::string(torch_name(tensor.type)), shape_text(tensor.parameter.shape),
                     fmt::format("{}", fmt::join(tensor.states, " ")), std::to_string(tensor.pieces.size()),
                     std::to_string(elements * bits(tensor.type) / 8 * tensor.states.size())});
  }
  return files.str(2) + tensors.str(2);
}

std::string page(const StoredCheckpoint& stored, const architecture::ModelConfig& config) {
  const auto& manifest = stored.manifest();
  const auto& p = manifest.progress;
  std::string text = fmt::format("checkpoint {}\n", stored.folder().string());
  text += line("format", std::to_string(format_version));
  text += line("step", progress_text(p));
  text += line("data", fmt::format("next is window {} of epoch {}, data hash {:016x}", p.window, p.epoch, p.data_hash));
  text += line("evaluated", p.evaluated_at < 0 ? "never" : fmt::format("after step {}", p.evaluated_at));
  text += line("layout", manifest.layout);
  text +=
      line("settings", manifest.settings == "null" ? "none: nothing has trained these weights" : "those of its run");
  text += line("model", model_text(config));
  text += line("states", state_text(manifest));
  return text + tables(stored);
}

}  // namespace

std::string inspect_checkpoint(const base::Path& path, comm::Communicator& world) {
  std::string text;
  std::optional<StoredCheckpoint> stored;
  std::int64_t verified = 0;
  comm::agree_on(world, [&] {
    stored.emplace(path);
    const auto config = config_of(stored->manifest().model, (path / manifest_name).string() + ": \"model\"");
    require_same_parameters(*stored, parameters_of(config));
    text = page(*stored, config);
  });
  comm::agree_on(world, [&] { verified = static_cast<std::int64_t>(stored->verify(world.rank(), world.size())); });
  std::uint64_t sum = 0;
  for (const auto bytes : comm::numbers_of_ranks(world, verified)) sum += static_cast<std::uint64_t>(bytes);
  return text + fmt::format("{} in {}; all hashes agree: of {} of tensors, of the headers and of the manifest\n",
                            base::format_bytes(stored->bytes()), count_text(stored->manifest().files.size()),
                            base::format_bytes(sum));
}

std::string inspect_huggingface(const base::Path& path) {
  base::Problems problems;
  const auto files = open_huggingface_files(path, problems);
  problems.throw_if_any(path.string());
  std::error_code ignored;
  const auto folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  std::string text = fmt::format("HuggingFace weights {}\n", path.string());
  const auto config_file = folder / "config.json";
  const bool has_config = std::filesystem::exists(config_file, ignored);
  if (has_config) {
    const auto config = config_of(base::read_file(config_file), config_file.string());
    const HuggingFaceCheckpoint checked(path, parameters_of(config));
    text += line("model", model_text(config));
  }
  base::Table names({{"file"}, {"bytes", Align::right}}),
      tensors({{"tensor"}, {"dtype"}, {"shape"}, {"bytes", Align::right}});
  std::uint64_t bytes = 0;
  for (const auto& file : files) {
    names.add_row({file->path().filename().string(), std::to_string(file->size())});
    bytes += file->size();
    for (const auto& tensor : file->tensors())
      tensors.add_row({tensor.name, std::string(name(tensor.type)), shape_text(tensor.shape),
                       std::to_string(tensor.end - tensor.begin)});
  }
  text += names.str(2) + tensors.str(2);
  return text + fmt::format("{} in {}. Such files have no hashes; headers and lengths are right{}\n",
                            base::format_bytes(bytes), count_text(files.size()),
                            has_config ? ", and the tensors are the model's"
                                       : "; there is no config.json to compare the tensors with");
}

}  // namespace tessera::checkpoint
