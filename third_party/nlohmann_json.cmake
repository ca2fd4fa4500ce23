# nlohmann_json::nlohmann_json, JSON. Debian: nlohmann-json3-dev (3.11).
find_package(nlohmann_json 3.11 REQUIRED CONFIG)
