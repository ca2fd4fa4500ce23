#include "support/faulty_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace tessera::test {
namespace {

base::FileSystem& real() { return base::posix_file_system(); }

const char* words_of(FileCall call) {
  switch (call) {
    case FileCall::create: return "create";
    case FileCall::rename: return "rename";
    case FileCall::exchange: return "exchange";
    case FileCall::remove: return "remove";
    case FileCall::make_folder: return "make folder";
    case FileCall::sync_folder: return "sync folder";
    default: return "write";
  }
}

// The calls that a full disk refuses.
bool needs_room(FileCall call) {
  return call == FileCall::create || call == FileCall::open_for_append || call == FileCall::write ||
         call == FileCall::sync || call == FileCall::make_folder;
}

}  // namespace

void fail_like_the_disk(FileCall call, const base::Path& path, int error) {
  base::fail("cannot {} {}: {}", words_of(call), path.string(), std::strerror(error));
}

class FaultyFiles::File final : public base::WritableFile {
 public:
  File(FaultyFiles& files, base::Path path, std::unique_ptr<base::WritableFile> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override {
    file_->write(bytes.first(bytes.size() / 2));
    files_.call(FileCall::write, path_);
    file_->write(bytes.subspan(bytes.size() / 2));
  }
  void sync() override { files_.call(FileCall::sync, path_); }
  void close() override {
    files_.call(FileCall::close, path_);
    file_->close();
  }

 private:
  FaultyFiles& files_;
  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
};

void FaultyFiles::call(FileCall call, const base::Path& path) {
  const std::lock_guard lock(mutex_);
  hook_(call, path);
}

std::unique_ptr<base::WritableFile> FaultyFiles::create(const base::Path& path) {
  call(FileCall::create, path);
  return std::make_unique<File>(*this, path, real().create(path));
}

std::unique_ptr<base::WritableFile> FaultyFiles::open_for_append(const base::Path& path) {
  call(FileCall::open_for_append, path);
  return std::make_unique<File>(*this, path, real().open_for_append(path));
}

void FaultyFiles::rename(const base::Path& from, const base::Path& to) {
  call(FileCall::rename, from);
  real().rename(from, to);
}

void FaultyFiles::exchange(const base::Path& a, const base::Path& b) {
  call(FileCall::exchange, a);
  real().exchange(a, b);
}

void FaultyFiles::remove(const base::Path& path) {
  call(FileCall::remove, path);
  real().remove(path);
}

void FaultyFiles::make_folder(const base::Path& path) {
  call(FileCall::make_folder, path);
  real().make_folder(path);
}

void FaultyFiles::sync_folder(const base::Path& path) { call(FileCall::sync_folder, path); }

void FailingCall::arm(std::int64_t nth, int error, Lasts lasts) {
  left_ = nth;
  failed_ = 0;
  error_ = error;
  lasts_ = lasts;
}

void FailingCall::repair() { left_ = -1; }

void FailingCall::operator()(FileCall call, const base::Path& path) {
  if (left_ < 0) return;
  if (left_ > 0) {
    --left_;
    return;
  }
  if (failed_ > 0 && (lasts_ == Lasts::once || !needs_room(call))) return;
  ++failed_;
  fail_like_the_disk(call, path, error_);
}

namespace {

// A file or a folder on the recorded disk.
struct Node {
  using Names = std::map<std::string, Node*>;
  bool is_folder = false;
  std::string synced, later;   // of a file
  Names durable, names;        // of a folder
  std::vector<Names> changes;  // each state of `names` since the last sync
};

class Disk {
 public:
  Disk() : root_(&nodes_.emplace_back(Node{.is_folder = true})) {}

