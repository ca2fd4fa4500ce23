// If this failed, the report would attribute time to the wrong instructions.
#include "executor/timeline.h"

#include "support/catch.h"

namespace tessera::executor {
namespace {

TEST_CASE("times of one kind add up and are counted") {
  Timeline timeline;
  CHECK(timeline.entries().empty());
  timeline.add("Forward layers", 0.25);
  timeline.add("Sum", 0.5);
  timeline.add("Forward layers", 1.5);
  REQUIRE(timeline.entries().size() == 2);
  CHECK(timeline.entries().at("Forward layers").seconds == 1.75);
  CHECK(timeline.entries().at("Forward layers").count == 2);
  CHECK(timeline.entries().at("Sum").count == 1);
}

}  // namespace
}  // namespace tessera::executor
