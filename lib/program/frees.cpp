#include "program/frees.h"

#include <algorithm>
#include <map>

namespace tessera::program {

void append_frees(Program& program) {
  const auto is_counted = [](const Resource& r) {
    return r.kind != ResourceKind::weights && r.kind != ResourceKind::weight_gradient &&
           r.kind != ResourceKind::masters;
  };
  std::map<Resource, std::size_t> last_touch;
  std::map<Resource, std::size_t> last_read;
  for (std::size_t k = 0; k < program.instructions.size(); ++k) {
    const auto& i = program.instructions[k];
    for (const auto* list : {&i.writes, &i.adds})
      for (const auto& r : *list)
        if (is_counted(r)) last_touch[r] = k;
    for (const auto& r : i.reads)
      if (is_counted(r)) last_read[r] = k;
  }
  for (const auto& [r, k] : last_read) last_touch[r] = k;
  for (const auto& r : program.results) last_touch.erase(r);
  for (const auto& [r, k] : last_touch) {
    auto& frees = program.instructions[k].frees;
    if (std::find(frees.begin(), frees.end(), r) == frees.end()) frees.push_back(r);
  }
}

}  // namespace tessera::program
