// Messages for files that are cut while they are mapped. Reading a page that is gone raises SIGBUS, which would end
// the process without a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

namespace tessera::base {

// While the object lives, a read of `bytes` that raises SIGBUS ends the process with ExitCode::rank_failed and one
// message that names the file with its former and its present size, or says that its disk failed. A SIGBUS at any other
// address has the effect that it had before the first of these objects was made. Move-only; threads may make and
// destroy objects at the same time.
class WatchedBytes {
 public:
  WatchedBytes() = default;  // watches nothing
  // `bytes` is the memory map of the whole file at `path`.
  WatchedBytes(std::span<const std::byte> bytes, const std::string& path);
  ~WatchedBytes();
  WatchedBytes(WatchedBytes&& other) noexcept;
  WatchedBytes& operator=(WatchedBytes&& other) noexcept;

 private:
  struct Record;
  class Registry;
  Record* record_ = nullptr;
};

// For a job of several ranks. Begins the message with `speaker` ("rank 2 on node1: "), and lets only one process print
// it: the first to set `has_spoken`, a flag that the ranks of a machine share. The others end without a message. The
// flag must live until the next call. Null, which is the initial state, lets every process print its message.
void set_speaker(const std::string& speaker, std::atomic<bool>* has_spoken);

}  // namespace tessera::base
