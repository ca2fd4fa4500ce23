#include "base/file_size_limit.h"

#include <csignal>

namespace tessera::base {

void let_writes_fail_at_limit() {
  if (const auto former = std::signal(SIGXFSZ, SIG_IGN); former != SIG_DFL) std::signal(SIGXFSZ, former);
}

}  // namespace tessera::base
