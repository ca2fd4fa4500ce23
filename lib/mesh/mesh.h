// The communicators of a layout: one for each name of this rank's groups. Names that stand for the same groups share
// one below, but each counts its own traffic.
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
  // Layout::group. Precondition: layout.world() == world->size().
  Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world);

  // The communicator of this rank's group `name` (see Layout::group_names); the group of one rank for "".
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& communicator(const std::string& name) const;
  // What each of them has moved since the start, by name.
  [[nodiscard]] std::map<std::string, comm::Traffic> traffic() const;

 private:
  struct Metered {
    std::shared_ptr<comm::Communicator> communicator;  // the same as `meter`
    std::shared_ptr<const comm::Metered> meter;
  };
  void add(const std::string& name, std::shared_ptr<comm::Communicator> communicator);

  std::map<std::string, Metered> communicators_;
};

}  // namespace tessera::mesh
