#include "fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sealed_json.h"
#include "data/jsonl_file.h"
#include "data/mapped_files.h"
#include "data/megatron_file.h"
#include "data/window.h"
#include "support/temp_folder.h"

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

// Returns whether `read` accepted its input; Error(bad_input) counts as a refusal.
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

namespace {

constexpr std::int64_t vocabulary = 300;  // has room for bytes

// The log would print the names of unread keys, and faults that are passed over, of every input.
void be_quiet() {
  static const bool is_quiet = (base::set_log(base::LogLevel::error, true), true);
  static_cast<void>(is_quiet);
}

// Reads every token of every document, and checks what the file says of itself: its numbers of tokens and labels, and
// where its documents are.
void read_documents(const data::DocumentFile& file, const data::FileCounts& counts) {
  base::expect(file.tokens_before(0) == 0, "{} tokens before the first document", file.tokens_before(0));
  std::int64_t labelled = 0, followers = 0;
  std::vector<std::int64_t> ids, targets;
  for (std::int64_t d = 0; d < file.documents(); ++d) {
    const auto begin = file.tokens_before(d), count = file.tokens_before(d + 1) - begin;
    base::expect(count >= 0, "document {} has {} tokens", d, count);
    if (count == 0) continue;
    base::expect(file.document_at(begin) == d && file.document_at(begin + count - 1) == d,
                 "the tokens of document {} are found elsewhere", d);
    ids.assign(static_cast<std::size_t>(count), -1);
    targets.assign(ids.size(), -1);
    file.read(d, 0, ids, targets);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool is_label = targets[i] != data::no_label;
      base::expect(ids[i] >= 0 && ids[i] < vocabulary, "document {} has id {}", d, ids[i]);
      base::expect(!is_label || (targets[i] >= 0 && targets[i] < vocabulary), "document {} has target {}", d,
                   targets[i]);
      labelled += is_label ? 1 : 0;
      followers += is_label && i > 0 ? 1 : 0;
    }
  }
  base::expect(labelled == counts.labelled && followers == counts.targets,
               "{} labels and {} targets are counted, {} and {} read", counts.labelled, counts.targets, labelled,
               followers);
}

}  // namespace

void read_jsonl(std::string_view bytes) {
  be_quiet();
  const MemoryFile file(bytes);
  for (const auto* const text_key : {"text", "meta.text"}) {
    data::MappedFiles mapped;
    data::FileCounts kept, all;
    const data::JsonlReader skips(text_key, vocabulary, config::OnBadLine::skip, mapped);
    const data::JsonlFile tolerant(file.path(), skips, kept);
    base::expect(tolerant.documents() == kept.read - kept.empty - kept.faulty, "{} documents of {} lines",
                 tolerant.documents(), kept.read);
    read_documents(tolerant, kept);
    const data::JsonlReader stops(text_key, vocabulary, config::OnBadLine::stop, mapped);
    const bool is_good = accepts([&] { read_documents(data::JsonlFile(file.path(), stops, all), all); });
    base::expect(is_good == (kept.faulty == 0), "{} faulty lines, but the file is {}", kept.faulty,
                 is_good ? "accepted" : "refused");
  }
}

void read_megatron(std::string_view bytes) {
  std::uint16_t bin_bytes = 0;
  if (bytes.size() < sizeof bin_bytes) return;
  std::memcpy(&bin_bytes, bytes.data(), sizeof bin_bytes);
  bytes.remove_prefix(sizeof bin_bytes);
  const auto index_bytes = bytes.size() - std::min<std::size_t>(bin_bytes, bytes.size());
  const TempFolder folder(TempFolder::in_memory());
  const auto index = folder.write("pair.idx", bytes.substr(0, index_bytes));
  folder.write("pair.bin", bytes.substr(index_bytes));
  static_cast<void>(accepts([&] {
    data::MappedFiles mapped;
    data::FileCounts counts;
    const data::MegatronFile file(index, vocabulary, mapped, counts);
    read_documents(file, counts);
  }));
}

}  // namespace tessera::test
