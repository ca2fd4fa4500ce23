// When a GPU ran the instructions of a program: the host learns it after them, from events between them.
#pragma once

#include <string>
#include <vector>

#include "device/stream.h"
#include "executor/timeline.h"

namespace tessera::executor {

class GpuTimes {
 public:
  // Before the first instruction.
  void start() { last_ = device::Stream::compute().record(); }
  // After an instruction: what the compute stream was given for it lies behind the instruction before.
  void note(std::string kind, std::string name);
  // Adds all of them, and forgets them. The host waits for the last.
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
