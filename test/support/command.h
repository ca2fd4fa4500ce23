// Programs as the tests run them: words in, exit code and output out.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace tessera::test {

struct Finished {
  int code = 0;  // of the exit; 128 + signal if a signal ended it
  std::string out, err;
};

// A program that runs. Its output goes to files, so that it never waits for a reader.
class Command {
 public:
  // `words[0]` is looked for in PATH. `environment` is set beside the environment of this process.
  explicit Command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment = {});
  // Ends it if it still runs.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t process() const { return pid_; }
  void signal(int number) const;
  // False once it has ended, or been waited for.
  [[nodiscard]] bool is_running() const;
  // Standard error so far.
  [[nodiscard]] std::string errors_so_far() const;
  // Waits for the end. Called once.
  Finished wait();

 private:
  TempFolder folder_;
  pid_t pid_ = -1;  // -1: waited for
};

[[nodiscard]] Finished run_command(const std::vector<std::string>& words,
                                   const std::map<std::string, std::string>& environment = {});

// How often `part` stands in `text`.
[[nodiscard]] int count_of(const std::string& part, const std::string& text);

}  // namespace tessera::test
