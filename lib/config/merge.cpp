#include "config/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/foreign_names.h"

namespace tessera::config {
namespace {

const std::string mixed_precision = "train.accelerator.fsdp_config.mixed_precision.";

bool says_precision(const Assignment& assignment) {
  return assignment.field->path == mixed_precision + "enable" ||
         assignment.field->path == mixed_precision + "param_dtype";
}

Precision precision_of(const Draft& draft, base::Problems& problems) {
  const bool narrow = draft.parameter_dtype.value_or("bfloat16") == "bfloat16";
  if (draft.mixed_precision.value_or(true)) return narrow ? Precision::bfloat16 : Precision::float32;
  if (draft.parameter_dtype && narrow)
    problems.add("{}enable = false contradicts {}param_dtype = bfloat16; leave param_dtype out, or set train.precision",
                 mixed_precision, mixed_precision);
  return Precision::float32;
}

// Sets train.precision from its other spellings, mixed_precision.{enable, param_dtype}. The later source wins; within
// one source all must agree.
void fold_precision(const Source& source, Draft& draft, base::Problems& problems) {
  const auto& given = source.assignments;
  const auto own =
      std::find_if(given.begin(), given.end(), [](const Assignment& a) { return a.field->path == "train.precision"; });
  const auto spelled = std::find_if(given.begin(), given.end(), says_precision);
  if (spelled != given.end()) {
    const Precision precision = precision_of(draft, problems);
    if (own != given.end() && draft.settings.train.precision != precision)
      problems.add("{}: {} and train.precision = {} contradict each other; keep one of them", spelled->place,
                   spelled->spelled, to_text(own->value));
    draft.settings.train.precision = precision;
  } else if (own != given.end()) {
    draft.mixed_precision.reset();
    draft.parameter_dtype.reset();
  }
}

// Appends ep_size and ep_outside to the extra parallel lists.
void fold_ep(const Draft& draft, AcceleratorSettings& accelerator, base::Problems& problems) {
  if (!draft.ep_size) {
    if (draft.ep_outside.value_or(false))
      problems.add(
          "train.accelerator.ep_outside = true has no effect without train.accelerator.ep_size; give both, or set "
          "extra_parallel_placement_innermost");
    return;
  }
  const auto& names = accelerator.extra_parallel_names;
  if (std::find(names.begin(), names.end(), "ep") != names.end()) {
    problems.add(
        "train.accelerator.ep_size = {} and the name ep in train.accelerator.extra_parallel_names say the same twice; "
        "keep one of them",
        *draft.ep_size);
    return;
  }
  // VeOmni appends the size 1 too; here it would name a group that needs a plan.
  if (*draft.ep_size == 1 && !draft.ep_outside) return;
  auto& innermost = accelerator.extra_parallel_placement_innermost;
  const bool outside = draft.ep_outside.value_or(false);
  if (innermost.empty() && outside) innermost.assign(names.size(), true);
  if (!innermost.empty() || outside) innermost.push_back(!outside);
  accelerator.extra_parallel_names.emplace_back("ep");
  accelerator.extra_parallel_sizes.push_back(*draft.ep_size);
}

}  // namespace

void merge(const Source& source, Draft& draft, base::Problems& problems) {
  std::map<std::string, const Assignment*> seen;
  for (const Assignment& assignment : source.assignments) {
    const auto [first, fresh] = seen.emplace(assignment.field->path, &assignment);
    if (fresh) {
      assignment.field->set(draft, assignment.value);
      continue;
    }
    const Assignment& earlier = *first->second;
    if (assignment.spelled == earlier.spelled)
      problems.add("{}: {} is given twice; keep one of them", assignment.place, assignment.spelled);
    else
      problems.add("{}: {} is another spelling of {} ({}); keep one of them", assignment.place, assignment.spelled,
                   earlier.spelled, earlier.place);
  }
  fold_precision(source, draft, problems);
}

Settings resolve(const Draft& draft, base::Problems& problems) {
  Settings settings = draft.settings;
  fold_ep(draft, settings.train.accelerator, problems);
  return settings;
}

bool note_foreign(const std::string& path, const std::string& value, const std::string& place, Source& source,
                  base::Problems& problems) {
  const ForeignName* name = find_foreign(path);
  if (name == nullptr) return false;
  if (is_harmless(*name, value))
    source.notices.push_back(fmt::format("{}: {} has no effect: {}", place, path, name->reason));
  else
    problems.add("{}: {} = {} is not a setting here: {}", place, path, value, name->reason);
  return true;
}

}  // namespace tessera::config
