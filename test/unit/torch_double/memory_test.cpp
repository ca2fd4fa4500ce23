// Were this broken, host code that touches a GPU's memory would pass here and crash there.
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "support/catch.h"
#include "support/gradient_check.h"
#include "support/torch_double/torch_double.h"

using namespace tessera;
namespace torch_double = test::torch_double;
using test::varied;
using torch_double::to_device;

TEST_CASE("a tensor goes to the device and back unchanged") {
  const auto x = varied({3, 5}, 1);
  CHECK(to_device(x).device() == torch_double::device());
  CHECK(test::distance(to_device(x).cpu(), x) == 0);
  CHECK(test::distance(to_device(x).add(to_device(x)).cpu(), x.add(x)) == 0);
  CHECK(test::distance(at::mm(to_device(x), to_device(x).t()).cpu(), at::mm(x, x.t())) == 0);
}
