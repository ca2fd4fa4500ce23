#include "base/error.h"
#include "device/memory_gpu.h"

namespace tessera::device {

namespace {

// Never called: find_gpus() finds no GPU.
void refuse(const char* what) { base::expect(false, "{} in a program that was built without CUDA", what); }

}  // namespace

std::byte* allocate_for_gpu(MemoryKind, std::int64_t) {
  refuse("memory of or for a GPU");
  return nullptr;
}

void release_for_gpu(MemoryKind, std::byte*) {}  // there is none

void fill_on_gpu(void*, int, std::int64_t) { refuse("filling memory of a GPU"); }

void copy_rows(void*, std::int64_t, const void*, std::int64_t, std::int64_t, std::int64_t, const Stream&) {
  refuse("a copy in a stream of a GPU");
}

}  // namespace tessera::device
