// What a command line of tessera-train asks for.
#pragma once

namespace tessera::config {

enum class Action { train, help, manual, print_settings, dry_run };

}  // namespace tessera::config
