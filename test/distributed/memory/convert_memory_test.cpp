// If this failed, converting a model would need memory for the whole model.
#include <filesystem>

#include "checkpoint/huggingface_import.h"
#include "checkpoint/huggingface_writer.h"
#include "distributed/memory/counted_memory.h"
#include "support/catch.h"
#include "support/huggingface_folder.h"
#include "support/ranks.h"
#include "support/temp_folder.h"

namespace tessera::test {
namespace {

using checkpoint::ElementType;

TEST_CASE("conversions hold a part of a tensor at a time, whatever its size and the number of ranks") {
  auto& ranks = *world().communicator();
  auto config = checkpoint::small_config(checkpoint::Sizes::coprime);
  config.vocab_size = 450'007;  // 12 MB for the embedding, and again for the head
  const TempFolder own;
  // All ranks use rank 0's.
  std::string shared = own.path().string();
  shared.resize(4096, '\0');
  ranks.broadcast(shared.data(), 4096 / 4, comm::ElementType::int32, 0, nullptr)->wait();
  const std::filesystem::path folder(shared.c_str());
  if (ranks.rank() == 0)
    checkpoint::write_folder(folder / "in", config, checkpoint::separate_tensors(config, ElementType::F32),
                             ElementType::F32);
  ranks.barrier();
  constexpr auto most = checkpoint::streamed_elements * 4;
  for (const auto& [step, call] :
       {std::pair<const char*, std::function<void()>>{
            "from HuggingFace", [&] { checkpoint::import_huggingface(folder / "in", folder / "ck", {}, ranks); }},
        {"to HuggingFace", [&] {
           checkpoint::write_huggingface(folder / "ck", folder / "out", {.max_file_bytes = 1'000'000}, ranks);
         }}}) {
    INFO(step);
    const MemoryCount count;
    call();
    const auto memory = count.so_far();
    if (ranks.rank() == 0) CHECK(!memory.tensors.empty());  // with 4 ranks there is no file for the last one
    CHECK_ON_ALL(memory.largest_tensor() <= most);
    CHECK_ON_ALL(memory.live_tensor_bytes == 0);
  }
  if (ranks.rank() == 0)
    CHECK(checkpoint::read_tensors(folder / "out", ElementType::F32) ==
          checkpoint::separate_tensors(config, ElementType::F32));
  ranks.barrier();
}

}  // namespace
}  // namespace tessera::test
