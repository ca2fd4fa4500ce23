// The limit on the size of files that a process writes (ulimit -f).
#pragma once

namespace tessera::base {

// From then on a write beyond it fails as on a full disk ("File too large"), instead of ending the process by SIGXFSZ.
// posix_file_system() does it when it is first asked for, a main before others write. An action of the caller's stays.
void let_writes_fail_at_limit();

}  // namespace tessera::base
