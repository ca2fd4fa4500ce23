#include "fsdp/torch_failure.h"

#include <c10/util/Exception.h>

namespace tessera::fsdp {

comm::Failure describe_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& torch_error) {
    return {base::ExitCode::rank_failed, torch_error.what_without_backtrace()};
  } catch (...) {
    return comm::describe_failure(error);
  }
}

}  // namespace tessera::fsdp
