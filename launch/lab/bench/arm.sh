#!/usr/bin/env bash
# The same bits on ARM: `hpcml check --bits` under an emulator of that processor, with Debian's Python and the packages' aarch64 wheels, in
# the versions that this Python has. FOLDER gets all of it (1.2 GB); nothing is installed outside. Needs Debian's apt, and mpirun of MPICH.
# usage: [RANKS="1 2"] [QEMU_CPU=…] [NUMBA_CPU_NAME=…] ./launch/lab/bench/arm.sh FOLDER [METHOD ...]
#   QEMU_CPU: the processor that is emulated (by default one that has everything; cortex-a72 has no SVE); NUMBA_CPU_NAME: the one for
#   which kernels are compiled (by default any ARMv8; neoverse-v1 for SVE). The first run compiles all kernels, under the emulator: 20 min.
set -euo pipefail
folder=$(realpath -m -- "${1:?usage: [RANKS=\"1 2\"] ./launch/lab/bench/arm.sh FOLDER [METHOD ...]}")
methods=("${@:2}")
repository=$(realpath -- "$(dirname "$0")/../../..")

unpack() {  # unpack INTO ARCHITECTURE apt-get-arguments...: packages of an architecture with what they need, not installed
  local into=$1 state=$folder/apt/$2
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$into"
  : >"$state/status"
  printf '%s\n' "APT::Architecture \"$2\"; APT::Architectures { \"$2\"; };" \
    "Dir::State \"$state\"; Dir::State::status \"$state/status\"; Dir::Cache \"$state/cache\"; APT::Sandbox::User \"root\";" >"$state.conf"
  APT_CONFIG=$state.conf apt-get -qq update
  APT_CONFIG=$state.conf apt-get -qq -y -d --no-install-recommends install "${@:3}" >"$state.log"
  for package in "$state"/cache/archives/*.deb; do dpkg -x "$package" "$into"; done
}

set_up() {  # an environment of Python in $folder/arm whose interpreter is the emulator with Python; the MPI launcher is this machine's
  local requirements='import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; more = p["optional-dependencies"]
print(*p["dependencies"], *(each for extra in ("mpi", "sklearn", "svmperf") for each in more.get(extra, ())), sep="\n")'
  unpack "$folder/emulator" "$(dpkg --print-architecture)" qemu-user-static
  unpack "$folder/root" arm64 python3 libstdc++6 libgfortran5 libatomic1
  local python
  python=$folder/root/usr/bin/$(readlink "$folder/root/usr/bin/python3")
  mkdir -p "$folder/arm/bin"
  printf 'home = %s\ninclude-system-site-packages = false\n' "$folder/root/usr/bin" >"$folder/arm/pyvenv.cfg"
  printf '#!/bin/sh\nexec %s -L %s -0 %s %s "$@"\n' "$folder/emulator/usr/bin/qemu-aarch64-static" "$folder/root" \
    "$folder/arm/bin/python" "$python" >"$folder/arm/bin/python"
  chmod +x "$folder/arm/bin/python"
  python -m pip freeze --exclude-editable | grep -v ' @ ' >"$folder/versions.txt"
  (cd "$repository" && python -c "$requirements") >"$folder/requirements.txt"
  python -m pip --python "$folder/arm/bin/python" install -q --only-binary=:all: -r "$folder/requirements.txt" -c "$folder/versions.txt"
  touch "$folder/ready"
}

[[ -e $folder/ready ]] || set_up
export PYTHONPATH=$repository PYTHONPYCACHEPREFIX=$folder/pycache NUMBA_CACHE_DIR=$folder/kernels OMP_NUM_THREADS=1
export MPIR_CVAR_ENABLE_HEAVY_YIELD=1 MPIR_CVAR_CH4_CMA_ENABLE=0  # the emulator has no process_vm_readv, which copies long messages
mkdir -p -m 700 "$folder/kernels"
code=0
for ranks in ${RANKS:-1 2}; do
  printf '== %s rank(s)\n' "$ranks"
  time timeout "${LIMIT:-7200}" mpirun -n "$ranks" "$folder/arm/bin/python" -m hpcml check "$folder/tried" --bits \
    --json "$folder/bits-$ranks.json" --force ${methods:+--methods "${methods[@]}"} </dev/null || code=$?
  rm -rf "$folder/tried"
done
exit "$code"
