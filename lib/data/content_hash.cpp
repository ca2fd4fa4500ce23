#include "data/content_hash.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/readable_file.h"

namespace tessera::data {
namespace {

constexpr std::uint64_t part_bytes = std::uint64_t{16} << 20;  // the thread looks for a stop after each part
constexpr int lowest_priority = 19;

}  // namespace

ContentHash::ContentHash(const Corpus& corpus)
    : corpus_(corpus), thread_([this](const std::stop_token& stop) {
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

// Registers the wait as disk work, since other ranks wait for this one meanwhile. Until then none waits for the thread,
// so run() gives no signs of life.
ContentHash::~ContentHash() {
  const base::DiskWork work("reading", corpus_.setting());
  thread_.request_stop();
  thread_.join();
}

std::optional<std::uint64_t> ContentHash::value() const { return is_ended_ ? value_ : std::nullopt; }

void ContentHash::run(const std::stop_token& stop) {
  base::Xxh3Stream hash;
  for (std::int64_t number = 0; number < corpus_.files(); ++number) {
    const base::ReadableFile file(corpus_.path_of(number));
    for (std::uint64_t begin = 0; begin < file.size(); begin += part_bytes) {
      if (stop.stop_requested()) return;
      add_bytes(file, begin, std::min(begin + part_bytes, file.size()), hash);
    }
  }
  value_ = hash.digest();
}

}  // namespace tessera::data
