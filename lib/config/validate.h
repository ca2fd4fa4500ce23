// Checks the settings as a whole: contradictions, settings without effect, and parts that are not built yet.
#pragma once

#include "base/error.h"
#include "config/action.h"
#include "config/merge.h"
#include "config/settings.h"

namespace tessera::config {

// ranks_not_built: some size asks for parallelism that is not built yet, so the caller need not check whether the sizes
// fit the number of ranks.
enum class Verdict { complete, ranks_not_built };

// Adds every problem. Precondition: each value is in range (see setting_value.h). The actions `train` and `dry_run`
// need a model and data; their absence is no problem if `content` is other, as a file that could not be read may name
// them. The layout, not this function, checks that sizes fit the number of ranks.
Verdict validate(const Settings& settings, Action action, Content content, base::Problems& problems);

}  // namespace tessera::config
