// Turns the paths that the user gives (files, folders, patterns) into a list of files and their formats.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tessera::data {

enum class Certainty : std::uint8_t {
  sure,
  guessed,  // from the ending .json, which is not only for JSONL
};

struct Source {
  std::string path;           // megatron: the .idx file; its .bin has the same stem
  config::DataFormat format;  // never automatic
  Certainty certainty = Certainty::sure;

  friend bool operator==(const Source&, const Source&) = default;
};

// Finds the files that `named` stands for. `setting` is the name of the list in messages.
//
// Each item is a file, a folder, a pattern of glob(7), or the common stem of a .bin/.idx pair; the name of something
// that exists is not read as a pattern. A folder stands for all files below it in the order of their paths, through
// links, without hidden names (that start with a dot). Folders and patterns leave out output folders of runs and
// `own_outputs` (the paths that this run writes; they need not exist yet), with a warning. The result keeps the order
// of the items and has each file once, also if links or other spellings name it again; a warning counts those.
//
// Format `automatic` decides by the ending, in any case: .jsonl, .ndjson and .json are JSONL, .bin and .idx megatron,
// all others text. It refuses files whose first bytes are those of a binary file.
//
// Throws Error(bad_input) with all problems: an item that matches nothing, a link that leads nowhere or to a folder
// that holds it, a .bin without its .idx or the reverse, a binary file, a JSON array, a pipe or device, a folder
// without files, an item that a run writes, an empty list.
[[nodiscard]] std::vector<Source> find_sources(std::span<const std::string> named, config::DataFormat format,
                                               const std::string& setting,
                                               std::span<const std::string> own_outputs = {});

}  // namespace tessera::data
