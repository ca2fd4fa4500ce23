// Run by cuda.cmake: checks that LibTorch's CUDA part, in the folder given as argument, loads into a program that has
// the CUDA runtime and NCCL. Prints their versions and exits with 0, or prints what is wrong. Needs no GPU.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <string>

__global__ void kernel(int* out) { *out = 1; }

// Adds the names of the CUDA runtimes that are loaded; if there are two, LibTorch and nvcc are of different CUDAs.
static int note_runtime(dl_phdr_info* library, size_t, void* names) {
  const char* slash = std::strrchr(library->dlpi_name, '/');
  const std::string name = slash == nullptr ? library->dlpi_name : slash + 1;
  if (name.rfind("libcudart.so", 0) == 0) *static_cast<std::string*>(names) += (name + " ");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const char* library : {"libtorch_cpu.so", "libtorch_cuda.so"})
    if (dlopen((std::string(argv[1]) + "/" + library).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
  std::string runtimes;
  dl_iterate_phdr(note_runtime, &runtimes);
  if (runtimes.find(' ') + 1 != runtimes.size()) {
    std::printf("it is of another CUDA than nvcc: %sare both loaded\n", runtimes.c_str());
    return 1;
  }
  int cuda = 0, nccl = 0;
  cudaRuntimeGetVersion(&cuda);
  ncclGetVersion(&nccl);
  std::printf("CUDA %d.%d, NCCL %d.%d.%d\n", cuda / 1000, cuda % 1000 / 10, nccl / 10000, nccl % 10000 / 100,
              nccl % 100);
  return 0;
}
