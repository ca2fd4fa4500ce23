// If this failed, a gathered parameter would be read from memory that another one already uses.
#include "device/weight.h"

#include <vector>

#include "support/catch.h"

using tessera::device::Weight;

TEST_CASE("a Weight starts unbound, with the shapes and types asked for") {
  const Weight weight({3, 5}, at::kBFloat16, at::kFloat);
  CHECK(weight.value().sizes() == at::IntArrayRef({3, 5}));
  CHECK(weight.value().scalar_type() == at::kBFloat16);
  CHECK(weight.gradient().scalar_type() == at::kFloat);
  CHECK(weight.value_bytes() == 30);
  CHECK(weight.gradient_bytes() == 60);
  CHECK(weight.value().storage().data() == nullptr);
  CHECK(weight.gradient().storage().data() == nullptr);
  CHECK(weight.anchor().requires_grad());
  CHECK_FALSE(weight.value().requires_grad());
}

TEST_CASE("every tensor that shares a Weight's storage sees the memory that is bound last") {
  Weight weight({2, 3}, at::kDouble, at::kDouble);
  const at::Tensor earlier = weight.value();
  const at::Tensor row = weight.value().select(0, 1);
  const auto version = weight.value()._version();
  std::vector<double> first{0, 1, 2, 3, 4, 5}, second{6, 7, 8, 9, 10, 11};
  weight.bind_value(first.data());
  CHECK(earlier.const_data_ptr<double>()[1] == 1);
  CHECK(row.const_data_ptr<double>()[0] == 3);
  weight.bind_value(second.data());
  CHECK(earlier.const_data_ptr<double>()[1] == 7);
  CHECK(row.const_data_ptr<double>()[0] == 9);
  CHECK(weight.value()._version() == version);
  weight.bind_value(nullptr);
  CHECK(weight.value().storage().data() == nullptr);
}

TEST_CASE("value and gradient are bound apart, and memory without elements may be null") {
  Weight weight({0, 7}, at::kFloat, at::kFloat);
  CHECK(weight.value_bytes() == 0);
  weight.bind_value(nullptr);
  Weight other({1}, at::kFloat, at::kFloat);
  float memory = 2;
  other.bind_gradient(&memory);
  CHECK(other.gradient().const_data_ptr<float>()[0] == 2);
  CHECK(other.value().storage().data() == nullptr);
}
