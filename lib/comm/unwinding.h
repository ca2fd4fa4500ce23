// Tells a destructor whether an exception is propagating: it must then skip the calls that other ranks would have to
// join.
#pragma once

#include <exception>

namespace tessera::comm {

// A member for classes whose destructor communicates with other ranks.
class Unwinding {
 public:
  // Returns whether an exception thrown since this object was made is propagating.
  [[nodiscard]] bool is_under_way() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace tessera::comm
