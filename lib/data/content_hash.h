// A hash of all bytes of a corpus, computed in the background of a run. It covers the parts of large files that a
// Fingerprint leaves out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "data/corpus.h"

namespace tessera::data {

// A thread of the lowest priority reads every token file once, in order. The corpus must outlive the object. The
// destructor stops the thread and waits for it.
class ContentHash {
 public:
  // The thread calls `before_part`, if there is one, before it reads each part of a file; tests hold it up there.
  explicit ContentHash(const Corpus& corpus, std::function<void()> before_part = {});
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  // Returns the hash once all files are read, and nothing before. If a file cannot be read, warns and never has a
  // value.
  [[nodiscard]] std::optional<std::uint64_t> value() const;
  // Waits until the thread has read all files or failed.
  void wait() const { is_ended_.wait(false); }
  // Waits likewise, but at most `seconds`, and not at all if the thread at its speed so far needs longer for the rest.
  void wait_if_within(double seconds) const;

 private:
  void run(const std::stop_token& stop);

  const Corpus& corpus_;
  const std::function<void()> before_part_;
  const double began_;
  std::atomic<std::uint64_t> bytes_ = 0;       // of all files; 0 until the thread knows them
  std::atomic<std::uint64_t> bytes_read_ = 0;  // so far
  std::optional<std::uint64_t> value_;         // written before is_ended_
  std::atomic<bool> is_ended_ = false;
  std::jthread thread_;  // last: stopped and joined before the rest goes
};

}  // namespace tessera::data
