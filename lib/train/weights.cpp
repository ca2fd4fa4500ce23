#include "train/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/huggingface_writer.h"
#include "checkpoint/new_folder.h"
#include "comm/agreement.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

base::Path record_of(const base::Path& output) { return output / "hf.json"; }

// Length and time of the last change tell a file from another one of its name. Null if there is none.
Json mark_of(const base::Path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return Json{status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// The files in the folder that are as a run left them.
std::set<std::string> own_files(const base::Path& output) {
  std::set<std::string> names;
  std::error_code ignored;
  if (!fs::exists(record_of(output), ignored)) return names;
  const auto document = base::parse_json_file(record_of(output), base::JsonComments::refused);
  if (!document.value().is_object()) return names;
  for (const auto& [name, mark] : document.value().items())
    if (mark == mark_of(weights_folder(output) / name)) names.insert(name);
  return names;
}

void record(const base::Path& output, const std::vector<std::string>& names) {
  Json marks = Json::object();
  for (const auto& name : names) marks[name] = mark_of(weights_folder(output) / name);
  base::write_file_atomically(record_of(output), marks.dump(1) + "\n");
}

bool is_within(const base::Path& path, const base::Path& folder) {
  const auto relative = checkpoint::folder_path(path).lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

base::Path weights_folder(const base::Path& output) { return output / "hf"; }

base::Path unfinished_weights(const base::Path& output) {
  return checkpoint::unfinished_path(checkpoint::folder_path(weights_folder(output)));
}

void try_weights(const base::Path& output, const config::ModelSettings& model) {
  const auto target = checkpoint::folder_path(weights_folder(output));
  base::require(model.model_path.empty() || !is_within(model.model_path, target),
                "train.checkpoint.save_hf_weights would write into {}, where model.model_path = {} is read from; give "
                "another train.checkpoint.output_dir, or move that model away",
                target.string(), model.model_path);
  try {
    std::error_code ignored;
    base::require(!fs::is_directory(record_of(output), ignored),
                  "{} is a folder, and a run writes a file of that name; move it away", record_of(output).string());
    checkpoint::require_replaceable(target, own_files(output));
    const auto unfinished = checkpoint::unfinished_path(target);
    if (fs::exists(unfinished, ignored)) return;  // of a killed run, which could write it
    auto& files = base::posix_file_system();
    files.make_folder(unfinished);
    files.remove(unfinished);
  } catch (const base::Error& error) {
    base::fail("train.checkpoint.save_hf_weights: {}", error.what());
  }
}

void write_weights(const base::Path& checkpoint, const base::Path& output, comm::Communicator& ranks) {
  try {
    checkpoint::HuggingFaceOptions options{.existing = checkpoint::ExistingFolder::replace};
    comm::agree_on(ranks, [&] {
      if (ranks.rank() == 0) options.own = own_files(output);
    });
    const auto written = checkpoint::write_huggingface(checkpoint, weights_folder(output), options, ranks);
    comm::agree_on(ranks, [&] {
      if (ranks.rank() == 0) record(output, written.names);
    });
    if (!written.others.empty())
      base::log_info("{} keeps files that no run wrote: {}", weights_folder(output).string(),
                     fmt::join(written.others, ", "));
  } catch (const comm::AgreedError& error) {
    throw comm::AgreedError(base::ExitCode::rank_failed,
                            fmt::format("the weights could not be written for HuggingFace; tessera-convert does it "
                                        "from {}: {}",
                                        checkpoint.string(), error.what()));
  }
}

}  // namespace tessera::train
