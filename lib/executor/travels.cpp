#include "executor/travels.h"

#include <string_view>
#include <utility>

namespace tessera::executor {

void Travels::add(std::int32_t ticket, std::vector<fsdp::Travelling> travelling) {
  for (auto& one : travelling) add(ticket, std::move(one));
}

void Travels::end(const program::Instruction& i) {
  const auto found = under_way_.find(i.ticket);
  if (found == under_way_.end()) return;
  for (auto& [group, handle] : found->second) {
    handle->wait();
    if (!timeline_.records()) continue;
    auto name = program::describe(program_, i);
    if (i.op == program::Op::wait) name.erase(0, std::string_view("Wait ").size());
    Traced traced{std::move(name), group.name(), std::move(handle)};
    if (traced.handle->has_passed())
      add_to_timeline(traced);
    else
      traced_.push_back(std::move(traced));
  }
  under_way_.erase(found);
}

void Travels::tell_timeline() {
  for (const auto& traced : traced_) add_to_timeline(traced);
  traced_.clear();
}

void Travels::add_to_timeline(const Traced& traced) const {
  const auto span = traced.handle->span();
  timeline_.add({TimelineEvent::Lane::communication, traced.name, traced.group, span.started, span.ended});
}

}  // namespace tessera::executor
