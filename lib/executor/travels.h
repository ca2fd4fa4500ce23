// Holds the communications under way. One instruction starts a communication; the wait of the same ticket ends it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "executor/timeline.h"
#include "fsdp/parameter_store.h"
#include "program/program.h"

namespace tessera::executor {

class Travels {
 public:
  // Both must outlive this object.
  Travels(const program::Program& program, Timeline& timeline) : program_(program), timeline_(timeline) {}

  void add(std::int32_t ticket, fsdp::Travelling travelling) { under_way_[ticket].push_back(std::move(travelling)); }
  void add(std::int32_t ticket, std::vector<fsdp::Travelling> travelling);
  // Waits for all communications under the ticket of `instruction`. On a GPU the compute stream waits, not the host.
  void end(const program::Instruction& instruction);
  // Adds the communications that ran on a GPU to the timeline. The host waits for them.
  void tell_timeline();

 private:
  // An operation for the timeline. Of an operation on a GPU the times are known only after it.
  struct Traced {
    std::string name, group;
    comm::Handle handle;
  };
  void add_to_timeline(const Traced& traced) const;

  const program::Program& program_;
  Timeline& timeline_;
  std::map<std::int32_t, std::vector<fsdp::Travelling>> under_way_;
  std::vector<Traced> traced_;
};

}  // namespace tessera::executor
