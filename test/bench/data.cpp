// The data pipeline: tokens per second of one core, time to the first batch of large files, speed of indexing JSONL.
//
//   bench_data FOLDER     the folder takes sparse files of 10 GB and a real one of 200 MB, which are removed again
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "data/batch.h"
#include "data/dataset.h"

namespace {

using namespace tessera;
namespace fs = std::filesystem;

constexpr std::int64_t large_bytes = 10'000'000'000, vocabulary = 8192, length = 512, batch = 8;

// A file that is removed when the object dies.
class File {
 public:
  explicit File(fs::path path) : path_(std::move(path)) { std::ofstream(path_, std::ios::binary); }
  ~File() { fs::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }
  void grow(std::int64_t bytes) const { fs::resize_file(path_, static_cast<std::uintmax_t>(bytes)); }

 private:
  fs::path path_;
};

data::DatasetOptions options_of(const fs::path& path) {
  data::DatasetOptions options;
  options.corpus.paths = {path.string()};
  if (path.extension() == ".txt") options.corpus.format = config::DataFormat::text;  // all zeros
  options.corpus.vocabulary = vocabulary;
  options.seq_len = length;
  return options;
}

std::int64_t make_batch(const data::Dataset& dataset, std::int64_t first) {
  std::vector<data::Window> windows;
  for (std::int64_t i = 0; i < batch; ++i) windows.push_back(dataset.window(0, (first + i) % dataset.windows(0)));
  return data::make_batch(windows).tokens();
}

template <class T>
void append(std::ofstream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

// One document of int32 zeros.
void write_index(const fs::path& path, std::int64_t tokens_of_sequence, std::int64_t sequences) {
  std::ofstream out(path, std::ios::binary);
  out.write("MMIDIDX\0\0", 9);
  append<std::uint64_t>(out, 1);
  append<std::uint8_t>(out, 4);
  append<std::uint64_t>(out, static_cast<std::uint64_t>(sequences));
  append<std::uint64_t>(out, static_cast<std::uint64_t>(sequences) + 1);
  for (std::int64_t s = 0; s < sequences; ++s) append(out, static_cast<std::int32_t>(tokens_of_sequence));
  for (std::int64_t s = 0; s < sequences; ++s) append(out, s * tokens_of_sequence * 4);
  for (std::int64_t s = 0; s <= sequences; ++s) append(out, s);
}

void row(const std::string& what, const std::string& value) { fmt::print("| {} | {} |\n", what, value); }

void bench_file(const std::string& what, const fs::path& path) {
  const double began = base::seconds_now();
  const data::Dataset dataset(options_of(path));
  (void)make_batch(dataset, 0);
  row(what + ", start to first batch", fmt::format("{:.1f} ms", 1e3 * (base::seconds_now() - began)));
  std::int64_t tokens = 0;
  const double start = base::seconds_now();
  while (base::seconds_now() - start < 2) tokens += make_batch(dataset, tokens / length);
  row(what + ", batches",
      fmt::format("{:.1f} million tokens/s", 1e-6 * static_cast<double>(tokens) / (base::seconds_now() - start)));
}

void bench_pair(const fs::path& folder) {
  const File bin(folder / "bench_data.bin"), idx(folder / "bench_data.idx");
  constexpr std::int64_t tokens_of_sequence = 2000;
  const auto sequences = large_bytes / (4 * tokens_of_sequence);
  bin.grow(sequences * tokens_of_sequence * 4);
  write_index(idx.path(), tokens_of_sequence, sequences);
  bench_file(fmt::format("pair of 10 GB ({} documents)", sequences), idx.path());
}

void bench_text(const fs::path& folder) {
  const File text(folder / "bench_data.txt");
  text.grow(large_bytes);
  bench_file("text of 10 GB", text.path());
}

void bench_jsonl(const fs::path& folder) {
  const File jsonl(folder / "bench_data.jsonl");
  constexpr std::int64_t bytes = 200'000'000;
  const std::string line = "{\"id\": 17, \"text\": \"" + [] {
    std::string text;
    while (text.size() < 2000) text += "A sentence with \\\"quotes\\\", a line end\\n and caf\\u00e9. ";
    return text;
  }() + "\", \"meta\": {\"source\": \"bench\"}}\n";
  {
    std::ofstream out(jsonl.path(), std::ios::binary);
    for (std::int64_t written = 0; written < bytes; written += static_cast<std::int64_t>(line.size())) out << line;
  }
  const double began = base::seconds_now();
  const data::Corpus corpus(options_of(jsonl.path()).corpus);
  const double seconds = base::seconds_now() - began;
  row("JSONL of 200 MB, one pass that indexes and verifies",
      fmt::format("{:.2f} GB/s", 1e-9 * static_cast<double>(fs::file_size(jsonl.path())) / seconds));
  bench_file("JSONL of 200 MB", jsonl.path());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !fs::is_directory(argv[1])) {
    fmt::print(stderr, "usage: bench_data FOLDER\n");
    return 2;
  }
  base::set_log(base::LogLevel::warning, /*speaks=*/true);
  fmt::print("| data pipeline, one core | |\n| --- | --- |\n");
  bench_pair(argv[1]);
  bench_text(argv[1]);
  bench_jsonl(argv[1]);
  return 0;
}
