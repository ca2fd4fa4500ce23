// If this failed, listings of programs would name values wrongly, or recomputation would choose experts a second time.
#include "architecture/value.h"

#include <set>

#include "support/catch.h"

namespace tessera::architecture {
namespace {

using K = ValueKind;

TEST_CASE("every kind of value has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t kind = 0; kind < value_kinds; ++kind) names.insert(name(static_cast<K>(kind)));
  CHECK(names.size() == value_kinds);
  CHECK(names.count("") == 0);
}

TEST_CASE("a value of a layer is named with its layer") {
  CHECK(name(ValueId{K::hidden, 3}) == "hidden[3]");
  CHECK(name(ValueId{K::ids}) == "ids");
}

TEST_CASE("what carries a gradient is computed again, and what is kept carries none") {
  for (std::size_t kind = 0; kind < value_kinds; ++kind)
    CHECK(is_kept(static_cast<K>(kind)) != is_differentiable(static_cast<K>(kind)));
}

TEST_CASE(
    "integers carry no gradient, floating numbers but the rotary tables do, and they are where the run computes") {
  for (std::size_t kind = 0; kind < value_kinds; ++kind) {
    const auto& traits = traits_of(static_cast<K>(kind));
    CAPTURE(traits.name);
    const bool is_constant = traits.kind == K::rotary_cosine || traits.kind == K::rotary_sine;
    CHECK((traits.type == NumberType::index || is_constant) != traits.carries_gradient);
    if (traits.type != NumberType::index) CHECK(traits.memory == Memory::run);
  }
}

TEST_CASE("a value is described by its shape and its type") {
  CHECK(describe(K::query) == "query [tokens, heads, head dim] compute");
  CHECK(describe(K::source_expert_count) == "source_expert_count [sources, own experts] index");
  CHECK(describe(K::loss) == "loss [] wide");
  std::set<std::string_view> symbols;
  for (std::size_t dim = 0; dim < dim_symbols; ++dim) symbols.insert(name(static_cast<Dim>(dim)));
  CHECK(symbols.size() == dim_symbols);
}

TEST_CASE("a step begins with its batch, which no segment writes") {
  for (const K kind : {K::ids, K::labels, K::positions, K::attention_starts, K::sequence_starts}) CHECK(is_batch(kind));
  for (const K kind : {K::unique_ids, K::hidden, K::balance_count, K::loss}) CHECK_FALSE(is_batch(kind));
}

TEST_CASE("counts say how rows, slots and ids are split among ranks") {
  CHECK(split_of(Dim::rows).counts == K::row_count);
  CHECK(split_of(Dim::received_rows).counts == K::source_row_count);
  CHECK(split_of(Dim::slots).by == SplitBy::counts_of_experts);
  CHECK(split_of(Dim::owners).by == SplitBy::one_each);
  CHECK_THROWS_WITH(split_of(Dim::hidden), Catch::Matchers::ContainsSubstring("no exchange of rows splits hidden"));
}

TEST_CASE("slots and counts are kept, slot weights are not") {
  for (const K kind : {K::slot_token, K::slot_choice, K::slot_count, K::expert_count, K::router_count, K::row_token,
                       K::row_count, K::send_slot, K::slot, K::source_row_count, K::source_expert_count})
    CHECK(is_kept(kind));
  CHECK_FALSE(is_kept(K::slot_weight));
  CHECK_FALSE(is_kept(K::router_probability));
}

}  // namespace
}  // namespace tessera::architecture
