// What this process is doing on disks, told by the code that does it: whoever waits for this process can then tell a
// slow disk from a process that hangs.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::base {

// While it lives the calling thread is at work in a file. Its beginning and its end are signs of life.
class DiskWork {
 public:
  // "sync", of that file; both outlive this.
  DiskWork(const char* operation, const std::string& file);
  ~DiskWork();
  DiskWork(const DiskWork&) = delete;
  DiskWork& operator=(const DiskWork&) = delete;

  // A sign of life: some of the work is done.
  void has_gone_on();

 private:
  friend std::string describe_disk_work();
  const char* const operation_;
  const std::string& file_;
  std::uint64_t last_sign_ = 0;  // guarded by the list of all
};

struct DiskSigns {
  std::uint64_t count = 0;  // of all threads, so far
  bool is_at_work = false;  // any thread
};

// Of this process. Any thread.
[[nodiscard]] DiskSigns disk_signs();

// The work under way that has given no sign of life for longest: "sync of out/shard_00001.safetensors"; empty: none.
[[nodiscard]] std::string describe_disk_work();

}  // namespace tessera::base
