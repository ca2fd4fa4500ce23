// Files that become shorter while they are mapped. Reading what is gone raises SIGBUS, which ends a process without a
// word; here it ends with a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

namespace tessera::base {

// While it lives, a read of `bytes` that finds them gone ends the process with ExitCode::rank_failed and one message
// that names the file and both of its sizes, or says that its disk failed. A SIGBUS at any other address does what it
// did before the first of these objects was made. Move-only; threads may make and drop them at the same time.
class WatchedBytes {
 public:
  WatchedBytes() = default;  // watches nothing
  // `bytes` are the whole file at `path`, mapped.
  WatchedBytes(std::span<const std::byte> bytes, const std::string& path);
  ~WatchedBytes();
  WatchedBytes(WatchedBytes&& other) noexcept;
  WatchedBytes& operator=(WatchedBytes&& other) noexcept;

 private:
  struct Record;
  class Registry;
  Record* record_ = nullptr;
};

// In a job of several ranks: such a message begins with `speaker` ("rank 2 on node1: "), and only the process that
// finds `has_spoken` false, and sets it, prints it; the others end without a word. The flag must stay until the next
// call; null, as at the start: every process speaks for itself.
void set_speaker(const std::string& speaker, std::atomic<bool>* has_spoken);

}  // namespace tessera::base
