// From what the user names (files, folders, patterns) to a list of files and their formats.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tessera::data {

struct Source {
  std::filesystem::path path;  // megatron: the .idx file; its .bin has the same stem
  config::DataFormat format;   // never automatic

  friend bool operator==(const Source&, const Source&) = default;
};

// Each item of `named` is a file, a folder (all files below it, in the order of their paths; hidden ones, whose names
// start with a dot, are left out, links to folders are not followed), a pattern of glob(7), the common stem of a
// .bin/.idx pair, or several of these joined by commas. The result keeps the order of the items and has each file once.
// Format `automatic` goes by extension: .jsonl .ndjson .json are JSONL, .bin and .idx are megatron, others are text.
// `setting` names the list in messages. Error(bad_input) with all problems: a name that matches nothing, a .bin without
// its .idx or the reverse, a folder without files, no name at all.
[[nodiscard]] std::vector<Source> find_sources(std::span<const std::string> named, config::DataFormat format,
                                               const std::string& setting);

}  // namespace tessera::data
