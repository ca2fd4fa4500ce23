// A hash of all bytes of a corpus, computed in the background of a run. It covers the parts of large files that a
// Fingerprint leaves out.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "data/corpus.h"

namespace tessera::data {

// A thread of the lowest priority reads every token file once, in order. The corpus must outlive the object. The
// destructor stops the thread and waits for it.
class ContentHash {
 public:
  explicit ContentHash(const Corpus& corpus);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  // Returns the hash once all files are read, and nothing before. If a file cannot be read, warns and never has a
  // value.
  [[nodiscard]] std::optional<std::uint64_t> value() const;
  // Waits until the thread has read all files or failed.
  void wait() const { is_ended_.wait(false); }

 private:
  void run(const std::stop_token& stop);

  const Corpus& corpus_;
  std::optional<std::uint64_t> value_;  // written before is_ended_
  std::atomic<bool> is_ended_ = false;
  std::jthread thread_;  // last: stopped and joined before the rest goes
};

}  // namespace tessera::data
