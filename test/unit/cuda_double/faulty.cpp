// A program that uses CUDA and NCCL wrongly, and goes on: what a suite on the double is that never looks.
//   faulty read-early | group | leak | none
#include <nccl.h>

#include <string_view>

#include "gpu_test.h"

int main(int, char** argv) {
  using namespace tessera::test;
  const std::string_view what = argv[1];
  const Stream stream;
  const Memory memory(16);
  writes(stream, memory.range());
  if (what != "read-early") cudaStreamSynchronize(stream);
  reads(nullptr, memory.range());
  rest({stream, nullptr});
  if (what == "group") ncclGroupStart();
  if (what != "leak") return 0;
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  ncclGetUniqueId(&id);
  ncclCommInitRankConfig(&communicator, 1, id, 0, nullptr);
  return 0;
}
