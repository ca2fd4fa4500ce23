// Faults: violations of the rules of CUDA or NCCL.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

// Returns the unexpected faults so far; for any thread. Each is printed to standard error when it is found; if there is
// one when the process exits, it exits with `fault_exit_code`.
[[nodiscard]] std::vector<std::string> faults();
constexpr int fault_exit_code = 86;

// Collects the faults found while it lives; these are not printed and do not fail the process. One object at a time.
class ExpectFaults {
 public:
  ExpectFaults();
  ~ExpectFaults();
  ExpectFaults(const ExpectFaults&) = delete;
  ExpectFaults& operator=(const ExpectFaults&) = delete;
  // Returns the faults so far, in the order in which they were found.
  [[nodiscard]] std::vector<std::string> found() const;
};

namespace cuda_double {

// For any thread.
void report_fault(std::string fault);
[[nodiscard]] std::string last_fault();  // "" if there was none
// Sets the prefix of faults of this process: "rank 2: "; before the first communicator it is "".
void name_process(std::string name);
// Flushes the streams and ends the process if there were unexpected faults. Runs at exit.
void end_if_faulty();

}  // namespace cuda_double
}  // namespace tessera::test
