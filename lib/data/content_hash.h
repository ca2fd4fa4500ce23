// A hash of all bytes of a corpus, made in the background of a run: what a Fingerprint leaves out of large files.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "data/corpus.h"

namespace tessera::data {

// A thread of the lowest priority reads every token file once, in order. The corpus must outlive this. The destructor
// stops the thread.
class ContentHash {
 public:
  explicit ContentHash(const Corpus& corpus);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  // Once all is read. Never, if a file could not be read: then a warning says so.
  [[nodiscard]] std::optional<std::uint64_t> value() const;
  void wait() const { is_ended_.wait(false); }

 private:
  void run(const std::stop_token& stop);

  const Corpus& corpus_;
  std::optional<std::uint64_t> value_;  // written before is_ended_
  std::atomic<bool> is_ended_ = false;
  std::jthread thread_;  // last: stopped and joined before the rest goes
};

}  // namespace tessera::data