  void create(const base::Path& path, bool truncates) {
    auto* folder = find(path.parent_path());
    auto& node = folder->names[path.filename()];
    if (node == nullptr) {
      node = &nodes_.emplace_back();
      note(folder);
    } else if (truncates) {
      node->synced.clear();
      node->later.clear();
    }
    opened_.push_back(node);
  }
  void write(std::size_t file, const std::string& bytes) { opened_.at(file)->later += bytes; }
  void sync(std::size_t file) {
    auto* node = opened_.at(file);
    node->synced += std::exchange(node->later, {});
  }
  void rename(const base::Path& from, const base::Path& to) {
    auto *source = find(from.parent_path()), *target = find(to.parent_path());
    target->names[to.filename()] = source->names.at(from.filename());
    source->names.erase(from.filename());
    note(source);
    if (target != source) note(target);
  }
  void exchange(const base::Path& a, const base::Path& b) {
    auto *folder_a = find(a.parent_path()), *folder_b = find(b.parent_path());
    std::swap(folder_a->names.at(a.filename()), folder_b->names.at(b.filename()));
    note(folder_a);
    if (folder_b != folder_a) note(folder_b);
  }
  void remove(const base::Path& path) {
    auto* folder = find(path.parent_path());
    const auto found = folder->names.find(path.filename());
    if (found == folder->names.end()) return;
    empty(found->second);
    folder->names.erase(found);
    note(folder);
  }
  void make_folder(const base::Path& path) {
    auto* folder = root_;
    for (const auto& name : path) {
      if (name == ".") continue;
      auto& node = folder->names[name];
      if (node == nullptr) {
        node = &nodes_.emplace_back(Node{.is_folder = true});
        note(folder);
      }
      folder = node;
    }
  }
  void sync_folder(const base::Path& path) {
    auto* folder = find(path);
    folder->durable = folder->names;
    folder->changes.clear();
  }

  void write_after_cut(const base::Path& target, const RecordedFiles::Chosen& chosen) const {
    write_after_cut(*root_, target, chosen);
  }

 private:
  [[nodiscard]] Node* find(const base::Path& path) {
    auto* node = root_;
    for (const auto& name : path)
      if (name != ".") node = node->names.at(name);
    return node;
  }
  static void note(Node* folder) { folder->changes.push_back(folder->names); }
  static void empty(Node* node) {
    while (!node->names.empty()) {
      const auto last = std::prev(node->names.end());  // a manifest after the shards: its folder looks whole for longer
      empty(last->second);
      node->names.erase(last);
      note(node);
    }
  }
  static void write_after_cut(const Node& node, const base::Path& target, const RecordedFiles::Chosen& chosen) {
    if (!node.is_folder) {
      std::ofstream out(target, std::ios::binary);
      out << node.synced << node.later.substr(0, chosen(node.later.size()));
      if (!out.flush()) throw std::runtime_error("cannot write " + target.string());
      return;
    }
    std::filesystem::create_directory(target);
    const auto reached = chosen(node.changes.size());
    for (const auto& [name, child] : reached == 0 ? node.durable : node.changes[reached - 1])
      write_after_cut(*child, target / name, chosen);
  }

