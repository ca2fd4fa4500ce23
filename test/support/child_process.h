// Runs a function that may end its process in a forked copy of the test's process.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

namespace tessera::test {

struct EndOfChild {
  int code = 0;     // exit code; 128 + signal if a signal ended it
  std::string err;  // all that it wrote to stderr
};

// Forks; the child calls `act` and exits with its value, without running any destructor. Other threads must not hold
// locks that `act` needs.
inline EndOfChild run_in_child(const std::function<int()>& act) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe for a child process");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    ::_exit(act());
  }
  ::close(pipe[1]);
  EndOfChild end;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(pipe[0], part.data(), part.size())) > 0;)
    end.err.append(part.data(), static_cast<std::size_t>(count));
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  end.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

}  // namespace tessera::test
