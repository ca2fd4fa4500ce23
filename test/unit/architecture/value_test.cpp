// If this failed, listings of programs would name values wrongly, or recomputation would choose experts a second time.
#include "architecture/value.h"

#include <set>

#include "support/catch.h"

namespace tessera::architecture {
namespace {

using K = ValueKind;

TEST_CASE("every kind of value has a name of its own") {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(K::loss); ++kind) names.insert(name(static_cast<K>(kind)));
  CHECK(names.size() == static_cast<std::size_t>(K::loss) + 1);
  CHECK(names.count("") == 0);
}

TEST_CASE("a value of a layer is named with its layer") {
  CHECK(name(ValueId{K::hidden, 3}) == "hidden[3]");
  CHECK(name(ValueId{K::ids}) == "ids");
}

TEST_CASE("what carries a gradient is computed again, and what is kept carries none") {
  for (int kind = 0; kind <= static_cast<int>(K::loss); ++kind)
    CHECK(is_kept(static_cast<K>(kind)) != is_differentiable(static_cast<K>(kind)));
}

TEST_CASE("slots and counts are kept, slot weights are not") {
  for (const K kind : {K::slot_token, K::slot_choice, K::expert_count, K::router_count, K::row_token, K::row_count,
                       K::send_slot, K::slot, K::source_row_count, K::source_expert_count})
    CHECK(is_kept(kind));
  CHECK_FALSE(is_kept(K::slot_weight));
  CHECK_FALSE(is_kept(K::router_probability));
}

}  // namespace
}  // namespace tessera::architecture
