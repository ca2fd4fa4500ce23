// Ranks that pass different lengths to a collective, for lengths_test.cpp:
//   disagreeing_ranks OPERATION ELEMENTS OF_RANK_1 FOLDER
// under mpirun -n 2. Rank 1 passes OF_RANK_1 floats (to another operation, if it is given as OPERATION:OTHER), the
// other rank ELEMENTS. What comes in goes to memory full of 1 that is the file FOLDER/RANK: what was written is seen
// afterwards.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/world.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t room = 1 << 20;  // floats, of the longest sequence and what follows it

float* memory_in(const std::string& file) {
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
  const auto bytes = static_cast<std::size_t>(room) * sizeof(float);
  base::require(opened >= 0 && ::ftruncate(opened, static_cast<off_t>(bytes)) == 0, "{} cannot be made", file);
  auto* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  base::require(memory != MAP_FAILED, "{} cannot be mapped", file);
  ::close(opened);
  std::fill_n(static_cast<float*>(memory), room, 1.0F);
  return static_cast<float*>(memory);
}

struct Call {
  Communicator& group;
  float* memory;           // for what comes in
  std::vector<float> own;  // what is sent
  std::int64_t elements;

  [[nodiscard]] Strided in() const { return {memory, 1, elements, elements}; }
  [[nodiscard]] Strided out() { return {own.data(), 1, elements, elements}; }
};

Handle all_reduce(Call& c) {
  return c.group.all_reduce(c.memory, c.elements, ElementType::float32, ReduceOperation::add, nullptr);
}

Handle broadcast(Call& c) { return c.group.broadcast(c.memory, c.elements, ElementType::float32, 0, nullptr); }

Handle gather_blocks(Call& c) {
  GatherBlock block{.type = ElementType::float32, .pieces = {c.in(), c.in()}};
  block.pieces[static_cast<std::size_t>(c.group.rank())] = c.out();
  return c.group.gather_blocks({block}, nullptr);
}

Handle reduce_blocks(Call& c) {
  return c.group.reduce_blocks({{ElementType::float32, {c.out(), c.out()}, ElementType::float32, c.in()}}, nullptr);
}

Handle all_to_all_rows(Call& c) {
  std::vector<std::int64_t> counts{c.elements, c.elements};
  counts[static_cast<std::size_t>(c.group.rank())] = 0;
  return c.group.all_to_all_rows(c.own.data(), counts, c.memory, counts, 1, ElementType::float32, nullptr);
}

Handle barrier(Call& c) {
  c.group.barrier();
  return solo_communicator()->broadcast(nullptr, 0, ElementType::float32, 0, nullptr);
}

// The sum that agree() begins with.
Handle agreement(Call& c) {
  agree(c.group, std::nullopt);
  return solo_communicator()->broadcast(nullptr, 0, ElementType::float32, 0, nullptr);
}

base::ExitCode play(World& world, const std::vector<std::string>& words) {
  const std::map<std::string, Handle (*)(Call&)> operations{{"all_reduce", all_reduce},
                                                            {"broadcast", broadcast},
                                                            {"gather_blocks", gather_blocks},
                                                            {"reduce_blocks", reduce_blocks},
                                                            {"all_to_all_rows", all_to_all_rows},
                                                            {"barrier", barrier},
                                                            {"agreement", agreement}};
  const bool is_other = world.rank() == 1;
  const auto colon = words[0].find(':');
  const auto operation =
      is_other && colon != std::string::npos ? words[0].substr(colon + 1) : words[0].substr(0, colon);
  const auto elements = std::stoll(is_other ? words[2] : words[1]);
  Call call{.group = *world.communicator(),
            .memory = memory_in(words[3] + "/" + std::to_string(world.rank())),
            .own = std::vector<float>(room, 3.0F),
            .elements = elements};
  call.group.set_name("experts");
  operations.at(operation)(call)->wait();
  call.group.barrier();
  return base::ExitCode::done;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc != 5) return 64;
  comm::World world(comm::read_launch(), {.timeout_s = 20});
  return static_cast<int>(world.run([&] { return comm::play(world, {argv + 1, argv + argc}); }));
}
