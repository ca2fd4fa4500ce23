// What the settings must be as a whole: contradictions, settings without effect, and parts that are not built yet.
#pragma once

#include "base/error.h"
#include "config/command_line.h"
#include "config/merge.h"
#include "config/settings.h"

namespace tessera::config {

// ranks_not_built: sizes of parallelism were refused as not yet built, so that what else is wrong with them for the
// ranks that there are need not be told.
enum class Verdict { complete, ranks_not_built };

// Adds every problem. Values are in range already (see value.h). `train` and `dry_run` need a model and data, which are
// not called missing if `content` is other: they may stand in a file that could not be read. What does not fit the
// number of ranks is the layout's to say.
Verdict validate(const Settings& settings, Action action, Content content, base::Problems& problems);

}  // namespace tessera::config
