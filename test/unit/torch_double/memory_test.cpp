// If this failed, host code that touches a GPU's memory would pass the tests here and crash on a GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/mm.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "both_places.h"
#include "support/torch_double/host_faults.h"

using namespace tessera;
namespace torch_double = test::torch_double;
using Catch::Matchers::ContainsSubstring;
using test::varied;
using torch_double::to_device;

namespace {

struct Ending {
  int signal = 0;  // 0: it ended by itself
  std::string errors;
};

// How a process ends that runs `work`.
Ending run_apart(const std::function<void()>& work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // not the test's own
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    torch_double::name_host_faults();
    work();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char text[256];
  for (ssize_t count = 0; (count = read(ends[0], text, sizeof text)) > 0;)
    ending.errors.append(text, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  return ending;
}

at::Tensor tensor_at(void* memory, at::IntArrayRef shape) {
  return at::for_blob(memory, shape)
      .options(at::TensorOptions(at::kFloat).device(torch_double::device()))
      .target_device(torch_double::device())
      .make_tensor();
}

}  // namespace

TEST_CASE("a tensor goes to the device and back unchanged") {
  const auto x = varied({3, 5}, 1);
  CHECK(to_device(x).device() == torch_double::device());
  CHECK(to_device(x).cpu().equal(x));
  CHECK(to_device(x.t()).cpu().equal(x.t()));
  CHECK(to_device(at::empty({0, 7})).sizes() == at::IntArrayRef({0, 7}));
}

TEST_CASE("host code that reads or writes a tensor of the device faults, and is told so") {
  const auto x = to_device(varied({3, 5}, 1, at::kFloat));
  const auto reads =
      run_apart([&] { std::_Exit(static_cast<int>(*static_cast<const volatile float*>(x.data_ptr()))); });
  CHECK(reads.signal == SIGSEGV);
  CHECK_THAT(reads.errors, ContainsSubstring("host code touches device memory"));
  const auto writes = run_apart([&] { std::memset(x.mutable_data_ptr(), 0, 4); });
  CHECK(writes.signal == SIGSEGV);
  CHECK(run_apart([&] { static_cast<void>(x.add(x).cpu()); }).signal == 0);
}

TEST_CASE("new memory is full of NaN") {
  const auto options = at::TensorOptions(at::kFloat).device(torch_double::device());
  CHECK(at::isnan(at::empty({3, 5}, options)).all().item<bool>());
  CHECK(at::isnan(at::empty_strided({3, 5}, {1, 3}, options.dtype(at::kBFloat16))).all().item<bool>());
  CHECK(at::empty({3}, options.dtype(at::kLong)).cpu().equal(test::integers({-1, -1, -1})));
}

TEST_CASE("memory that was freed is used again, full of NaN") {
  constexpr std::size_t bytes = 4099;
  const auto before = torch_double::allocated_bytes();
  auto* first = torch_double::device_allocate(bytes);
  CHECK(torch_double::allocated_bytes() == before + bytes);
  CHECK(torch_double::most_allocated_bytes() >= before + bytes);
  std::memset(torch_double::alias_of(first), 0, bytes);
  torch_double::device_free(first);
  CHECK(torch_double::allocated_bytes() == before);
  CHECK(*static_cast<unsigned char*>(torch_double::alias_of(first)) == 0xff);
  auto* second = torch_double::device_allocate(bytes);
  CHECK(second == first);
  CHECK(reinterpret_cast<std::uintptr_t>(second) % 512 == 0);
  torch_double::device_free(second);
}

TEST_CASE("a write behind an allocation ends the program when that is freed") {
  const auto ending = run_apart([] {
    auto* memory = torch_double::device_allocate(6);
    std::memset(torch_double::alias_of(memory), 0, 7);
    torch_double::device_free(memory);
  });
  CHECK(ending.signal == SIGABRT);
  CHECK_THAT(ending.errors, ContainsSubstring("byte 0 behind an allocation of 6 bytes was written"));
  CHECK(run_apart([] { torch_double::device_free(reinterpret_cast<void*>(64)); }).signal == SIGABRT);
}

TEST_CASE("memory bound to a tensor of the device must be the device's, alive and large enough") {
  auto* memory = static_cast<std::byte*>(torch_double::device_allocate(24 * sizeof(float)));
  const auto x = tensor_at(nullptr, {4, 6});
  const auto bind = [&](void* data) {
    x.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, x.device()));
  };
  const auto row = x.select(0, 1);  // of memory to come
  CHECK_THROWS_WITH(x.add(1), ContainsSubstring("no memory bound"));
  bind(memory);
  x.fill_(3);
  CHECK(row.sum().item<float>() == 18);
  CHECK(static_cast<float*>(torch_double::alias_of(memory))[23] == 3);
  float host[24] = {};
  bind(host);
  CHECK_THROWS_WITH(x.add(1), ContainsSubstring("is the host's"));
  bind(memory + 4 * sizeof(float));
  CHECK_THROWS_WITH(x.add(1), ContainsSubstring("reaches beyond its allocation of 96 bytes"));
  bind(memory);
  torch_double::device_free(memory);
  CHECK_THROWS_WITH(x.add_(1), ContainsSubstring("has been freed"));
}

TEST_CASE("a tensor over host memory cannot be said to lie on the device") {
  float host[3] = {};
  const auto options = at::TensorOptions(at::kFloat).device(torch_double::device());
  CHECK_THROWS_WITH(at::from_blob(host, {3}, options), ContainsSubstring("is not of the device"));
}

TEST_CASE("an output that must grow does") {
  const auto x = varied({3, 5}, 1);
  auto out = at::empty({0}, to_device(x).options());
  at::add_out(out, to_device(x), to_device(x));
  CHECK(test::equal_bits(out, x.add(x)));
  out.resize_({2, 3});
  CHECK(test::equal_bits(out, x.add(x).view(-1).narrow(0, 0, 6).view({2, 3})));
  out.resize_({31});
  CHECK(test::equal_bits(out.narrow(0, 0, 15), x.add(x).view(-1)));
}

TEST_CASE("pinned memory is the host's and known as pinned") {
  const auto x = varied({3, 5}, 1);
  CHECK(!x.is_pinned());
  const auto pinned = at::empty({3, 5}, x.options().pinned_memory(true)).copy_(x);
  CHECK(pinned.is_pinned());
  CHECK(pinned.is_cpu());
  CHECK(pinned.equal(x));
  CHECK(to_device(pinned).cpu().equal(x));
  CHECK(x.pin_memory().is_pinned());
}
