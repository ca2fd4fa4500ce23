#include "layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::layout {
namespace {

constexpr std::int64_t fill = -1;  // stands for the size that makes the product equal to the world

// A size and its name in the settings.
struct NamedSize {
  std::string name;
  std::int64_t* size;
};

// Returns the divisors of n as text: "1, 2, 4 or 8".
std::string divisors_text(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  std::vector<std::int64_t> large;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  divisors.insert(divisors.end(), large.rbegin(), large.rend());
  if (divisors.size() == 1) return "1";
  const std::int64_t last = divisors.back();
  divisors.pop_back();
  return fmt::format("{} or {}", fmt::join(divisors, ", "), last);
}

// Returns "train.accelerator.dp_replicate_size = 3" and the like for each size above 1.
std::vector<std::string> factors_of(const std::vector<NamedSize>& given) {
  std::vector<std::string> factors;
  for (const NamedSize& axis : given)
    if (*axis.size > 1) factors.push_back(fmt::format("train.accelerator.{} = {}", axis.name, *axis.size));
  if (factors.empty()) factors.emplace_back("the product of all sizes, 1,");
  return factors;
}

std::string product_text(const std::vector<NamedSize>& given, std::int64_t product) {
  const std::vector<std::string> factors = factors_of(given);
  return factors.size() == 1 ? factors.front() : fmt::format("{} make {}, which", fmt::join(factors, " and "), product);
}

// Sets the size that is still to be filled, if any, so that the product of all sizes is `world`.
void fill_world(const std::array<NamedSize, 6>& axes, std::int64_t world, base::Problems& problems) {
  std::vector<NamedSize> given;
  const NamedSize* open = nullptr;
  for (const NamedSize& axis : axes) {
    if (*axis.size == fill)
      open = &axis;
    else
      given.push_back(axis);
  }
  std::int64_t product = 1;
  for (const NamedSize& axis : given) {
    if (*axis.size > world / product) {
      const std::vector<std::string> factors = factors_of(given);
      problems.add("{} {} more than the {} ranks that there are; use less, or start more ranks",
                   fmt::join(factors, " and "), factors.size() == 1 ? "is" : "make", world);
      return;
    }
    product *= *axis.size;
  }
  if (open != nullptr && world % product == 0) {
    *open->size = world / product;
  } else if (open != nullptr) {
    problems.add("{} does not divide {} ranks; use {}", product_text(given, product), world, divisors_text(world));
  } else if (product != world) {
    problems.add(
        "{} is not {}, the number of ranks; set train.accelerator.dp_shard_size to -1 (the rest), or start {} ranks",
        product_text(given, product), world, product);
  }
}

void resolve_dense(LayoutSizes& sizes, std::int64_t world, base::Problems& problems) {
  const std::array<NamedSize, 6> axes{{{"pp_size", &sizes.pp},
                                       {"dp_replicate_size", &sizes.dp_replicate},
                                       {"dp_shard_size", &sizes.dp_shard},
                                       {"ulysses_size", &sizes.ulysses},
                                       {"cp_size", &sizes.cp},
                                       {"tp_size", &sizes.tp}}};
  bool legal = true;
  for (const NamedSize& axis : axes) {
    const bool may_fill = axis.size == &sizes.dp_replicate || axis.size == &sizes.dp_shard;
    if (*axis.size >= 1 || (may_fill && *axis.size == fill)) continue;
    problems.add("train.accelerator.{} = {} is not a number of ranks; use 1 or more{}", axis.name, *axis.size,
                 may_fill ? ", or -1 for what the other sizes leave" : "");
    legal = false;
  }
  if (!legal) return;
  if (sizes.dp_replicate == fill && sizes.dp_shard == fill) sizes.dp_replicate = 1;
  fill_world(axes, world, problems);
}

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

// Returns whether a group name made from `name` would equal another group name of the layout.
bool is_reserved(const std::string& name) {
  static const std::array<const char*, 10> taken{"world", "fsdp",    "data", "dense", "dp",
                                                 "pp",    "ulysses", "cp",   "tp",    "dp_shard"};
  const bool suffixed = name.ends_with("_fsdp") || name.ends_with("_replicate") || name.ends_with("_tp");
  return suffixed || std::find(taken.begin(), taken.end(), name) != taken.end();
}

void check_names(const std::vector<std::string>& names, base::Problems& problems) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string place = fmt::format("train.accelerator.extra_parallel_names[{}] = \"{}\"", i, names[i]);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      problems.add("{} repeats an earlier name; use each name once", place);
    else if (!is_identifier(names[i]))
      problems.add("{} is not a name; use letters, digits and '_', not a digit first, as in ep or emb", place);
    else if (is_reserved(names[i]))
      problems.add("{} would be confused with a group of the layout; choose another name, such as {}_group", place,
                   names[i]);
  }
}

