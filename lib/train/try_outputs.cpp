#include "train/try_outputs.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "comm/agreement.h"
#include "train/trace.h"
#include "train/weights.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

// Of folders whose only purpose is to be made.
constexpr const char* tried_name = ".tried";

bool is_there(const base::Path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_folder(const base::Path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Makes a file and removes it. One that is there is opened only.
void try_file(const base::Path& path) {
  auto& files = base::posix_file_system();
  const bool was_there = is_there(path);
  files.open_for_append(path)->close();
  if (!was_there) files.remove(path);
}

// The files that every run has, and `latest` of one that saves: a folder of such a name would be found when it is
// written.
void try_names(const base::Path& output) {
  for (const char* name : {metrics_name, settings_name, "latest"})
    base::require(!is_folder(output / name),
                  "{} is a folder, and a run writes a file of that name; move it away, or give another "
                  "train.checkpoint.output_dir",
                  (output / name).string());
  if (is_there(output / metrics_name)) try_file(output / metrics_name);
}

bool is_trace(const base::Path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, trace_begin.size()> begin{};
  file.read(begin.data(), begin.size());
  return file.gcount() == 0 || std::string_view(begin.data(), static_cast<std::size_t>(file.gcount())) == trace_begin;
}

void try_trace(const base::Path& path, const base::Path& output) {
  const auto what = fmt::format("train.log.trace = {}", path.string());
  base::require(path.has_filename() && !is_folder(path), "{} is a folder; give the name of a file", what);
  const auto folder = path.has_parent_path() ? path.parent_path() : base::Path(".");
  base::require(is_folder(folder), "{}: there is no folder {}; make it, or give another path", what, folder.string());
  std::error_code ignored;
  for (const char* name : {metrics_name, settings_name})
    base::require(!fs::equivalent(folder, output, ignored) || path.filename() != name,
                  "{}: the run writes another file of that name; give another path", what);
  base::require(!is_there(path) || is_trace(path),
                "{} exists and is no timeline of an earlier run; move it away, or give another path", what);
  try {
    try_file(path.string() + ".tmp");
  } catch (const base::Error& error) {
    base::fail("{}: {}", what, error.what());
  }
}

// Each rank writes its part of a checkpoint into a folder that rank 0 makes.
void try_ranks(const base::Path& output, comm::Communicator& ranks) {
  auto& files = base::posix_file_system();
  const auto folder = output / tried_name;
  const auto on = [&](bool acts, const std::function<void()>& action) {
    comm::agree_on(ranks, [&] {
      if (!acts) return;
      try {
        action();
      } catch (const base::Error& error) {
        base::fail("train.checkpoint.output_dir = {} cannot be written: {}", output.string(), error.what());
      }
    });
  };
  const bool is_first = ranks.rank() == 0;
  on(is_first, [&] {
    files.remove(folder);
    files.make_folder(folder);
  });
  try {
    on(true, [&] { try_file(folder / fmt::format("rank_{}", ranks.rank())); });
  } catch (const comm::AgreedError&) {
    std::error_code ignored;
    if (is_first) fs::remove_all(folder, ignored);
    throw;
  }
  on(is_first, [&] { files.remove(folder); });
}

}  // namespace

void try_outputs(const config::Settings& settings, comm::Communicator& ranks) {
  const auto& train = settings.train;
  const base::Path output = train.checkpoint.output_dir;
  try_ranks(output, ranks);
  comm::agree_on(ranks, [&] {
    if (ranks.rank() != 0) return;
    try_names(output);
    if (!train.log.trace.empty()) try_trace(train.log.trace, output);
    if (train.checkpoint.save_hf_weights) try_weights(output, settings.model);
  });
}

}  // namespace tessera::train
