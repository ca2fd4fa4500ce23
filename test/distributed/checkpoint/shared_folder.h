// A folder that all ranks of a test use; removed when rank 0's object dies.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/ranks.h"
#include "support/temp_folder.h"

namespace tessera::test {

class SharedFolder {
 public:
  // Collective over the world.
  SharedFolder() {
    std::vector<std::int64_t> letters(4096, 0);
    if (world().rank() == 0) {
      folder_.emplace();
      const auto path = folder_->path().string();
      std::copy(path.begin(), path.end(), letters.begin());
    }
    world()
        .communicator()
        ->broadcast(letters.data(), std::ssize(letters), comm::ElementType::int64, 0, nullptr)
        ->wait();
    std::string path;
    for (std::size_t k = 0; letters[k] != 0; ++k) path += static_cast<char>(letters[k]);
    path_ = path;
  }
  // Collective over the world, so that no rank still reads there.
  ~SharedFolder() { world().communicator()->barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<TempFolder> folder_;
  std::filesystem::path path_;
};

}  // namespace tessera::test
