// If this failed, gradients of a value with several readers would be lost or counted twice.
#include "executor/tape.h"

#include <ATen/ops/full.h>

#include "support/catch.h"

namespace tessera::executor {
namespace {

using program::Resource;
using program::ResourceKind;

Resource of(ResourceKind kind, std::int32_t micro = 0) {
  return {.kind = kind, .micro = micro, .index = -1, .value = {architecture::ValueKind::hidden, 3}};
}

at::Tensor filled(double value) { return at::full({5}, value, at::kDouble); }

TEST_CASE("the gradients of all readers are added, and none of the summands changes") {
  Tape tape;
  const auto first = filled(1), second = filled(20);
  tape.add_gradient(of(ResourceKind::gradient), first);
  tape.add_gradient(of(ResourceKind::gradient), second);
  tape.add_gradient(of(ResourceKind::gradient), second);
  CHECK(tape.gradient(of(ResourceKind::gradient)).eq(41).all().item<bool>());
  CHECK(first.eq(1).all().item<bool>());
  CHECK(second.eq(20).all().item<bool>());
}

TEST_CASE("a reader that contributed nothing adds nothing") {
  Tape tape;
  CHECK_FALSE(tape.gradient(of(ResourceKind::gradient)).defined());
  tape.add_gradient(of(ResourceKind::gradient), {});
  CHECK_FALSE(tape.gradient(of(ResourceKind::gradient)).defined());
  tape.add_gradient(of(ResourceKind::gradient), filled(2));
  tape.add_gradient(of(ResourceKind::gradient), {});
  CHECK(tape.gradient(of(ResourceKind::gradient)).eq(2).all().item<bool>());
}

TEST_CASE("micro-steps do not share values or gradients") {
  Tape tape;
  tape.set_value(of(ResourceKind::value, 0), filled(1));
  tape.set_value(of(ResourceKind::value, 1), filled(2));
  tape.add_gradient(of(ResourceKind::gradient, 1), filled(3));
  CHECK(tape.value(of(ResourceKind::value, 0)).eq(1).all().item<bool>());
  CHECK_FALSE(tape.gradient(of(ResourceKind::gradient, 0)).defined());
}

TEST_CASE("what is dropped is gone, and its memory too") {
  Tape tape;
  auto value = filled(1);
  const c10::weak_intrusive_ptr<at::TensorImpl> watched(value.getIntrusivePtr());
  tape.set_value(of(ResourceKind::value), std::move(value));
  tape.set_graph(of(ResourceKind::graph), {});
  tape.add_gradient(of(ResourceKind::gradient), filled(1));
  for (const auto kind : {ResourceKind::value, ResourceKind::graph, ResourceKind::gradient}) {
    CHECK_FALSE(tape.empty());
    tape.drop(of(kind));
  }
  CHECK(tape.empty());
  CHECK(watched.expired());
  CHECK_THROWS_WITH(tape.value(of(ResourceKind::value)), Catch::Matchers::ContainsSubstring("no value m0 hidden[3]"));
}

}  // namespace
}  // namespace tessera::executor
