// Measures on a GPU the time of each instruction of a program. The host reads the times after the last instruction.
#pragma once

#include <string>
#include <vector>

#include "device/stream.h"
#include "executor/timeline.h"

namespace tessera::executor {

class GpuTimes {
 public:
  // Records the first event. Call it before the first instruction.
  void start() { last_ = device::Stream::compute().record(); }
  // Records an event after each instruction; the instruction's time runs from the previous event.
  void note(std::string kind, std::string name);
  // Adds the times of all instructions to `timeline` and forgets them. The host waits for the last event.
  void add_to(Timeline& timeline);

 private:
  struct Noted {
    std::string kind, name;
    device::Event began, ended;
  };
  device::Event last_;
  std::vector<Noted> noted_;
};

}  // namespace tessera::executor
