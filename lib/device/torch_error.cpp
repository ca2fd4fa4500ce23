#include "device/torch_error.h"

#include <c10/util/Exception.h>

namespace tessera::device {

std::optional<std::string> torch_message(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& torch_error) {
    return torch_error.what_without_backtrace();
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace tessera::device
