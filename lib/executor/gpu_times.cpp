#include "executor/gpu_times.h"

#include <utility>

#include "base/clock.h"

namespace tessera::executor {

void GpuTimes::note(std::string kind, std::string name) {
  auto now = device::Stream::compute().record();
  noted_.push_back({std::move(kind), std::move(name), std::exchange(last_, now), now});
}

void GpuTimes::add_to(Timeline& timeline) {
  if (noted_.empty()) return;
  last_.synchronize();
  const auto known_at = base::seconds_now();  // the last event has just passed, or a moment ago
  for (auto& [kind, name, began, ended] : noted_) {
    const auto seconds = ended.seconds_since(began);
    timeline.add(kind, seconds);
    if (!timeline.records()) continue;
    const auto end = known_at - last_.seconds_since(ended);
    timeline.add({TimelineEvent::Lane::compute, std::move(name), {}, end - seconds, end});
  }
  noted_.clear();
}

}  // namespace tessera::executor
