// Ranks of which rank 1 runs out of memory while its world is made, for start_test.cpp:
//   starting_ranks ALLOCATION once|for_good
// under mpirun. The ALLOCATION-th one of rank 1 since the first line of main fails, or that and all later ones.
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "base/log.h"
#include "comm/agreement.h"
#include "comm/world.h"

namespace {

long allocations_left = -1;  // below 0: all succeed
bool fails_for_good = false;

bool fails_now() {
  if (allocations_left < 0 || --allocations_left > 0) return false;
  allocations_left = fails_for_good ? 1 : -1;
  return true;
}

void* allocate(std::size_t bytes) {
  if (fails_now()) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc != 3) return 64;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string_view(rank) == "1") {
    fails_for_good = std::string_view(argv[2]) == "for_good";
    allocations_left = std::atol(argv[1]);
  }
  try {
    comm::World world(comm::read_launch(), {.timeout_s = 120});
    return static_cast<int>(world.run([&] {
      allocations_left = -1;
      world.communicator()->barrier();
      if (world.rank() == 0) base::log_info("all ranks are in the world");
      return base::ExitCode::done;
    }));
  } catch (...) {
    allocations_left = -1;
    const auto failure = comm::describe_failure(std::current_exception());
    base::log_error("{}", failure.message);
    return static_cast<int>(failure.code);
  }
}