  std::deque<Node> nodes_;
  Node* root_;
  std::vector<Node*> opened_;
};

}  // namespace

class RecordedFiles::File final : public base::WritableFile {
 public:
  File(RecordedFiles& files, std::size_t number, std::unique_ptr<base::WritableFile> file)
      : files_(files), number_(number), file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override {
    file_->write(bytes);
    files_.record({.call = FileCall::write,
                   .path = {},
                   .other = {},
                   .bytes{reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                   .file = number_});
  }
  void sync() override {
    files_.record({.call = FileCall::sync, .path = {}, .other = {}, .bytes = {}, .file = number_});
  }
  void close() override { file_->close(); }

 private:
  RecordedFiles& files_;
  std::size_t number_;
  std::unique_ptr<base::WritableFile> file_;
};

RecordedFiles::RecordedFiles(base::Path root, std::optional<FileCall> unheard)
    : root_(std::move(root)), unheard_(unheard) {
  base::expect(std::filesystem::is_empty(root_), "{} is not empty", root_.string());
}

void RecordedFiles::record(Change change) {
  if (change.call == unheard_) return;
  const std::lock_guard lock(mutex_);
  changes_.push_back(std::move(change));
}

base::Path RecordedFiles::within(const base::Path& path) const {
  auto relative = path.lexically_normal().lexically_relative(root_.lexically_normal());
  base::expect(!relative.empty() && *relative.begin() != "..", "{} is outside {}", path.string(), root_.string());
  return relative.has_filename() ? relative : relative.parent_path();
}

std::unique_ptr<base::WritableFile> RecordedFiles::open(FileCall call, const base::Path& path,
                                                        std::unique_ptr<base::WritableFile> file) {
  const std::lock_guard lock(mutex_);
  changes_.push_back({.call = call, .path = within(path), .other = {}, .bytes = {}, .file = opened_});
  return std::make_unique<File>(*this, opened_++, std::move(file));
}

std::unique_ptr<base::WritableFile> RecordedFiles::create(const base::Path& path) {
  return open(FileCall::create, path, real().create(path));
}

std::unique_ptr<base::WritableFile> RecordedFiles::open_for_append(const base::Path& path) {
  return open(FileCall::open_for_append, path, real().open_for_append(path));
}

void RecordedFiles::rename(const base::Path& from, const base::Path& to) {
  real().rename(from, to);
  record({.call = FileCall::rename, .path = within(from), .other = within(to), .bytes = {}});
}

void RecordedFiles::exchange(const base::Path& a, const base::Path& b) {
  real().exchange(a, b);
  record({.call = FileCall::exchange, .path = within(a), .other = within(b), .bytes = {}});
}

void RecordedFiles::remove(const base::Path& path) {
  real().remove(path);
  record({.call = FileCall::remove, .path = within(path), .other = {}, .bytes = {}});
}

void RecordedFiles::make_folder(const base::Path& path) {
  real().make_folder(path);
  record({.call = FileCall::make_folder, .path = within(path), .other = {}, .bytes = {}});
}

void RecordedFiles::sync_folder(const base::Path& path) {
  record({.call = FileCall::sync_folder, .path = within(path), .other = {}, .bytes = {}});
}

std::size_t RecordedFiles::size() const {
  const std::lock_guard lock(mutex_);
  return changes_.size();
}

RecordedFiles::Chosen RecordedFiles::choice(std::uint64_t number) {
  if (number == 0) return [](std::size_t) { return std::size_t{0}; };
  if (number == 1) return [](std::size_t most) { return most; };
  return [engine = std::make_shared<std::mt19937_64>(number)](std::size_t most) {
    switch ((*engine)() % 3) {
      case 0: return std::size_t{0};
      case 1: return most;
      default: return static_cast<std::size_t>((*engine)() % (most + 1));
    }
  };
}

void RecordedFiles::build_after_cut(std::size_t changes, const base::Path& target, const Chosen& chosen) const {
  const std::lock_guard lock(mutex_);
  Disk disk;
  for (std::size_t k = 0; k < changes; ++k) {
    const auto& change = changes_.at(k);
    switch (change.call) {
      case FileCall::create:
      case FileCall::open_for_append: disk.create(change.path, change.call == FileCall::create); break;
      case FileCall::write: disk.write(change.file, change.bytes); break;
      case FileCall::sync: disk.sync(change.file); break;
      case FileCall::rename: disk.rename(change.path, change.other); break;
      case FileCall::exchange: disk.exchange(change.path, change.other); break;
      case FileCall::remove: disk.remove(change.path); break;
      case FileCall::make_folder: disk.make_folder(change.path); break;
      case FileCall::sync_folder: disk.sync_folder(change.path); break;
      case FileCall::close: break;
    }
  }
  disk.write_after_cut(target, chosen);
}

}  // namespace tessera::test
