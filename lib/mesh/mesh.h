// The communicators of a layout: one for each name of this rank's groups, and where the run computes on GPUs two, for
// memory there and of the host. Names that stand for the same groups share one below, but each counts its own traffic.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/metered.h"
#include "layout/layout.h"

namespace tessera::mesh {

class Mesh {
 public:
  // Collective over the world, which must outlive what this makes. Rank k of a group's communicator is the k-th of
  // Layout::group. `gpu_world`: the world's ranks in its order, for memory of the GPU (comm/nccl.h, comm/staged.h);
  // null where the run computes on the CPU. Precondition: layout.world() == world->size().
  Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world,
       const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  // The communicator of this rank's group `name` (see Layout::group_names), for memory where the run computes; the
  // group of one rank for "".
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& communicator(const std::string& name) const;
  // The same for memory of the host: on the CPU the same object.
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& host(const std::string& name) const;
  // What each of them has moved since the start, by name: in both kinds of memory.
  [[nodiscard]] std::map<std::string, comm::Traffic> traffic() const;

 private:
  struct Metered {
    std::shared_ptr<comm::Communicator> communicator;  // the same as `meter`
    std::shared_ptr<const comm::Metered> meter;
  };
  using ByName = std::map<std::string, Metered>;
  [[nodiscard]] static const std::shared_ptr<comm::Communicator>& find(const ByName& communicators,
                                                                       const std::string& name);

  ByName on_host_;
  ByName on_gpu_;  // empty where the run computes on the CPU
};

}  // namespace tessera::mesh
