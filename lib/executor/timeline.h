// Where the time of steps goes, by kind of instruction.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tessera::executor {

class Timeline {
 public:
  void add(const std::string& kind, double seconds) {
    auto& entry = entries_[kind];
    entry.seconds += seconds;
    ++entry.count;
  }
  struct Entry {
    double seconds = 0;
    std::int64_t count = 0;
  };
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace tessera::executor
