// If this failed, the trace of a step would show overlapping work as sequential, or could not be opened.
#include "train/trace.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/catch.h"
#include "support/temp_folder.h"

namespace tessera::train {
namespace {

using executor::TimelineEvent;
using Lane = TimelineEvent::Lane;

nlohmann::json events_of(const std::string& text) { return nlohmann::json::parse("[" + text + "]"); }

TEST_CASE("an event has its rank, its lane, and microseconds since the origin") {
  const auto events = events_of(format_trace(
      {{Lane::compute, "Forward m0 \"x\"", {}, 2.5, 2.75}, {Lane::communication, "Gather head", "ep_fsdp", 2.25, 3.0}},
      7, 2.0));
  REQUIRE(events.size() == 5);
  CHECK(events[0]["args"]["name"] == "rank 7");
  CHECK(events[1]["name"] == "Gather head");  // by their beginnings
  CHECK(events[1]["args"]["group"] == "ep_fsdp");
  CHECK(events[1]["tid"] == 1);
  CHECK(events[2]["name"] == "Forward m0 \"x\"");
  CHECK(events[2]["ts"] == 500000);
  CHECK(events[2]["dur"] == 250000);
  CHECK(events[2]["tid"] == 0);
  for (const auto& event : events) CHECK(event["pid"] == 7);
}

TEST_CASE("operations under way at the same time have lanes of their own, and a lane is used again") {
  const auto events = events_of(format_trace({{Lane::communication, "a", "ep", 0, 2},
                                              {Lane::communication, "b", "ep", 1, 3},
                                              {Lane::communication, "c", "ep", 2, 4},
                                              {Lane::communication, "d", "ep", 2.5, 3}},
                                             0, 0));
  std::map<std::string, int> lanes;
  for (const auto& event : events)
    if (event["ph"] == "X") lanes[event["name"]] = event["tid"];
  CHECK(lanes == std::map<std::string, int>{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 3}});
}

TEST_CASE("the file holds one object with the events of all ranks") {
  const test::TempFolder folder;
  const auto path = folder / "trace.json";
  write_trace(path, {{Lane::compute, "Update", {}, 1, 2}}, 0, *comm::solo_communicator());
  const auto trace = nlohmann::json::parse(base::read_file(path));
  CHECK(trace["traceEvents"].size() == 4);
  CHECK_THROWS_AS(write_trace(folder / "none" / "trace.json", {}, 0, *comm::solo_communicator()), base::Error);
}

}  // namespace
}  // namespace tessera::train
