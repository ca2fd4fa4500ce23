// Whether an exception passes: what other ranks would have to join in must then be left alone.
#pragma once

#include <exception>

namespace tessera::comm {

// A member of what ends with the help of other ranks, for its destructor.
class Unwinding {
 public:
  // Whether an exception that was not there when this was made is on its way now.
  [[nodiscard]] bool is_under_way() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace tessera::comm
