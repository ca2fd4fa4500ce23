#include "mesh/mesh.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera::mesh {

namespace {

// The communicator of `own`, one of the `groups` that the world's ranks are divided into.
std::shared_ptr<comm::Communicator> make(const std::vector<layout::Group>& groups, const layout::Group& own,
                                         const std::shared_ptr<comm::Communicator>& world) {
  if (groups.size() == 1 && std::is_sorted(own.begin(), own.end())) return world;
  const bool are_single = std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.size() == 1; });
  return are_single ? comm::solo_communicator() : world->make_group(own);
}

}  // namespace

Mesh::Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world) {
  base::expect(layout.world() == world->size(), "a layout of {} ranks in a world of {}", layout.world(), world->size());
  add("", comm::solo_communicator());
  // Names that divide the ranks alike share a communicator. Every rank makes the same ones in the same order.
  std::map<std::vector<layout::Group>, std::shared_ptr<comm::Communicator>> made;
  for (const auto& name : layout.group_names()) {
    const auto groups = layout.groups(name);
    auto& communicator = made[groups];
    if (communicator == nullptr) communicator = make(groups, layout.group(world->rank(), name), world);
    add(name, communicator);
  }
}

const std::shared_ptr<comm::Communicator>& Mesh::communicator(const std::string& name) const {
  const auto found = communicators_.find(name);
  base::expect(found != communicators_.end(), "no group {}", name);
  return found->second.communicator;
}

std::map<std::string, comm::Traffic> Mesh::traffic() const {
  std::map<std::string, comm::Traffic> by_name;
  for (const auto& [name, metered] : communicators_) by_name.emplace(name, metered.meter->traffic());
  return by_name;
}

void Mesh::add(const std::string& name, std::shared_ptr<comm::Communicator> communicator) {
  auto metered = std::make_shared<comm::Metered>(std::move(communicator), name);
  communicators_.emplace(name, Metered{.communicator = metered, .meter = metered});
}

}  // namespace tessera::mesh
