#include "support/finished_command.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "train/run.h"

namespace tessera::test {
namespace {

// Sends what is written to a file descriptor into a file without a name, while it lives.
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

}  // namespace

FinishedCommand run_tessera_train(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"tessera-train"};
  for (const auto& word : words) argv.push_back(word.c_str());
  FinishedCommand finished;
  const Redirection out(STDOUT_FILENO);
  const Redirection err(STDERR_FILENO);
  finished.exit_code = train::run_command(static_cast<int>(argv.size()), argv.data());
  finished.out = out.text();
  finished.err = err.text();
  return finished;
}

}  // namespace tessera::test
