#include "program/resource_numbers.h"

namespace tessera::program {

ResourceNumbers::ResourceNumbers(const Program& program) {
  for (const auto* list : {&program.inputs, &program.results})
    for (const auto& r : *list) note(r);
  for (const auto& i : program.instructions) {
    for (const auto* list : {&i.reads, &i.writes, &i.adds, &i.frees})
      for (const auto& r : *list) note(r);
    // Even if nothing waits for it.
    if (i.op == Op::gather) note(resource(ResourceKind::weights, i.target));
  }
  for (auto& range : ranges_) {
    range.first = size_;
    size_ += range.micros * range.per_micro;
  }
}

}  // namespace tessera::program
