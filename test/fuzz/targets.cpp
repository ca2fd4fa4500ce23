#include "fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sealed_json.h"

namespace tessera::test {
namespace {

// A file in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) throw std::runtime_error("cannot write a file in memory");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] base::Path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Whether `read` accepted its input; Error(bad_input) refuses it.
template <class Read>
bool accepts(const Read& read) {
  try {
    read();
  } catch (const base::Error& error) {
    base::expect(error.code() == base::ExitCode::bad_input, "refused as if it were not the input's fault: {}",
                 error.what());
    base::expect(std::string_view(error.what()).size() < 10'000, "a message of {} bytes",
                 std::string_view(error.what()).size());
    return false;
  }
  return true;
}

}  // namespace

void read_safetensors(std::string_view bytes) {
  const MemoryFile file(bytes);
  static_cast<void>(accepts([&] {
    const checkpoint::SafetensorsFile opened(file.path());
    std::uint64_t sum = opened.header().size();
    for (const auto& tensor : opened.tensors()) {
      base::expect(opened.find(tensor.name) == &tensor, "{} is not found", tensor.name);
      sum += opened.bytes(tensor).size();
      static_cast<void>(base::xxh3(opened.bytes(tensor)));  // reads them
      for (const auto size : tensor.shape) base::expect(size >= 0, "a negative size");
    }
    base::expect(sum == bytes.size(), "header and tensors have {} bytes of {}", sum, bytes.size());
  }));
}

void read_manifest(std::string_view bytes) {
  static_cast<void>(accepts([&] {
    const auto manifest = checkpoint::parse_manifest(bytes, "manifest");
    const auto text = checkpoint::to_text(manifest);
    const auto again = checkpoint::parse_manifest(text, "what was written of an accepted manifest");
    base::expect(again.progress == manifest.progress && checkpoint::to_text(again) == text,
                 "a manifest is not what was written of it");
  }));
}

void read_sealed_json(std::string_view bytes) {
  constexpr std::uint64_t limit = 1 << 20;
  const MemoryFile file(bytes);
  static_cast<void>(accepts([&] {
    const auto text = checkpoint::read_sealed(file.path(), limit);
    base::expect(text == bytes, "a sealed text is not its file's");
  }));
  if (bytes.empty() || bytes.size() > limit / 2) return;
  auto sealed = checkpoint::seal(bytes);
  const MemoryFile good(sealed);
  base::expect(checkpoint::read_sealed(good.path(), limit) == sealed, "what was sealed is refused");
  sealed[bytes.size() % sealed.size()] ^= 1;
  const MemoryFile flipped(sealed);
  base::expect(!accepts([&] { static_cast<void>(checkpoint::read_sealed(flipped.path(), limit)); }),
               "a flipped bit is not found");
}

namespace {

void visit(const base::JsonDocument& document, const nlohmann::json& value, const std::string& pointer) {
  base::expect(document.line_of(pointer) >= 1, "no line of {}", pointer);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) visit(document, member, pointer + "/" + base::escape_pointer(key));
  if (value.is_array())
    for (std::size_t k = 0; k < value.size(); ++k) visit(document, value[k], pointer + "/" + std::to_string(k));
}

}  // namespace

void read_json(std::string_view bytes) {
  for (const auto comments : {base::JsonComments::refused, base::JsonComments::allowed})
    static_cast<void>(accepts([&] {
      const auto document = base::parse_json(bytes, "file.json", comments);
      visit(document, document.value(), "");
      if (comments == base::JsonComments::refused)
        base::expect(base::parse_json_line(bytes, "file.json", 1) == document.value(),
                     "with and without lines two values are read");
    }));
}

}  // namespace tessera::test
