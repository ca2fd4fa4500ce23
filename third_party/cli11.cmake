# CLI11::CLI11, the command line. Debian: libcli11-dev (2.1).
find_package(CLI11 2.1 REQUIRED CONFIG)
