// The communicators of a layout: one for each of this rank's groups, shared by names that stand for the same groups.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "layout/layout.h"

namespace tessera::mesh {

class Mesh {
 public:
  // Collective over the world, which must outlive what this makes. Rank k of a group's communicator is the k-th of
  // Layout::group. Precondition: layout.world() == world->size().
  Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world);

  // The communicator of this rank's group `name` (see Layout::group_names); the group of one rank for "".
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& communicator(const std::string& name) const;

 private:
  std::map<std::string, std::shared_ptr<comm::Communicator>> communicators_;
};

}  // namespace tessera::mesh
