#include "comm/purpose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/quantity.h"

namespace tessera::comm {

std::string describe(const Purpose& purpose, std::int64_t bytes) {
  auto text = fmt::format("{} of {}", purpose.operation, base::format_bytes(static_cast<std::uint64_t>(bytes)));
  if (!purpose.label.empty()) text += fmt::format(" for {}", purpose.label);
  text += purpose.group.empty() ? fmt::format(" among {}", purpose.ranks)
                                : fmt::format(" in group {} ({})", purpose.group, purpose.ranks);
  return text;
}

std::string describe_ranks(std::span<const int> members) {
  constexpr std::size_t most = 16;
  const auto count = members.size();
  if (count > 2 && members.back() - members.front() == static_cast<int>(count) - 1 &&
      std::is_sorted(members.begin(), members.end()))
    return fmt::format("ranks {}-{}", members.front(), members.back());
  if (count <= most) return fmt::format("ranks {}", fmt::join(members, ", "));
  return fmt::format("{} ranks ({}, ...)", count, fmt::join(members.first(most), ", "));
}

}  // namespace tessera::comm
