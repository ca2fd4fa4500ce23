#include "checkpoint/companions.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

// The files that save_pretrained of a model or a tokenizer writes, and those that it read the tokenizer from.
constexpr std::array names{"added_tokens.json", "special_tokens_map.json", "merges.txt", "LICENSE", "NOTICE"};
constexpr std::array beginnings{"tokenizer", "vocab.", "chat_template", "LICENSE.", "NOTICE."};
constexpr std::array ends{"_config.json", ".tiktoken"};

}  // namespace

bool is_companion(std::string_view name) {
  return std::ranges::find(names, name) != names.end() ||
         std::ranges::any_of(beginnings, [&](const char* text) { return name.starts_with(text); }) ||
         std::ranges::any_of(ends, [&](const char* text) { return name.ends_with(text); });
}

Companions companions_beside(const base::Path& source) {
  std::error_code error;
  const auto folder = fs::is_directory(source, error) ? source : source.parent_path();
  Companions found;
  base::DiskWork work("listing", source.native());
  std::uint64_t bytes = 0;
  for (fs::directory_iterator entries(folder.empty() ? "." : folder, error);
       !error && entries != fs::directory_iterator(); entries.increment(error)) {
    work.has_gone_on();
    const auto& path = entries->path();
    std::error_code ignored;
    if (!is_companion(path.filename().string()) || !fs::is_regular_file(path, ignored)) continue;
    const auto size = fs::file_size(path, ignored);
    if (size > companion_limit || bytes + size > companions_limit) {
      base::log_warning("{} has {} bytes: it is too large to be copied with the weights into checkpoints and exports",
                        path.string(), size);
      continue;
    }
    bytes += size;
    found.push_back({path.filename().string(), base::read_file(path, companion_limit)});
  }
  base::require(!error, "cannot read folder {}: {}", folder.string(), error.message());
  std::ranges::sort(found, {}, &Companion::name);
  return found;
}

Companions companions_of(const base::Path& checkpoint, const Manifest& manifest) {
  Companions companions;
  for (const auto& entry : manifest.companions) {
    const auto path = checkpoint / entry.name;
    auto content = base::read_file(path, companion_limit);
    base::require(content.size() == entry.bytes && base::xxh3(content) == entry.hash,
                  "{} does not have the length and the hash that the manifest gives it; it is damaged", path.string());
    companions.push_back({entry.name, std::move(content)});
  }
  return companions;
}

void write_companions(const Companions& companions, const base::Path& folder, base::FileSystem& files) {
  for (const auto& companion : companions) base::write_synced(folder / companion.name, companion.content, files);
}

std::vector<StoredCompanion> entries_of(const Companions& companions) {
  std::vector<StoredCompanion> entries;
  for (const auto& [name, content] : companions) entries.push_back({name, content.size(), base::xxh3(content)});
  return entries;
}

}  // namespace tessera::checkpoint
