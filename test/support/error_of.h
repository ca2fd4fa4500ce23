// Catches the Error that a call throws, so that a test can check its wording.
#pragma once

#include "base/error.h"

#include <string>

namespace tessera::test {

// Returns the message of the base::Error with this code that `call` throws; "no error" if it throws none. Passes other
// exceptions on.
template <class Call>
std::string error_of(Call&& call, base::ExitCode code = base::ExitCode::bad_input) {
  try {
    call();
  } catch (const base::Error& error) {
    if (error.code() != code) throw;
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::test
