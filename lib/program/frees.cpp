#include "program/frees.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "program/resource_numbers.h"

namespace tessera::program {

namespace {

bool is_counted(const Resource& r) {
  return r.kind != ResourceKind::weights && r.kind != ResourceKind::weight_gradient && r.kind != ResourceKind::masters;
}

}  // namespace

void append_frees(Program& program) {
  const ResourceNumbers numbers(program);
  ResourceSet done(numbers);  // freed by an instruction behind, or a result
  ResourceSet read(numbers);
  for (const auto& r : program.results) done.insert(r);
  for (const auto& i : program.instructions)
    for (const auto& r : i.reads) read.insert(r);
  for (auto i = program.instructions.rbegin(); i != program.instructions.rend(); ++i) {
    const auto named = i->frees;
    std::vector<Resource> freed;
    const auto free_here = [&](const Resource& r) {
      if (is_counted(r) && done.insert(r) && std::find(named.begin(), named.end(), r) == named.end())
        freed.push_back(r);
    };
    std::for_each(i->reads.begin(), i->reads.end(), free_here);
    for (const auto* list : {&i->writes, &i->adds})
      for (const auto& r : *list)
        if (!read.contains(r)) free_here(r);
    std::sort(freed.begin(), freed.end());
    i->frees.insert(i->frees.end(), freed.begin(), freed.end());
  }
}

}  // namespace tessera::program
