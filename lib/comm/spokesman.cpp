#include "comm/spokesman.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "base/log.h"

namespace tessera::comm {

namespace {

// An abstract socket address: a name that one process of this host can hold at a time, until it ends.
class Name {
 public:
  explicit Name(const std::string& text) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto length = std::min(text.size(), sizeof address.sun_path - 1);
    std::copy_n(text.begin(), length, address.sun_path + 1);  // a first byte of zero: no file
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    is_taken_ = socket_ >= 0 && ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0;
  }
  ~Name() {
    if (socket_ >= 0) ::close(socket_);
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  // Returns whether another process holds the name.
  [[nodiscard]] bool is_taken() const { return is_taken_; }

 private:
  int socket_;
  bool is_taken_ = false;
};

// Returns whether another process that runs this program has the same parent.
bool has_sibling() {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  for (fs::directory_iterator thread(fmt::format("/proc/{}/task", ::getppid()), error), end; !error && thread != end;
       thread.increment(error)) {
    std::ifstream children(thread->path() / "children");
    std::error_code gone;
    for (pid_t child = 0; children >> child;)
      if (child != ::getpid() && fs::read_symlink(fmt::format("/proc/{}/exe", child), gone) == program && !gone)
        return true;
  }
  return false;
}

}  // namespace

void log_failed_start(const Launch& launch, const Failure& failure) {
  constexpr int least_looks = 10, most_looks = 300;
  constexpr auto between = std::chrono::milliseconds(100);
  if (launch.ranks == 1) return base::log_error("{}", failure.message);
  if (failure.code != base::ExitCode::bad_input) return base::log_error("rank {}: {}", launch.rank, failure.message);
  const Name name(fmt::format("tessera failure of the launch of {} by {}", ::getppid(), launch.announced_by));
  if (name.is_taken()) return;
  base::log_error("{}", failure.message);
  for (int look = 0; look < most_looks && (look < least_looks || has_sibling()); ++look)
    std::this_thread::sleep_for(between);
}

}  // namespace tessera::comm
