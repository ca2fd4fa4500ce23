#include "checkpoint/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/sealed_json.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step_";
constexpr std::string_view unfinished_suffix = ".tmp";
constexpr const char* latest_name = "latest";
constexpr std::uint64_t latest_limit = 4096;

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = name.substr(prefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), step);
  if (error != std::errc{} || end != digits.end() || step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

bool is_whole(const base::Path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / manifest_name, ignored);
}

std::int64_t read_latest(const base::Path& path) {
  const auto json = base::parse_json_line(read_sealed(path, latest_limit), path.string(), 1);
  const auto step = json.find("step");
  base::require(step != json.end() && step->is_number_unsigned(), "{}: no \"step\"", path.string());
  return step->get<std::int64_t>();
}

}  // namespace

std::string folder_name(std::int64_t step) { return fmt::format("{}{:06}", prefix, step); }

base::Path unfinished_folder(const base::Path& output, std::int64_t step) {
  return output / folder_name(step).append(unfinished_suffix);
}

Listing list_checkpoints(const base::Path& output) {
  Listing listing;
  std::map<std::int64_t, base::Path> aside;
  std::error_code error;
  const base::DiskWork work("listing", output.native());
  if (!fs::exists(output, error)) return listing;
  fs::directory_iterator entries(output, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto& path = entries->path();
    const auto name = path.filename().string();
    if (const auto step = step_of(name); step && is_whole(path)) listing.whole[*step] = path;
    const auto stem = path.stem().string();
    const auto step = step_of(stem);
    if (step && name == stem + std::string(unfinished_suffix))
      listing.unfinished.push_back(path);
    else if (step && name == base::set_aside(stem))
      aside[*step] = path;
    else if (!step_of(name) && !name.ends_with(unfinished_suffix) && is_whole(path))
      listing.renamed.push_back(path);
  }
  base::require(!error, "cannot read folder {}: {}", output.string(), error.message());
  for (const auto& [step, folder] : aside) {
    if (is_whole(folder) && listing.whole.try_emplace(step, folder).second) continue;
    listing.unfinished.push_back(folder);
  }
  std::ranges::sort(listing.unfinished);
  std::ranges::sort(listing.renamed);
  return listing;
}

base::Path checkpoint_folder(const base::Path& output, std::int64_t step) {
  const auto folder = output / folder_name(step);
  return !is_whole(folder) && is_whole(base::set_aside(folder)) ? base::set_aside(folder) : folder;
}

std::string describe(const Listing& listing) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const auto& [step, folder] : listing.whole) names.push_back(folder_name(step));
  for (const auto& folder : listing.renamed) names.push_back(folder.filename().string());
  if (names.empty()) return "none";
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} more and {}", names.size() - most, fmt::join(names.end() - most, names.end(), ", "));
}

std::optional<std::int64_t> latest_step(const base::Path& output) {
  const auto listing = list_checkpoints(output);
  const auto path = output / latest_name;
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) {
    if (listing.whole.empty()) return std::nullopt;
    return listing.whole.rbegin()->first;
  }
  std::int64_t step = 0;
  try {
    step = read_latest(path);
  } catch (const base::Error& error) {
    base::fail("{}; whole checkpoints there: {}. Give one of them as train.checkpoint.load_path", error.what(),
               describe(listing));
  }
  base::require(listing.whole.contains(step), "{} names {}, which is not there; whole checkpoints there: {}",
                path.string(), folder_name(step), describe(listing));
  return step;
}

base::Path find_checkpoint(const base::Path& path) {
  if (is_whole(path)) return path;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (is_folder) {
    if (const auto step = latest_step(path)) return checkpoint_folder(path, *step);
  }
  const auto beside = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  base::fail("{} is {}; checkpoints in {}: {}", path.string(),
             is_folder ? "a folder without a whole checkpoint" : "not the folder of a checkpoint",
             beside.empty() ? "." : beside.string(), describe(list_checkpoints(beside.empty() ? "." : beside)));
}

std::optional<base::Path> commit(const base::Path& output, std::int64_t step, base::FileSystem& files) {
  const auto unfinished = unfinished_folder(output, step);
  const auto named = output / folder_name(step);
  std::optional<base::Path> aside;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(named, ignored)) && !is_whole(named)) aside = move_aside(named, files);
  const bool replaces = rename_into_place(unfinished, named, files);
  files.sync_folder(output);
  base::write_file_atomically(output / latest_name, seal(fmt::format("  \"step\": {}", step)), files);
  if (replaces) files.remove(unfinished);
  return aside;
}

std::vector<std::int64_t> outdated(const Listing& listing, std::int64_t saved, std::int64_t keep_last,
                                   std::int64_t keep_every) {
  std::vector<std::int64_t> steps;
  if (keep_last == 0) return steps;
  std::int64_t newer = 0;
  for (auto it = listing.whole.rbegin(); it != listing.whole.rend(); ++it) {
    if (it->first > saved || newer++ < keep_last) continue;
    if (keep_every == 0 || it->first % keep_every != 0) steps.push_back(it->first);
  }
  std::ranges::reverse(steps);
  return steps;
}

void remove_checkpoint(const base::Path& output, std::int64_t step, base::FileSystem& files) {
  const auto unfinished = unfinished_folder(output, step);
  const auto named = output / folder_name(step);
  files.remove(unfinished);
  if (is_whole(named)) files.remove(base::set_aside(named));  // otherwise the .old folder is the checkpoint
  files.rename(checkpoint_folder(output, step), unfinished);
  files.sync_folder(output);
  files.remove(unfinished);
}

}  // namespace tessera::checkpoint
