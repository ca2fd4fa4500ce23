// From what the user names (files, folders, patterns) to a list of files and their formats.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tessera::data {

enum class Certainty : std::uint8_t {
  sure,
  guessed,  // by the name .json, which other files have too
};

struct Source {
  std::string path;           // megatron: the .idx file; its .bin has the same stem
  config::DataFormat format;  // never automatic
  Certainty certainty = Certainty::sure;

  friend bool operator==(const Source&, const Source&) = default;
};

// Each item of `named` is a file, a folder, a pattern of glob(7), or the common stem of a .bin/.idx pair; what exists
// as it is spelled is no pattern. A folder stands for all files below it in the order of their paths: links are
// followed, hidden names (that start with a dot) left out, and so are output folders of runs and what `own_outputs`
// names (what this run writes; it need not be there yet), with a line that says so. The result keeps the order of the
// items and has each file once, also if it is named by links or other spellings; a warning says how many were met
// again. Format `automatic` goes by the ending, in any case: .jsonl .ndjson .json are JSONL, .bin and .idx megatron,
// others are text, if their first bytes are not those of a binary file. `setting` names the list in messages.
// Error(bad_input) with all problems: a name that matches nothing, a link that leads nowhere or to a folder that holds
// it, a .bin without its .idx or the reverse, a binary file, a JSON array, a pipe or device, a folder without files or
// that a run writes into, no name at all.
[[nodiscard]] std::vector<Source> find_sources(std::span<const std::string> named, config::DataFormat format,
                                               const std::string& setting,
                                               std::span<const std::string> own_outputs = {});

}  // namespace tessera::data