// Returns "8 data-parallel ranks", or "4 data-parallel ranks of one replica and tensor-parallel lane".
std::string ranks_text(const LayoutSizes& sizes, std::int64_t ranks) {
  std::vector<std::string> of;
  if (sizes.pp > 1) of.emplace_back("stage");
  if (sizes.dp_replicate > 1) of.emplace_back("replica");
  if (sizes.tp > 1) of.emplace_back("tensor-parallel lane");
  return fmt::format("{} data-parallel {}{}{}", ranks, ranks == 1 ? "rank" : "ranks", of.empty() ? "" : " of one ",
                     fmt::join(of, " and "));
}

void check_divides(const LayoutSizes& sizes, base::Problems& problems) {
  for (std::size_t i = 0; i < sizes.extra.size(); ++i) {
    const ExtraParallel& extra = sizes.extra[i];
    const std::int64_t ranks = divisible_ranks(sizes, extra);
    if (extra.size >= 1 && ranks % extra.size == 0) continue;
    problems.add("train.accelerator.extra_parallel_sizes[{}] = {} ({}) {} {}; use {}", i, extra.size, extra.name,
                 extra.size < 1 ? "is less than 1 and cannot divide" : "does not divide", ranks_text(sizes, ranks),
                 divisors_text(ranks));
  }
}

// Returns whether the lengths of the three lists match.
bool lengths_agree(const config::AcceleratorSettings& settings) {
  const std::size_t names = settings.extra_parallel_names.size();
  const std::size_t placements = settings.extra_parallel_placement_innermost.size();
  return settings.extra_parallel_sizes.size() == names && (placements == 0 || placements == names);
}

// Returns one entry per name; none if the lengths of the three lists do not match.
std::vector<ExtraParallel> pair_lists(const config::AcceleratorSettings& settings) {
  if (!lengths_agree(settings)) return {};
  const std::vector<std::string>& names = settings.extra_parallel_names;
  const std::vector<std::int64_t>& sizes = settings.extra_parallel_sizes;
  const std::vector<bool>& innermost = settings.extra_parallel_placement_innermost;
  std::vector<ExtraParallel> extra;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool inside = innermost.empty() || innermost[i];
    extra.push_back({names[i], sizes[i], inside ? GridPlacement::innermost : GridPlacement::outer});
  }
  return extra;
}

}  // namespace

void check_extra_parallels(const config::AcceleratorSettings& settings, base::Problems& problems) {
  check_names(settings.extra_parallel_names, problems);
  if (lengths_agree(settings)) return;
  problems.add(
      "train.accelerator.extra_parallel_sizes, extra_parallel_names and extra_parallel_placement_innermost have "
      "lengths {}, {} and {}; give each as many entries as there are names (the last may be left out: all true)",
      settings.extra_parallel_sizes.size(), settings.extra_parallel_names.size(),
      settings.extra_parallel_placement_innermost.size());
}

LayoutSizes resolve_sizes(const config::AcceleratorSettings& settings, std::int64_t world, base::Problems& problems) {
  base::expect(world >= 1, "a world of {} ranks", world);
  LayoutSizes sizes;
  sizes.pp = settings.pp_size;
  sizes.dp_replicate = settings.dp_replicate_size;
  sizes.dp_shard = settings.dp_shard_size;
  sizes.ulysses = settings.ulysses_size;
  sizes.cp = settings.cp_size;
  sizes.tp = settings.tp_size;
  base::Problems dense;
  resolve_dense(sizes, world, dense);
  for (const std::string& problem : dense.list()) problems.add(problem);
  check_extra_parallels(settings, problems);
  sizes.extra = pair_lists(settings);
  if (dense.empty()) check_divides(sizes, problems);
  return sizes;
}

}  // namespace tessera::layout
