// The limit on the size of files that a process writes (ulimit -f).
#pragma once

namespace tessera::base {

// Ignores SIGXFSZ: a write beyond the limit then fails like one to a full disk ("File too large") and does not end the
// process. A handler that was installed before stays. posix_file_system() calls it at its first use; a main function
// calls it first, for libraries that write files themselves.
void let_writes_fail_at_limit();

}  // namespace tessera::base
