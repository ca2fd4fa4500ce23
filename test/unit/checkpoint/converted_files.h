// A small model as a HuggingFace folder and as a checkpoint, for tests that convert them.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "checkpoint/huggingface_import.h"
#include "checkpoint/huggingface_writer.h"
#include "support/error_of.h"
#include "support/huggingface_folder.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {

namespace fs = std::filesystem;

inline comm::Communicator& solo() {
  static const auto communicator = comm::solo_communicator();
  return *communicator;
}

// A HuggingFace folder `in` and a checkpoint `ck` of a small model.
class ConvertedFiles {
 public:
  explicit ConvertedFiles(Sizes sizes = Sizes::coprime, ElementType type = ElementType::F32,
                          ElementType masters = ElementType::F32)
      : config_(small_config(sizes)) {
    write_folder(in(), config_, separate_tensors(config_, type), type);
    import_huggingface(in(), checkpoint(), {.type = masters}, solo());
  }
  [[nodiscard]] const architecture::ModelConfig& config() const { return config_; }
  [[nodiscard]] fs::path in() const { return folder_ / "in"; }
  [[nodiscard]] fs::path checkpoint() const { return folder_ / "ck"; }
  [[nodiscard]] fs::path out() const { return folder_ / "out"; }
  [[nodiscard]] const test::TempFolder& folder() const { return folder_; }
  HuggingFaceFolder write(const HuggingFaceOptions& options = {},
                          base::FileSystem& files = base::posix_file_system()) const {
    return write_huggingface(checkpoint(), out(), options, solo(), files);
  }
  [[nodiscard]] std::string refusal(const HuggingFaceOptions& options = {}) const {
    return test::error_of([&] { write(options); });
  }

 private:
  test::TempFolder folder_;
  architecture::ModelConfig config_;
};

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace tessera::checkpoint
