#include "data/sources.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/log.h"
#include "base/readable_file.h"
#include "config/output_names.h"
#include "data/file_kind.h"

namespace tessera::data {
namespace {

using config::DataFormat;

// Identifies a file or folder whatever its name.
using Identity = std::pair<dev_t, ino_t>;

constexpr int problems_shown = 20;

// Fills in `status`, following links. Returns false and sets errno if that fails.
bool has_status(const std::string& path, struct stat& status) {
  const base::DiskWork work("listing", path);
  return ::stat(path.c_str(), &status) == 0;
}

std::optional<Identity> identity_of(const std::string& path) {
  struct stat status {};
  if (!has_status(path, status)) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

// Returns whether the path exists, be it a link that leads nowhere.
bool has_entry(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};  // sorted by glob
}

// Returns the names in a folder that are not hidden, sorted. Returns nothing and sets errno if it cannot be read.
std::optional<std::vector<std::string>> names_in(const std::string& folder) {
  const base::DiskWork work("listing", folder);
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return std::nullopt;
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(open.get()))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  if (errno != 0) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

// Returns ".jsonl" for "a/b.JSONL", and nothing for a name without an ending.
std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

DataFormat format_of_ending(const std::string& ending) {
  if (ending == ".bin" || ending == ".idx") return DataFormat::megatron;
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return DataFormat::jsonl;
  return DataFormat::text;
}

// Returns the file's first bytes, and sets `size` to its whole size.
std::string start_of(const std::string& path, std::uint64_t& size) {
  const base::ReadableFile file(path);
  const base::DiskWork work("reading", path);
  size = file.size();
  std::string start(std::min<std::uint64_t>(size, first_bytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  return start;
}

bool begins_array(std::string_view start) {
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  const auto first = start.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && start[first] == '[';
}

// Collects sources in order, each once, and problems.
class Collector {
 public:
  Collector(DataFormat format, const std::string& setting, std::span<const std::string> own_outputs)
      : format_(format), setting_(setting) {
    for (const auto& path : own_outputs)
      if (const auto identity = identity_of(path)) own_.insert(*identity);
  }

  void add_named(const std::string& name) {
    if (has_entry(name)) return add_path(name, Named::outright);
    if (takes_pairs() && has_entry(name + ".idx")) return add_path(name + ".idx", Named::outright);
    const auto matches = matches_of(name);
    if (matches.empty())
      problem(fmt::format("no file, folder or pattern matches {}{}", name,
                          name.find(',') == std::string::npos ? "" : "; in a list each path is an item of its own"));
    for (const auto& match : matches) add_path(match, Named::by_pattern);
  }

  std::vector<Source> take() {
    for (const auto& [kind, files] : binary_)
      problem(fmt::format("{} is {}{}; {}, or insist with --data.format text", files.first, kind->name,
                          files.count == 1 ? "" : fmt::format(" (and {} more files are)", files.count - 1),
                          kind->way_out));
    if (problem_count_ > problems_shown) problems_.add("and {} more", problem_count_ - problems_shown);
    problems_.throw_if_any(setting_);
    if (repeated_.count > 0)
      base::log_warning(
          "{}: {} met more than once (the first is {}); each is read once", setting_,
          repeated_.count == 1 ? "1 file or folder is" : fmt::format("{} files or folders are", repeated_.count),
          repeated_.first);
    if (left_out_.count > 0)
      base::log_warning("{}: left out, as written by a run: {}{}", setting_, left_out_.first,
                        left_out_.count == 1 ? "" : fmt::format(" and {} more", left_out_.count - 1));
    return std::move(sources_);
  }

 private:
  // Tells whether the user named a path, a pattern matched it, or a folder holds it.
  enum class Named { outright, by_pattern, in_folder };

  // Paths of which a message names only the first.
  struct Paths {
    std::string first;
    std::int64_t count = 0;

    void add(const std::string& path) {
      if (count++ == 0) first = path;
    }
  };

  [[nodiscard]] bool takes_pairs() const { return format_ == DataFormat::automatic || format_ == DataFormat::megatron; }

  void problem(std::string text) {
    ++met_;
    if (++problem_count_ <= problems_shown) problems_.add(std::move(text));
  }

  void repeat(const std::string& path) {
    ++met_;
    repeated_.add(path);
  }

  void add_path(const std::string& path, Named how) {
    struct stat status {};
    if (!has_status(path, status)) return problem(why_unseen(path, errno));
    const Identity identity{status.st_dev, status.st_ino};
    if (S_ISDIR(status.st_mode)) return add_folder(path, identity, how);
    if (!S_ISREG(status.st_mode)) return problem(path + " is a pipe, socket or device; write its content to a file");
    if (own_.contains(identity)) return add_own(path, how);
    if (!seen_.insert(identity).second) return repeat(path);
    add_file(path);
  }

  static std::string why_unseen(const std::string& path, int error) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(path, ignored).string();
    if (error == ELOOP) return fmt::format("{} is a link that leads back to itself; remove it", path);
    if (error == ENOENT && !target.empty())
      return fmt::format("{} is a link to {}, which is not there; mend or remove it", path, target);
    return fmt::format("cannot read {}: {}", path, std::strerror(error));
  }

  // Handles a path that a run writes, this one or an earlier one.
  void add_own(const std::string& path, Named how) {
    if (how != Named::outright) return left_out_.add(path);
    problem(
        fmt::format("{} is written by a run; give files that are not, or another train.checkpoint.output_dir", path));
  }

  void add_folder(const std::string& folder, const Identity& identity, Named how) {
    if (const auto above =
            std::find_if(above_.begin(), above_.end(), [&](const auto& a) { return a.first == identity; });
        above != above_.end())
      return problem(fmt::format("{} leads back to {}, a folder that holds it; remove the link, or name what is data",
                                 folder, above->second));
    const auto names = names_in(folder);
    if (!names) return problem(fmt::format("cannot list folder {}: {}", folder, std::strerror(errno)));
    const auto has = [&](const char* name) { return std::binary_search(names->begin(), names->end(), name); };
    if (own_.contains(identity) || (has(config::settings_name) && has(config::metrics_name)))
      return add_own(folder, how);
    if (!seen_.insert(identity).second) return repeat(folder);
    const auto met_before = met_;
    above_.emplace_back(identity, folder);
    for (const auto& name : *names)
      add_path(folder.ends_with('/') ? folder + name : folder + "/" + name, Named::in_folder);
    above_.pop_back();
    if (how != Named::in_folder && met_ == met_before) problem(fmt::format("folder {} has no files", folder));
  }

  void add_file(const std::string& path) {
    ++met_;
    const auto ending = ending_of(path);
    const auto format = format_ == DataFormat::automatic ? format_of_ending(ending) : format_;
    if (format == DataFormat::megatron) return add_pair(path, ending);
    const bool is_guess = format_ == DataFormat::automatic && ending == ".json";
    if (format_ != DataFormat::text && !may_be(format, path, is_guess)) return;
    sources_.push_back({path, format, is_guess ? Certainty::guessed : Certainty::sure});
  }

  // Returns whether the first bytes of a file fit its format; adds a problem if not.
  bool may_be(DataFormat format, const std::string& path, bool is_guess) {
    std::uint64_t size = 0;
    std::string start;
    try {
      start = start_of(path, size);
    } catch (const base::Error& error) {
      problem(error.what());
      return false;
    }
    const auto* const kind = format == DataFormat::text ? any_binary(start, size) : known_binary(start, size);
    if (kind != nullptr) binary_[kind].add(path);
    if (kind == nullptr && is_guess && begins_array(start)) {
      problem(
          fmt::format("{} is a JSON array, not JSONL, which has one object a line; convert it with jq -c '.[]', or "
                      "give its format with --data.format",
                      path));
      return false;
    }
    return kind == nullptr;
  }

  // Adds a pair once, although each of its two files usually leads here.
  void add_pair(const std::string& file, const std::string& ending) {
    const bool is_member = ending == ".bin" || ending == ".idx";
    if (is_member && !file.ends_with(ending))
      return problem(fmt::format("{}: a megatron data set is a pair of files .bin and .idx, in small letters", file));
    const std::string stem = is_member ? file.substr(0, file.size() - ending.size()) : file;
    const std::string index = stem + ".idx", tokens = stem + ".bin";
    const auto of_index = identity_of(index);
    for (const auto& path : {index, tokens})
      if (!identity_of(path))
        return problem(fmt::format("{} is not there; a megatron data set is a pair of files .bin and .idx", path));
    if (pairs_.insert(*of_index).second) sources_.push_back({index, DataFormat::megatron});
  }

  DataFormat format_;
  const std::string& setting_;
  std::set<Identity> own_;  // files and folders that this run writes
  base::Problems problems_;
  std::int64_t problem_count_ = 0;
  std::int64_t met_ = 0;  // files, problems and repetitions so far
  std::vector<Source> sources_;
  std::set<Identity> seen_, pairs_;
  std::vector<std::pair<Identity, std::string>> above_;  // the folders around the one that is being read
  std::map<const BinaryKind*, Paths> binary_;
  Paths repeated_, left_out_;
};

}  // namespace

std::vector<Source> find_sources(std::span<const std::string> named, DataFormat format, const std::string& setting,
                                 std::span<const std::string> own_outputs) {
  base::require(!named.empty(), "{} names no file; give files, folders or patterns", setting);
  Collector collector(format, setting, own_outputs);
  for (const std::string& name : named) collector.add_named(name);
  return collector.take();
}

}  // namespace tessera::data
