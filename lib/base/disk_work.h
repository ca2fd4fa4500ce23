// The file operations that this process has under way. Code that works on a file registers it here, so that a rank
// that waits for this one can tell a slow disk from a process that hangs.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::base {

// Registers one file operation for as long as the object lives. Construction and destruction are signs of life.
class DiskWork {
 public:
  // `operation` is a noun ("sync"), `file` the path; both must outlive the object.
  DiskWork(const char* operation, const std::string& file);
  ~DiskWork();
  DiskWork(const DiskWork&) = delete;
  DiskWork& operator=(const DiskWork&) = delete;

  // Gives a sign of life: the operation made progress.
  void has_gone_on();

 private:
  friend std::string describe_disk_work();
  const char* const operation_;
  const std::string& file_;
  std::uint64_t last_sign_ = 0;  // guarded by the mutex of the process's list
};

struct DiskSigns {
  std::uint64_t count = 0;  // signs of life of all threads since the start
  bool is_at_work = false;  // some thread has an operation under way
};

// The signs of life of this process. Thread-safe.
[[nodiscard]] DiskSigns disk_signs();

// Names the operation whose last sign of life is the oldest: "sync of out/shard_00001.safetensors". Empty if no
// operation is under way. Thread-safe.
[[nodiscard]] std::string describe_disk_work();

}  // namespace tessera::base
