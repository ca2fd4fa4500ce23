// If this failed, a segment that writes a value of another shape, type or place than its row says would not be found.
#include "executor/value_checks.h"

#include <ATen/ops/zeros.h>

#include "support/catch.h"
#include "support/example_config.h"

namespace tessera::executor {
namespace {

using Catch::Matchers::ContainsSubstring;
using K = architecture::ValueKind;

struct Checks {
  void operator()(architecture::ValueId id, std::vector<std::int64_t> shape, at::ScalarType type = at::kFloat,
                  std::int32_t micro = 0) {
    checks.check(micro, id, at::zeros(shape, type));
  }
  architecture::ModelConfig config = test::example_config();
  ValueChecks checks{config, {.master = at::kFloat, .compute = at::kBFloat16, .wide = at::kFloat}};
};

TEST_CASE("values that fit their rows pass, and each micro-step and layer has sizes of its own") {
  Checks check;
  check({K::ids}, {13}, at::kLong);
  check({K::hidden, 1}, {13, 15}, at::kBFloat16);
  check({K::slot_weight, 1}, {26});
  check({K::row_token, 1}, {9}, at::kLong);
  check({K::row_token, 2}, {8}, at::kLong);
  check({K::ids}, {7}, at::kLong, 1);
  check({K::router_z, 2}, {});
}

TEST_CASE("another type, number of dims or size is found, with the value, what it is and its row") {
  Checks check;
  check({K::ids}, {13}, at::kLong);
  CHECK_THROWS_WITH(check({K::hidden, 1}, {13, 15}),
                    ContainsSubstring("hidden[1] of micro-step 0 is [13, 15] Float on cpu; the table of values has "
                                      "hidden [tokens, hidden] compute: another type"));
  CHECK_THROWS_WITH(check({K::slot_weight, 1}, {26}, at::kDouble), ContainsSubstring("another type"));
  CHECK_THROWS_WITH(check({K::hidden, 1}, {13, 15, 1}, at::kBFloat16), ContainsSubstring("other dims"));
  CHECK_THROWS_WITH(check({K::hidden, 1}, {12, 15}, at::kBFloat16), ContainsSubstring("tokens are 13 in other values"));
  CHECK_THROWS_WITH(check({K::hidden, 1}, {13, 16}, at::kBFloat16), ContainsSubstring("hidden are 15 in other values"));
  check({K::row_token, 1}, {9}, at::kLong);
  CHECK_THROWS_WITH(check({K::send_rows, 1}, {8, 15}, at::kBFloat16), ContainsSubstring("rows are 9 in other values"));
}

}  // namespace
}  // namespace tessera::executor
