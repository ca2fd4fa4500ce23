// What the kernel is asked to put on the disk. A test's file system proves in which order files and folders are synced;
// this is the place below it: a program with heard_syncs.cpp has a fsync of its own, which takes notes and does it.
#pragma once

#include <filesystem>
#include <vector>

namespace tessera::test {

// Listens from its construction to its end, one at a time, to all threads.
class HeardSyncs {
 public:
  HeardSyncs();
  ~HeardSyncs();
  HeardSyncs(const HeardSyncs&) = delete;
  HeardSyncs& operator=(const HeardSyncs&) = delete;

  // The file or folder of each call, by the name that it had then, in order.
  [[nodiscard]] std::vector<std::filesystem::path> so_far() const;
  // Whether a thread other than the listener's made one of them.
  [[nodiscard]] bool has_heard_another_thread() const;
};

}  // namespace tessera::test
