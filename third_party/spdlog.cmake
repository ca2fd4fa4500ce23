# spdlog::spdlog, the log, as compiled library (its target defines SPDLOG_COMPILED_LIB and SPDLOG_FMT_EXTERNAL, so that
# it formats with the fmt of fmt.cmake). Debian: libspdlog-dev (1.10).
find_package(spdlog 1.10 REQUIRED CONFIG)
