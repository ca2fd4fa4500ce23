// Ends the process when a test hangs, and prints the test's name.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tessera::test {

// Returns TESSERA_TEST_TIMEOUT_S of the environment, or 300 s. A value that is not a positive number ends the process.
std::chrono::seconds test_time_limit();

// Has a thread that waits for the deadline of the running test. start() and stop() are called by one thread, in turns.
// Past the deadline the thread prints the test's name and the limit, and ends the process at once with exit code 124,
// without clean-up: threads that hang could not be joined.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void start(const std::string& test_name);
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  void watch();

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_name_;                      // guarded by mutex_
  std::optional<Clock::time_point> deadline_;  // guarded by mutex_
  bool ending_ = false;                        // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera::test
