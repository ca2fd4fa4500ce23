// Communication under way: started by one instruction, ended by the wait of the same ticket.
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
  // Waits for all that stands under the ticket of `instruction`, which starts it or waits for it. On a GPU the compute
  // stream waits, not the host.
  void end(const program::Instruction& instruction);
  // Adds to the timeline what a GPU has carried: the host waits for it.
  void tell_timeline();

 private:
  // An operation for the timeline: on a GPU it is known later when it was under way.
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
