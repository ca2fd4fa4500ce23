#include "mesh/mesh.h"

#include "base/error.h"

namespace tessera::mesh {

Mesh::Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world) {
  base::expect(layout.world() == world->size(), "a layout of {} ranks in a world of {}", layout.world(), world->size());
  communicators_.emplace("", comm::solo_communicator());
  for (const auto& name : layout.group_names()) {
    const auto group = layout.group(world->rank(), name);
    base::expect(group.size() == 1, "groups of {} ranks: only solo communicators are built", group.size());
    communicators_.emplace(name, comm::solo_communicator());
  }
}

const std::shared_ptr<comm::Communicator>& Mesh::communicator(const std::string& name) const {
  const auto found = communicators_.find(name);
  base::expect(found != communicators_.end(), "no group {}", name);
  return found->second;
}

}  // namespace tessera::mesh
