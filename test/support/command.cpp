#include "support/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"

namespace tessera::test {
namespace {

// In the child process: replaces the process by the program.
[[noreturn]] void become(std::vector<char*>& argv, const std::map<std::string, std::string>& environment,
                         const std::string& out, const std::string& err) {
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int out_file = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
  const int err_file = ::open(err.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(out_file, STDOUT_FILENO);
  ::dup2(err_file, STDERR_FILENO);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

Command::Command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
  auto copies = words;
  std::vector<char*> argv;
  for (auto& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = folder_ / "out", err = folder_ / "err";
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot start " + words.front());
  if (pid_ == 0) become(argv, environment, out, err);
}

Command::~Command() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Command::signal(int number) const { ::kill(pid_, number); }

bool Command::is_running() const {
  siginfo_t ended{};
  return pid_ >= 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0;
}

std::string Command::errors_so_far() const {
  const auto file = folder_ / "err";
  return std::filesystem::exists(file) ? base::read_file(file) : std::string();
}

Finished Command::wait() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("cannot wait for a program");
  pid_ = -1;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, base::read_file(folder_ / "out"), base::read_file(folder_ / "err")};
}

Finished run_command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
  return Command(words, environment).wait();
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace tessera::test
