// Merges several sources (settings files, then the command line) into one tree of settings.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/field.h"

namespace tessera::config {

// A setting as a source gives it.
struct Assignment {
  const Field* field = nullptr;
  std::string spelled;  // the path as given
  std::string place;    // "settings.json:12", or "command line"
  Value value;
};

// other: the file is no settings file or could not be read, so it is unknown which settings the user meant to give.
enum class Content { settings, other };

// The content of one source. The reader adds the problems that it finds to a list of its own.
struct Source {
  Content content = Content::settings;
  std::vector<Assignment> assignments;
  std::vector<std::string> notices;  // names that are accepted but have no effect
};

// Sets the values of `source` in `draft`, where they replace those of earlier sources, whatever their spelling. Adds a
// problem if the source gives one setting twice, in one spelling or two.
void merge(const Source& source, Draft& draft, base::Problems& problems);

// Returns the settings of the draft, with its ep_size and ep_outside as an entry of the extra parallel lists.
[[nodiscard]] Settings resolve(const Draft& draft, base::Problems& problems);

// Returns whether `path` is a VeOmni name without a meaning here. If so, adds a notice to `source` if the value (JSON
// text or a word) may be ignored, and a problem otherwise.
bool note_foreign(const std::string& path, const std::string& value, const std::string& place, Source& source,
                  base::Problems& problems);

}  // namespace tessera::config
