// If this failed, a parameter would be gathered from, or its gradient summed over, the wrong ranks.
#include "mesh/mesh.h"

#include <vector>

#include "support/catch.h"
#include "support/group_named.h"
#include "support/ranks.h"

namespace tessera::mesh {
namespace {

using layout::GridPlacement;
using layout::Layout;
using layout::LayoutSizes;

// Every legal layout of `ranks` with two extra parallels, in every placement.
std::vector<LayoutSizes> layouts_of(std::int64_t ranks) {
  std::vector<LayoutSizes> all;
  for (std::int64_t replicas = 1; replicas <= ranks; ++replicas) {
    if (ranks % replicas != 0) continue;
    const auto shards = ranks / replicas;
    for (std::int64_t ep = 1; ep <= shards; ++ep)
      for (std::int64_t emb = 1; emb <= shards; ++emb) {
        if (shards % ep != 0 || shards % emb != 0) continue;
        for (const auto placement : {GridPlacement::innermost, GridPlacement::outer}) {
          LayoutSizes sizes{.dp_replicate = replicas, .dp_shard = shards};
          sizes.extra = {{.name = "ep", .size = ep, .placement = placement},
                         {.name = "emb", .size = emb, .placement = GridPlacement::innermost}};
          all.push_back(sizes);
        }
      }
  }
  return all;
}

// Whether `group` consists of the ranks `expected`, in their order: each says who it is.
bool consists_of(comm::Communicator& group, const layout::Group& expected, std::int64_t rank) {
  if (group.size() != static_cast<std::int64_t>(expected.size())) return false;
  if (expected[static_cast<std::size_t>(group.rank())] != rank) return false;
  std::vector<std::int64_t> ranks(expected.size(), -1);
  ranks[static_cast<std::size_t>(group.rank())] = rank;
  comm::GatherBlock block{.type = comm::ElementType::int64, .pieces = {}};
  for (auto& place : ranks) block.pieces.push_back({&place, 1, 1, 1});
  group.gather_blocks({block}, nullptr)->wait();
  return ranks == expected;
}

TEST_CASE("every group of every layout of these ranks has a communicator of its ranks, in their order") {
  const auto& world = test::world();
  for (const auto& sizes : layouts_of(world.size())) {
    const Layout layout(sizes);
    INFO(describe_groups(layout, 0));
    const Mesh mesh(layout, world.communicator());
    bool right = mesh.communicator({})->size() == 1;
    for (const auto& id : layout.group_ids())
      right &= consists_of(*mesh.communicator(id), layout.group(world.rank(), id), world.rank());
    CHECK_ON_ALL(right);
  }
}

// What the communicator of `id` counts for.
const comm::Communicator& below(const Mesh& mesh, const layout::GroupId& id) {
  return *dynamic_cast<const comm::Metered&>(*mesh.communicator(id)).wrapped();
}

TEST_CASE("names of the same groups share a communicator, and the world's is the world's") {
  const auto& world = test::world();
  LayoutSizes sizes{.dp_shard = world.size()};
  sizes.extra = {{.name = "ep", .size = world.size()}, {.name = "emb", .size = 1}};
  const Layout layout(sizes);
  const Mesh mesh(layout, world.communicator());
  CHECK_ON_ALL(&below(mesh, test::group_named(layout, "world")) == world.communicator().get());
  for (const auto* name : {"fsdp", "data", "ep", "emb_fsdp", "emb+emb_fsdp"})
    CHECK_ON_ALL(&below(mesh, test::group_named(layout, name)) == world.communicator().get());
  CHECK_ON_ALL(&below(mesh, test::group_named(layout, "ep_fsdp")) == &below(mesh, test::group_named(layout, "emb")));
}

TEST_CASE("names that share a communicator have traffic of their own") {
  const auto& world = test::world();
  const auto others = world.size() - 1;
  LayoutSizes sizes{.dp_shard = world.size()};
  sizes.extra = {{.name = "ep", .size = world.size()}};
  const Layout layout(sizes);
  const Mesh mesh(layout, world.communicator());
  std::vector<double> data(7);
  const auto sum = [&](const char* name, std::int64_t elements) {
    mesh.communicator(test::group_named(layout, name))
        ->all_reduce(data.data(), elements, comm::ElementType::float64, comm::ReduceOperation::add, nullptr)
        ->wait();
  };
  sum("ep", 7);
  sum("ep", 5);
  sum("fsdp", 3);
  sum("", 7);
  const auto traffic = mesh.traffic();
  CHECK_ON_ALL(traffic.at("ep").calls == 2 && traffic.at("ep").bytes_sent == 12 * 8 * others);
  CHECK_ON_ALL(traffic.at("fsdp").calls == 1 && traffic.at("fsdp").bytes_sent == 3 * 8 * others);
  CHECK_ON_ALL(traffic.at("").calls == 1 && traffic.at("").bytes_sent == 0);
  CHECK_ON_ALL(traffic.at("world").calls == 0);
  CHECK_ON_ALL(traffic.size() == layout.group_ids().size() + 1);
}

TEST_CASE("where the run computes on GPUs each name has a communicator for memory there, and one for the host's") {
  const auto& world = test::world();
  std::vector<std::int64_t> all;
  for (std::int64_t k = 0; k < world.size(); ++k) all.push_back(k);
  const auto gpu_world = std::make_shared<comm::Metered>(world.communicator()->make_group(all));  // plays the part
  LayoutSizes sizes{.dp_shard = world.size()};
  sizes.extra = {{.name = "ep", .size = world.size()}};
  const Layout layout(sizes);
  const Mesh mesh(layout, world.communicator(), gpu_world), on_cpu(layout, world.communicator());
  CHECK_ON_ALL(&below(mesh, test::group_named(layout, "world")) == gpu_world.get());
  const auto ep = test::group_named(layout, "ep");
  CHECK_ON_ALL(on_cpu.host(ep) == on_cpu.communicator(ep));
  CHECK_ON_ALL(mesh.communicator({})->size() == 1 && mesh.host({})->size() == 1);
  bool right = true;
  for (const auto& id : layout.group_ids()) {
    right &= mesh.host(id) != mesh.communicator(id);
    right &= consists_of(*mesh.host(id), layout.group(world.rank(), id), world.rank());
    right &= consists_of(*mesh.communicator(id), layout.group(world.rank(), id), world.rank());
  }
  CHECK_ON_ALL(right);
  // Both kinds count: consists_of gathers once in each.
  CHECK_ON_ALL(mesh.traffic().at("ep").calls == 2);
  CHECK_ON_ALL(mesh.traffic().at("ep").bytes_sent == 2 * 8 * (world.size() - 1));
}

}  // namespace
}  // namespace tessera::mesh
