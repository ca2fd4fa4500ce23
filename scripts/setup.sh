#!/usr/bin/env bash
# Installs what Tessera needs to build and run on Debian 12: Debian packages (as root or with sudo) and, in .deps/, LibTorch
# and a small Python for the plots. Repeated calls keep what is installed and redo an interrupted install; calls at the
# same time wait for each other.
#   scripts/setup.sh [--cuda] [--slurm] [--fuzz]
#     --cuda       also install the libraries that LibTorch needs for NVIDIA GPUs besides CUDA 13 itself; this is the
#                  default if CUDA 13's nvcc is found
#     --slurm      also install Slurm, for scripts/slurm/try_locally.sh; leaves its daemons stopped
#     --fuzz       also install clang with libFuzzer, for scripts/fuzz.sh
# TESSERA_TORCH_DIR may name another LibTorch to use; then none is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build ccache mold git ca-certificates libgomp1 libopenmpi-dev openmpi-bin libcli11-dev
          nlohmann-json3-dev libspdlog-dev libfmt-dev catch2 libxxhash-dev python3 python3-venv)
slurm_packages=(munge slurm-client slurmctld slurmd)
fuzz_packages=(clang-16 libclang-rt-16-dev)

fail() { printf 'setup: %s\n' "$*" >&2; exit 2; }

# Runs its arguments without showing their output; if they fail, shows the end of it.
quietly() {
  local log; log=$(mktemp)
  if "$@" >"$log" 2>&1; then rm -f "$log"; return 0; fi
  tail -n 15 "$log" >&2; rm -f "$log"; return 1
}

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${Status}\n' "${packages[@]}" 2>/dev/null | sed -n 's/ install ok installed$//p') || true
  printf '%s\n' "${packages[@]}" | grep -vxF -e "${installed:-none}" || true
}

install_packages() {
  local missing; mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; } ||
      fail "these Debian packages are missing: ${missing[*]}
You are neither root nor able to use sudo. Ask an administrator to run:
  apt-get update && apt-get install -y ${missing[*]}"
    as_root=(sudo)
  fi
  echo "setup: installing Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
  quietly "${apt[@]}" update || fail "'apt-get update' failed (see above); is there a network? Missing: ${missing[*]}"
  quietly "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    fail "'apt-get install' failed (see above). Missing: ${missing[*]}"
  stop_services "${missing[@]}"
}

# Stops the services of packages and disables them: Debian starts them at once and at each boot, which a Slurm for tests
# should not do.
stop_services() {
  local package
  for package in "$@"; do
    [ -e "/etc/init.d/$package" ] || continue
    quietly "${as_root[@]}" service "$package" stop || true
    quietly "${as_root[@]}" update-rc.d "$package" disable || true
  done
}

# The stamp holds the list of installed packages, so that a changed list or an interrupted install is redone.
install_python() {
  local stamp=.deps/python/installed requirements=(scripts/requirements.txt third_party/libtorch.txt) installed='' file
  [ ! -e "$stamp" ] || installed=$(cat "$stamp")
  [ "$installed" != "$(cat "${requirements[@]}")" ] || return 0
  if [ -n "${TESSERA_TORCH_DIR:-}" ]; then
    requirements=(scripts/requirements.txt)
    [ "$installed" != "$(cat "${requirements[@]}")" ] || return 0
    echo "setup: installing Python packages for the plots into .deps/"
  else
    echo "setup: installing LibTorch and Python packages for the plots into .deps/ (580 MB to fetch)"
  fi
  rm -rf .deps/python
  quietly python3 -m venv .deps/python || fail "'python3 -m venv .deps/python' failed (see above)"
  for file in "${requirements[@]}"; do
    quietly .deps/python/bin/python -m pip install --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
        -r "$file" || fail "'pip install -r $file' failed (see above); is there a network?"
  done
  cat "${requirements[@]}" >"$stamp"
}

# Prints the path of CUDA 13's compiler, searching as third_party/cuda.cmake does.
find_nvcc() {
  if [ -n "${CUDACXX:-}" ]; then command -v "$CUDACXX"; return; fi
  command -v nvcc || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"
}

# Prints the wheels of the list whose library is neither beside nvcc nor known to the linker.
missing_cuda_wheels() {
  local toolkit='' known wheel library
  ! toolkit=$(find_nvcc) || toolkit=$(realpath "$toolkit")
  toolkit=${toolkit%/bin/*}
  known=$(PATH=$PATH:/sbin ldconfig -p)
  while read -r wheel _ library; do
    [[ $wheel == *==* ]] || continue
    [[ $known == *"$library"* ]] || [ -e "$toolkit/lib64/$library" ] || [ -e "$toolkit/lib/$library" ] || echo "$wheel"
  done <third_party/libtorch_cuda.txt
}

# Installs the wheels beside LibTorch, with a stamp of their own, so that LibTorch stays as it is.
install_cuda_wheels() {
  local stamp=.deps/python/installed_cuda wheels; mapfile -t wheels < <(missing_cuda_wheels)
  [ ! -e $stamp ] || [ "$(cat $stamp)" != "${wheels[*]}" ] || return 0
  if [ ${#wheels[@]} -gt 0 ]; then
    echo "setup: installing what LibTorch needs for GPUs into .deps/: ${wheels[*]}"
    quietly .deps/python/bin/python -m pip install --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
        "${wheels[@]}" || fail "'pip install ${wheels[*]}' failed (see above); is there a network?"
  fi
  echo "${wheels[*]}" >$stamp
}

cuda=auto
for argument in "$@"; do
  case $argument in
    --cuda) cuda=on ;;
    --slurm) packages+=("${slurm_packages[@]}") ;;
    --fuzz) packages+=("${fuzz_packages[@]}") ;;
    -h|--help) sed -n '2,10s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$argument'; it takes --cuda, --slurm and --fuzz" ;;
  esac
done
if [ -n "${TESSERA_TORCH_DIR:-}" ] && [ ! -e "$TESSERA_TORCH_DIR/lib/libtorch_cpu.so" ]; then
  fail "TESSERA_TORCH_DIR=$TESSERA_TORCH_DIR has no lib/libtorch_cpu.so; name an unpacked libtorch or site-packages/torch"
fi
command -v dpkg-query >/dev/null || fail "no dpkg-query: this script installs on Debian 12; elsewhere install: ${packages[*]}"
mkdir -p .deps
exec 9>.deps/lock
flock 9
install_packages
install_python
# A LibTorch that the user provides comes with its own CUDA libraries.
if [ -z "${TESSERA_TORCH_DIR:-}" ]; then
  if [ $cuda = auto ] && nvcc=$(find_nvcc) && [[ $("$nvcc" --version 2>&1) == *'release 13.'* ]]; then cuda=on; fi
  [ $cuda = auto ] || install_cuda_wheels
fi
