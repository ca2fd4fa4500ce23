// Records the calls of fsync that reach the kernel. A test's file system proves in which order files and folders are
// synced; this checks the layer below it. A program that links heard_syncs.cpp has its own fsync, which records the
// call and performs it.
#pragma once

#include <filesystem>
#include <vector>

namespace tessera::test {

// Records the calls of all threads while it lives; one object at a time.
class HeardSyncs {
 public:
  HeardSyncs();
  ~HeardSyncs();
  HeardSyncs(const HeardSyncs&) = delete;
  HeardSyncs& operator=(const HeardSyncs&) = delete;

  // Returns the file or folder of each call, in order, by the name that it had at the call.
  [[nodiscard]] std::vector<std::filesystem::path> so_far() const;
  // Returns whether a thread other than the one that constructed this made a call.
  [[nodiscard]] bool has_heard_another_thread() const;
};

}  // namespace tessera::test
