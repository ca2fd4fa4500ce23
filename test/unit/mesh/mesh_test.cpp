// If this failed, a group of the layout would have no communicator, or one of other ranks.
#include "mesh/mesh.h"

#include <stdexcept>

#include "support/catch.h"

namespace tessera::mesh {
namespace {

TEST_CASE("every group of a layout of one rank has a communicator of one") {
  layout::LayoutSizes sizes;
  sizes.extra = {{.name = "ep", .size = 1}, {.name = "emb", .size = 1}};
  const layout::Layout layout(sizes);
  const Mesh mesh(layout, comm::solo_communicator());
  auto ids = layout.group_ids();
  CHECK(ids.size() > 10);
  ids.emplace_back();
  for (const auto& id : ids) {
    INFO("group '" << id.name() << "'");
    CHECK(mesh.communicator(id)->size() == 1);
    CHECK(mesh.communicator(id)->rank() == 0);
  }
}

TEST_CASE("a name that is no group, and a layout of other ranks than the world's, are the programmer's fault") {
  const Mesh mesh(layout::Layout({}), comm::solo_communicator());
  CHECK_THROWS_AS(mesh.communicator(layout::GroupId::of("ep", layout::ExtraAxis::owners)), std::logic_error);
  layout::LayoutSizes two;
  two.dp_shard = 2;
  CHECK_THROWS_AS(Mesh(layout::Layout(two), comm::solo_communicator()), std::logic_error);
}

}  // namespace
}  // namespace tessera::mesh
