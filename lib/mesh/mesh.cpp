#include "mesh/mesh.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera::mesh {

namespace {

// Returns the communicator of `own`, which is this rank's among the `groups` that divide the world's ranks. `alone` is
// the communicator of this rank alone.
std::shared_ptr<comm::Communicator> make(const std::vector<layout::Group>& groups, const layout::Group& own,
                                         const std::shared_ptr<comm::Communicator>& world,
                                         const std::shared_ptr<comm::Communicator>& alone) {
  if (groups.size() == 1 && std::is_sorted(own.begin(), own.end())) return world;
  const bool are_single = std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.size() == 1; });
  return are_single ? alone : world->make_group(own);
}

// Makes the communicators of all groups. Groups that divide the ranks alike share one. Collective: every rank makes
// the same ones in the same order.
std::map<layout::GroupId, std::shared_ptr<comm::Communicator>> make_all(
    const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world,
    const std::shared_ptr<comm::Communicator>& alone) {
  std::map<layout::GroupId, std::shared_ptr<comm::Communicator>> by_id{{layout::GroupId(), alone}};
  std::map<std::vector<layout::Group>, std::shared_ptr<comm::Communicator>> made;
  for (const auto& id : layout.group_ids()) {
    const auto groups = layout.groups(id);
    auto& communicator = made[groups];
    if (communicator == nullptr) communicator = make(groups, layout.group(world->rank(), id), world, alone);
    by_id.emplace(id, communicator);
  }
  return by_id;
}

}  // namespace

Mesh::Mesh(const layout::Layout& layout, const std::shared_ptr<comm::Communicator>& world,
           const std::shared_ptr<comm::Communicator>& gpu_world) {
  base::expect(layout.world() == world->size(), "a layout of {} ranks in a world of {}", layout.world(), world->size());
  const auto measure = [](const auto& made) {
    ById metered;
    for (const auto& [id, communicator] : made) {
      const auto meter = std::make_shared<comm::Metered>(communicator, id.name());
      metered.emplace(id, Metered{.communicator = meter, .meter = meter});
    }
    return metered;
  };
  on_host_ = measure(make_all(layout, world, comm::solo_communicator()));
  if (gpu_world == nullptr) return;
  base::expect(gpu_world->size() == world->size() && gpu_world->rank() == world->rank(), "another world on the GPUs");
  on_gpu_ = measure(make_all(layout, gpu_world, gpu_world->make_group(std::vector<std::int64_t>{world->rank()})));
}

const std::shared_ptr<comm::Communicator>& Mesh::find(const ById& communicators, const layout::GroupId& id) {
  const auto found = communicators.find(id);
  base::expect(found != communicators.end(), "no group {}", id.name());
  return found->second.communicator;
}

const std::shared_ptr<comm::Communicator>& Mesh::communicator(const layout::GroupId& id) const {
  return find(on_gpu_.empty() ? on_host_ : on_gpu_, id);
}

const std::shared_ptr<comm::Communicator>& Mesh::host(const layout::GroupId& id) const { return find(on_host_, id); }

std::map<std::string, comm::Traffic> Mesh::traffic() const {
  std::map<std::string, comm::Traffic> by_name;
  for (const auto* communicators : {&on_host_, &on_gpu_})
    for (const auto& [id, metered] : *communicators) by_name[id.name()] += metered.meter->traffic();
  return by_name;
}

}  // namespace tessera::mesh
