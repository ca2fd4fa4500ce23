# fmt::fmt, string formatting. Debian: libfmt-dev (9.1).
find_package(fmt 9 REQUIRED CONFIG)
