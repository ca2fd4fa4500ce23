// Adds up the time of steps by kind of instruction and, on request, keeps single events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::executor {

// An instruction that this rank computed, or a communication that was under way for it. Times are base::seconds_now().
struct TimelineEvent {
  enum class Lane : std::uint8_t { compute, communication };
  Lane lane{};
  std::string name;   // of the instruction, as program::describe writes it
  std::string group;  // the group of a communication; empty for compute
  double begin = 0, end = 0;
};

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

  // Keeps the next `events` events.
  void record(std::size_t events) { most_events_ = events_.size() + events; }
  [[nodiscard]] bool records() const { return events_.size() < most_events_; }
  void add(TimelineEvent event) {
    if (records()) events_.push_back(std::move(event));
  }
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

 private:
  std::map<std::string, Entry> entries_;
  std::vector<TimelineEvent> events_;
  std::size_t most_events_ = 0;
};

}  // namespace tessera::executor
