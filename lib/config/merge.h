// From what several sources say (settings files, then the command line) to one tree of settings.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/fields.h"

namespace tessera::config {

// One setting as one source gave it.
struct Assignment {
  const Field* field = nullptr;
  std::string spelled;  // the path as given
  std::string place;    // "settings.json:12", or "command line"
  Value value;
};

// other: the file is not one of settings, or could not be read, so that what it leaves out is not known.
enum class Content { settings, other };

// What one source said. Problems of reading it are kept beside it.
struct Source {
  Content content = Content::settings;
  std::vector<Assignment> assignments;
  std::vector<std::string> notices;  // names that were accepted and have no effect
};

// Lays `source` over `draft`; what it gives overrides what earlier sources gave, in any spelling. One setting under two
// names in one source is a problem.
void merge(const Source& source, Draft& draft, base::Problems& problems);

// Folds other spellings into the settings.
[[nodiscard]] Settings resolve(const Draft& draft, base::Problems& problems);

// A VeOmni name without a meaning here: a notice if its value (JSON text or word) may be ignored, a problem if not.
// Returns whether `path` is such a name.
bool note_foreign(const std::string& path, const std::string& value, const std::string& place, Source& source,
                  base::Problems& problems);

}  // namespace tessera::config
