#include "data/sources.h"

#include <glob.h>

#include <algorithm>
#include <memory>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace tessera::data {
namespace {

using config::DataFormat;
using Path = std::filesystem::path;

bool is_there(const Path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_folder(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Path with_suffix(const Path& stem, const char* suffix) { return Path(stem.string() + suffix); }

bool hidden(const Path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> split_commas(const std::string& item) {
  if (is_there(item)) return {item};  // a name that contains a comma
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= item.size()) {
    const std::size_t end = std::min(item.find(',', begin), item.size());
    if (end > begin) parts.push_back(item.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<Path> matches_of(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};  // sorted by glob
}

std::vector<Path> files_below(const Path& folder) {
  std::vector<Path> files;
  std::error_code error;
  auto entry = std::filesystem::recursive_directory_iterator(folder, error);
  const std::filesystem::recursive_directory_iterator end;
  for (; !error && entry != end; entry.increment(error)) {
    if (hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file()) files.push_back(entry->path());
  }
  base::require(!error, "cannot list folder {}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

DataFormat format_of(const Path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".bin" || extension == ".idx") return DataFormat::megatron;
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".json") return DataFormat::jsonl;
  return DataFormat::text;
}

// Collects sources in order, each once, and the problems on the way.
class Collector {
 public:
  Collector(DataFormat format, const std::string& setting) : format_(format), setting_(setting) {}

  void add_named(const std::string& name) {
    if (is_folder(name)) return add_folder(name);
    if (is_there(name)) return add_file(name);
    if (is_there(name + ".idx") && takes_pairs()) return add_file(name + ".idx");
    const std::vector<Path> matches = matches_of(name);
    if (matches.empty()) problems_.add("no file, folder or pattern matches {}", name);
    for (const Path& match : matches) is_folder(match) ? add_folder(match) : add_file(match);
  }

  std::vector<Source> take() {
    problems_.throw_if_any(setting_);
    if (repeated_ > 0)
      base::log_warning("{}: {} files are named more than once; each is used once", setting_, repeated_);
    return std::move(sources_);
  }

 private:
  [[nodiscard]] bool takes_pairs() const { return format_ == DataFormat::automatic || format_ == DataFormat::megatron; }

  void add_folder(const Path& folder) {
    const std::vector<Path> files = files_below(folder);
    if (files.empty()) problems_.add("folder {} has no files", folder.string());
    for (const Path& file : files) add_file(file);
  }

  void add_file(const Path& path) {
    const DataFormat format = format_ == DataFormat::automatic ? format_of(path) : format_;
    if (format == DataFormat::megatron) return add_pair(path);
    if (!seen_.insert(path.lexically_normal()).second)
      ++repeated_;
    else
      sources_.push_back({path, format});
  }

  // A pair is usually met twice, by each of its files.
  void add_pair(const Path& file) {
    Path stem = file;
    const std::string extension = file.extension().string();
    if (extension == ".bin" || extension == ".idx") stem.replace_extension();
    const Path index = with_suffix(stem, ".idx"), tokens = with_suffix(stem, ".bin");
    if (!seen_.insert(index.lexically_normal()).second) return;
    if (!is_there(index))
      problems_.add("{} is not there; a megatron data set is a pair of files .bin and .idx", index.string());
    else if (!is_there(tokens))
      problems_.add("{} is not there; a megatron data set is a pair of files .bin and .idx", tokens.string());
    else
      sources_.push_back({index, DataFormat::megatron});
  }

  DataFormat format_;
  const std::string& setting_;
  base::Problems problems_;
  std::vector<Source> sources_;
  std::set<Path> seen_;
  int repeated_ = 0;
};

}  // namespace

std::vector<Source> find_sources(std::span<const std::string> named, DataFormat format, const std::string& setting) {
  Collector collector(format, setting);
  bool any = false;
  for (const std::string& item : named) {
    for (const std::string& name : split_commas(item)) {
      collector.add_named(name);
      any = true;
    }
  }
  base::require(any, "{} names no file; give files, folders or patterns", setting);
  return collector.take();
}

}  // namespace tessera::data
