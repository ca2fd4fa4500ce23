#include "support/cuda_double/faults.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace tessera::test {

namespace {

struct Faults {
  std::mutex mutex;
  bool expected = false;
  std::vector<std::string> unexpected, kept;
  std::string process, last;
};

Faults& all() {
  static Faults faults;
  return faults;
}

}  // namespace

std::vector<std::string> faults() {
  const std::lock_guard lock(all().mutex);
  return all().unexpected;
}

ExpectFaults::ExpectFaults() {
  const std::lock_guard lock(all().mutex);
  all().expected = true;
  all().kept.clear();
}

ExpectFaults::~ExpectFaults() {
  const std::lock_guard lock(all().mutex);
  all().expected = false;
}

std::vector<std::string> ExpectFaults::found() const {
  const std::lock_guard lock(all().mutex);
  return all().kept;
}

namespace cuda_double {

void report_fault(std::string fault) {
  const std::lock_guard lock(all().mutex);
  all().last = fault;
  if (all().expected) {
    all().kept.push_back(std::move(fault));
    return;
  }
  std::fprintf(stderr, "CUDA double: %sfault: %s\n", all().process.c_str(), fault.c_str());
  all().unexpected.push_back(std::move(fault));
}

std::string last_fault() {
  const std::lock_guard lock(all().mutex);
  return all().last;
}

void name_process(std::string name) {
  const std::lock_guard lock(all().mutex);
  all().process = std::move(name);
}

void end_if_faulty() {
  const auto found = faults().size();
  if (found == 0) return;
  std::fprintf(stderr, "CUDA double: %zu faults; exit code %d\n", found, fault_exit_code);
  std::fflush(nullptr);
  _exit(fault_exit_code);
}

}  // namespace cuda_double
}  // namespace tessera::test
