// Captures what a call writes to standard output or standard error.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"

namespace tessera::test {

// While it lives, sends what is written to a file descriptor into an unnamed file.
class Redirection {
 public:
  explicit Redirection(int descriptor) : descriptor_(descriptor), file_(std::tmpfile(), &std::fclose) {
    std::fflush(nullptr);
    former_ = ::dup(descriptor_);
    base::expect(file_ && former_ >= 0 && ::dup2(::fileno(file_.get()), descriptor_) >= 0, "cannot redirect {}",
                 descriptor_);
  }
  ~Redirection() {
    std::fflush(nullptr);
    ::dup2(former_, descriptor_);
    ::close(former_);
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

  [[nodiscard]] std::string text() const {
    std::fflush(nullptr);
    std::string text;
    std::rewind(file_.get());
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, file_.get())) > 0;) text.append(buffer, n);
    return text;
  }

 private:
  int descriptor_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int former_ = -1;
};

// Returns all that is written to standard error, where the log goes, while `call` runs.
template <class Call>
[[nodiscard]] std::string log_of(Call&& call) {
  const Redirection err(STDERR_FILENO);
  call();
  return err.text();
}

}  // namespace tessera::test
