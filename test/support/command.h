// Runs programs from a list of words and collects exit code and output.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace tessera::test {

struct Finished {
  int code = 0;  // exit code; 128 + signal if a signal ended it
  std::string out, err;
};

// A running program. Its output goes to files, so that it never waits for a reader.
class Command {
 public:
  // Starts the program words[0], found through PATH, with the environment of this process and `environment` added.
  explicit Command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment = {});
  // Ends the program if it still runs.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t process() const { return pid_; }
  void signal(int number) const;
  // False once it has ended, or been waited for.
  [[nodiscard]] bool is_running() const;
  // Returns what the program has written to standard error so far.
  [[nodiscard]] std::string errors_so_far() const;
  // Waits for the end. To be called at most once.
  Finished wait();

 private:
  TempFolder folder_;
  pid_t pid_ = -1;  // -1: waited for
};

// Runs a program to its end.
[[nodiscard]] Finished run_command(const std::vector<std::string>& words,
                                   const std::map<std::string, std::string>& environment = {});

// Returns how often `part` occurs in `text`.
[[nodiscard]] int count_of(const std::string& part, const std::string& text);

}  // namespace tessera::test
