// What was done against the rules of CUDA or NCCL.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

// Faults so far that nobody expected. Any thread. Each is printed to standard error when it is found; if there is one
// when the process exits, it exits with `fault_exit_code`.
[[nodiscard]] std::vector<std::string> faults();
constexpr int fault_exit_code = 86;

// While one lives, faults are kept for it: not printed, and no failure of the process. One at a time.
class ExpectFaults {
 public:
  ExpectFaults();
  ~ExpectFaults();
  ExpectFaults(const ExpectFaults&) = delete;
  ExpectFaults& operator=(const ExpectFaults&) = delete;
  // So far, in the order in which they were found.
  [[nodiscard]] std::vector<std::string> found() const;
};

namespace cuda_double {

// Any thread.
void report_fault(std::string fault);
[[nodiscard]] std::string last_fault();  // "" if there was none
// How this process is called in a fault: "rank 2: "; before the first communicator "".
void name_process(std::string name);
// Flushes the streams and ends the process if there were faults that nobody expected. At exit.
void end_if_faulty();

}  // namespace cuda_double
}  // namespace tessera::test
