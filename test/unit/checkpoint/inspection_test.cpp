// If this failed, `tessera-convert --inspect` would call a damaged checkpoint whole, or describe another one.
#include "checkpoint/inspection.h"
#include "architecture/family.h"

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "checkpoint/huggingface_import.h"
#include "checkpoint/manifest.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/huggingface_folder.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;

class Files {
 public:
  Files() : solo_(comm::solo_communicator()) {
    const auto config = small_config(Sizes::coprime);
    write_folder(in(), config, separate_tensors(config, ElementType::BF16), ElementType::BF16);
    import_huggingface(in(), checkpoint(), {}, *solo_);
  }
  [[nodiscard]] std::filesystem::path in() const { return folder_ / "in"; }
  [[nodiscard]] std::filesystem::path checkpoint() const { return folder_ / "ck"; }
  [[nodiscard]] std::string page() const { return inspect_checkpoint(checkpoint(), *solo_); }

 private:
  test::TempFolder folder_;
  std::shared_ptr<comm::Communicator> solo_;
};

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("the page of a checkpoint has its step, layout, model, files and tensors") {
  const Files files;
  auto manifest = read_manifest(files.checkpoint());
  manifest.progress = {.step = 100, .optimizer_steps = 98, .skipped_steps = 2, .total_steps = 250, .tokens = 1'230'000};
  manifest.progress.evaluated_at = 50;
  manifest.progress.epoch = 3;
  manifest.progress.window = 17;
  manifest.layout = "4 ranks: ep 2";
  write(files.checkpoint() / "manifest.json", to_text(manifest));
  const auto page = files.page();
  for (const char* part :
       {"step       100 of 250: 98 updates, 2 skipped; 1.23M tokens", "next is window 17 of epoch 3", "after step 50",
        "4 ranks: ep 2", "3 layers (2 with experts), hidden 7, 5 experts (2 per token), vocabulary 13",
        "model.layers.2.mlp.experts.down_proj            float32  [5, 7, 9]  master       1   1260",
        "shard_00000.safetensors", "all hashes agree"})
    CHECK_THAT(page, ContainsSubstring(part));
}

TEST_CASE("every byte of a checkpoint is under a hash: none can change without being named") {
  const Files files;
  CHECK_THAT(files.page(), ContainsSubstring("all hashes agree"));
  for (const char* name : {"shard_00000.safetensors", "manifest.json"}) {
    const auto path = files.checkpoint() / name;
    const auto good = base::read_file(path);
    for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 97) {
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      write(path, bad);
      CAPTURE(name, at);
      CHECK_THAT(test::error_of([&] { static_cast<void>(files.page()); }), ContainsSubstring(name));
    }
    write(path, good.substr(0, good.size() - 1));
    CHECK_THAT(test::error_of([&] { static_cast<void>(files.page()); }), ContainsSubstring(name));
    write(path, good);
  }
  CHECK_THAT(files.page(), ContainsSubstring("all hashes agree"));
}

TEST_CASE("the page of HuggingFace's files has their tensors, and compares them with config.json if it is there") {
  const Files files;
  const auto page = inspect_huggingface(files.in());
  CHECK_THAT(page, ContainsSubstring("model.layers.0.mlp.experts.4.down_proj.weight   BF16   [7, 9]"));
  CHECK_THAT(page, ContainsSubstring("the tensors are the model's"));
  auto config = small_config(Sizes::coprime);
  config.num_experts = 6;
  write(files.in() / "config.json", architecture::to_config_json(config));
  CHECK_THAT(test::error_of([&] { static_cast<void>(inspect_huggingface(files.in())); }),
             ContainsSubstring("missing: model.layers.0.mlp.experts.{5}.gate_proj.weight"));
  std::filesystem::remove(files.in() / "config.json");
  CHECK_THAT(inspect_huggingface(files.in()), ContainsSubstring("there is no config.json"));
  const auto path = files.in() / "model.safetensors";
  const auto good = base::read_file(path);
  write(path, good.substr(0, good.size() - 3));
  CHECK_THAT(test::error_of([&] { static_cast<void>(inspect_huggingface(files.in())); }),
             ContainsSubstring("model.safetensors"));
}

}  // namespace
}  // namespace tessera::checkpoint
