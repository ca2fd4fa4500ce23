// A small disk in memory, for tests of a disk that is full or read-only.
#pragma once

#include <sys/mount.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "support/temp_folder.h"

namespace tessera::test {

class MountedDisk {
 public:
  // Mounts the disk. is_there() tells whether that worked, why() why not: only root may mount.
  explicit MountedDisk(std::uint64_t bytes) { mount(0, bytes); }
  ~MountedDisk() {
    if (is_there_) ::umount2(path().c_str(), MNT_DETACH);
  }
  MountedDisk(const MountedDisk&) = delete;
  MountedDisk& operator=(const MountedDisk&) = delete;

  [[nodiscard]] bool is_there() const { return is_there_; }
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  void resize(std::uint64_t bytes) { mount(MS_REMOUNT, bytes); }
  void make_read_only(std::uint64_t bytes) { mount(MS_REMOUNT | MS_RDONLY, bytes); }

 private:
  void mount(unsigned long flags, std::uint64_t bytes) {
    const auto options = "size=" + std::to_string(bytes);
    const bool worked = ::mount("tmpfs", path().c_str(), "tmpfs", flags, options.c_str()) == 0;
    if (!worked) why_ = std::string("mount: ") + std::strerror(errno);
    is_there_ = is_there_ || worked;
  }

  TempFolder folder_;
  bool is_there_ = false;
  std::string why_;
};

}  // namespace tessera::test
