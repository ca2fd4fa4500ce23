#include "support/watchdog.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace tessera::test {

std::chrono::seconds test_time_limit() {
  const char* text = std::getenv("TESSERA_TEST_TIMEOUT_S");
  if (text == nullptr) return std::chrono::seconds(300);
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value <= 0) {
    std::fprintf(stderr, "TESSERA_TEST_TIMEOUT_S = '%s' is not a number of seconds; set it to 1 or more, or unset it\n",
                 text);
    std::exit(2);
  }
  return std::chrono::seconds(value);
}

Watchdog::Watchdog(std::chrono::seconds limit) : limit_(limit), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::start(const std::string& test_name) {
  {
    const std::lock_guard lock(mutex_);
    test_name_ = test_name;
    deadline_ = Clock::now() + limit_;
  }
  changed_.notify_one();
}

void Watchdog::stop() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (Clock::now() < *deadline_) {
      changed_.wait_until(lock, *deadline_);
    } else {
      std::fprintf(stderr, "test '%s' still ran after %lld s (TESSERA_TEST_TIMEOUT_S); ending the program\n",
                   test_name_.c_str(), static_cast<long long>(limit_.count()));
      std::fflush(nullptr);
      std::_Exit(124);
    }
  }
}

}  // namespace tessera::test
