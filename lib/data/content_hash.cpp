#include "data/content_hash.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/readable_file.h"

namespace tessera::data {
namespace {

constexpr std::uint64_t part_bytes = std::uint64_t{16} << 20;  // the thread looks for a stop after each part
constexpr int lowest_priority = 19;

// Of a file that is gone, 0: the thread finds that out when it reads the file.
std::uint64_t bytes_of(const Corpus& corpus) {
  std::uint64_t bytes = 0;
  for (std::int64_t number = 0; number < corpus.files(); ++number) {
    std::error_code error;
    const auto size = std::filesystem::file_size(corpus.path_of(number), error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace

ContentHash::ContentHash(const Corpus& corpus, std::function<void()> before_part)
    : corpus_(corpus),
      before_part_(std::move(before_part)),
      began_(base::seconds_now()),
      thread_([this](const std::stop_token& stop) {
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority);  // may fail: no harm
        try {
          run(stop);
        } catch (const base::Error& error) {  // the top of a thread; training itself fails if it needs that file
          base::log_warning("{}: the data cannot be compared with those of later runs: {}", corpus_.setting(),
                            error.what());
        }
        is_ended_ = true;
        is_ended_.notify_all();
      }) {}

// This and wait_if_within register the wait as disk work, since other ranks wait for this one meanwhile. At other times
// none waits for the thread, so run() gives no signs of life.
ContentHash::~ContentHash() {
  const base::DiskWork work("reading", corpus_.setting());
  thread_.request_stop();
  thread_.join();
}

std::optional<std::uint64_t> ContentHash::value() const { return is_ended_ ? value_ : std::nullopt; }

void ContentHash::wait_if_within(double seconds) const {
  const double begin = base::seconds_now();
  auto read = bytes_read_.load();
  const auto left = static_cast<double>(bytes_.load()) - static_cast<double>(read);
  if (read == 0 || left * (begin - began_) > seconds * static_cast<double>(read)) return;
  base::DiskWork work("reading", corpus_.setting());
  while (!is_ended_ && base::seconds_now() - begin < seconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (read != bytes_read_) work.has_gone_on();
    read = bytes_read_;
  }
}

void ContentHash::run(const std::stop_token& stop) {
  base::Xxh3Stream hash;
  bytes_ = bytes_of(corpus_);
  for (std::int64_t number = 0; number < corpus_.files(); ++number) {
    const base::ReadableFile file(corpus_.path_of(number));
    for (std::uint64_t begin = 0; begin < file.size(); begin += part_bytes) {
      if (stop.stop_requested()) return;
      if (before_part_) before_part_();
      const auto end = std::min(begin + part_bytes, file.size());
      add_bytes(file, begin, end, hash);
      bytes_read_ += end - begin;
    }
  }
  value_ = hash.digest();
}

}  // namespace tessera::data
