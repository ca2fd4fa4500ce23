// Entry point of libFuzzer (https://llvm.org/docs/LibFuzzer.html) for the target that TESSERA_FUZZ_TARGET names.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::test::TESSERA_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
