// The communicators of a layout: for each group one on host memory and, if the run computes on GPUs, one on GPU
// memory. Groups that divide the ranks alike share one underlying communicator, but each counts its own traffic.
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
  // Collective over the world, which must outlive the communicators. Rank k of a group's communicator is the k-th rank
  // of Layout::group. `gpu_world` has the world's ranks in the same order, on GPU memory (comm/nccl.h, comm/staged.h);
  // it is null if the run computes on the CPU. Precondition: layout.world() == world->size().
  Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world,
       const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  // Returns the communicator of this rank's group (one of Layout::group_ids, or this rank alone), on the memory where
  // the run computes. Throws std::logic_error if there is no such group.
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& communicator(const layout::GroupId& id) const;
  // Returns the same group's communicator on host memory. On the CPU it is the same object.
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& host(const layout::GroupId& id) const;
  // Returns the traffic of each group since the start, by name, in both kinds of memory together.
  [[nodiscard]] std::map<std::string, comm::Traffic> traffic() const;

 private:
  struct Metered {
    std::shared_ptr<comm::Communicator> communicator;  // the same as `meter`
    std::shared_ptr<const comm::Metered> meter;
  };
  using ById = std::map<layout::GroupId, Metered>;
  [[nodiscard]] static const std::shared_ptr<comm::Communicator>& find(const ById& communicators,
                                                                       const layout::GroupId& id);

  ById on_host_;
  ById on_gpu_;  // empty where the run computes on the CPU
};

}  // namespace tessera::mesh
