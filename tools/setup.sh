#!/usr/bin/env bash
# Brings a Debian/Ubuntu machine to the point where everything in this repository runs: system packages, .venv with
# PyTorch and an OpenCL runtime, the build. Every step first looks whether it is done; a second run takes a second.
#
#   tools/setup.sh              the Python packages torch_ocl and clprim
#   tools/setup.sh all          C++ tests, examples and the command as well; any other CMake target likewise
#   tools/setup.sh packages [NAME...]   system packages alone, these too
#
#   PYTHON=/path/to/python3   interpreter for .venv (default: python3)
#   CLPRIM_JOBS=2             parallel compile jobs (default: as many as there are cores and 1.2 GiB of memory)
#   CXX=g++                   C++ compiler (default: the newest clang that works, else g++)
#   CLPRIM_NO_APT=1           never touch system packages
#   CLPRIM_PYTORCH_INDEX=URL  where PyTorch without CUDA is looked for first; empty: PyPI's build with CUDA
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
fail() { printf '\nsetup: %s\n' "$@" >&2; exit 1; }

# ---- system packages -------------------------------------------------------------------------------------------------

more_packages=()
wanted_packages() {
    [ ${#more_packages[@]} = 0 ] || printf '%s\n' "${more_packages[@]}"
    grep -v -e '^#' -e '^$' tools/apt_packages.txt
    printf '%s\n' $(python_packages "$(find_python)")
}

# The Python that .venv is made with: the first that is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# What a Python lacks for a virtual environment and for compiling extensions, as Debian packages.
python_packages() {
    if [ -z "$1" ]; then
        echo python3 python3-venv python3-dev
    elif [ "$("$1" -c 'import sys; print(sys.base_prefix)')" = /usr ]; then
        echo python3-venv python3-dev
    fi
}

# Prints the wanted packages that are not installed, each with "required" or "optional".
missing_packages() {
    local wanted name kind rest have
    wanted=$(wanted_packages)
    have=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $(cut -d' ' -f1 <<<"$wanted") 2>/dev/null || true)
    while read -r name kind rest; do
        grep -qxF "$name installed" <<<"$have" || echo "$name ${kind:-required}"
    done <<<"$wanted"
}

install_packages() {
    local missing required=() names=() name kind
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    while read -r name kind; do
        names+=("$name")
        [ "$kind" = optional ] || required+=("$name")
    done <<<"$missing"

    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo)
        if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && [ ! -t 0 ]; }; then
            [ ${#required[@]} -gt 0 ] || { say "without optional packages: ${names[*]}"; return 0; }
            fail "these system packages are missing, and installing them needs root or sudo. Ask an administrator for" \
                 "  apt-get install --no-install-recommends ${names[*]}"
        fi
    fi
    say "installing system packages: ${names[*]}"
    "${as_root[@]}" apt-get update -qq || say "apt-get update failed; going on with the lists at hand"
    local available=()
    for name in "${names[@]}"; do
        if [ -n "$(apt-cache show --no-all-versions "$name" 2>/dev/null)" ]; then
            available+=("$name")
        elif [[ " ${required[*]-} " == *" $name "* ]]; then
            fail "this distribution has no package $name; see docs/building.md for building without it"
        else
            say "no package $name here: going on without it"
        fi
    done
    [ ${#available[@]} -gt 0 ] || return 0
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${available[@]}" \
        >/dev/null || fail "apt-get could not install: ${available[*]}"
}

# ---- Python ----------------------------------------------------------------------------------------------------------

# run_once NAME HASH COMMAND...: runs the command unless it succeeded before with the same hash.
run_once() {
    local stamp=".venv/.clprim-$1" hash=$2
    shift 2
    [ "$(cat "$stamp" 2>/dev/null)" = "$hash" ] && return 0
    "$@"
    echo "$hash" >"$stamp"
}

make_venv() {
    local python
    [ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null && return 0
    python=$(find_python)
    [ -n "$python" ] || fail "no Python 3.10 to 3.14 found; install python3 and python3-venv, or set PYTHON"
    say "creating .venv with $("$python" --version)"
    rm -rf .venv
    local folder=.venv
    # Intel's runtime does not start from a folder with a space in its path: then .venv is a link to one without.
    [[ $PWD != *[[:space:]]* ]] ||
        folder=${XDG_CACHE_HOME:-$HOME/.cache}/clprim/venv-$(sha256sum <<<"$PWD" | cut -c1-12)
    "$python" -m venv --clear "$folder" ||
        fail "$python could not create .venv; on Debian and Ubuntu: apt-get install python3-venv"
    [ "$folder" = .venv ] || ln -s "$folder" .venv
}

pip_install=(.venv/bin/python -m pip install -qq --disable-pip-version-check)

install_list() {
    say "installing Python packages into .venv"
    "${pip_install[@]}" -r tools/requirements.txt || fail "pip could not install the packages of tools/requirements.txt"
}
install_python_packages() { run_once packages "$(sha256sum <tools/requirements.txt)" install_list; }

# PyTorch's own index has builds without CUDA, which pip prefers because of their "+cpu": a fifth of the size, and all
# that this device needs. Where it is not to be had, PyPI's build serves.
pytorch_index=${CLPRIM_PYTORCH_INDEX-https://download.pytorch.org/whl/cpu}
pytorch_index_answers() {
    [ -n "$pytorch_index" ] && .venv/bin/python -c 'import sys, urllib.request
urllib.request.urlopen(sys.argv[1] + "/torch/", timeout=5)' "$pytorch_index" 2>/dev/null
}

has_pytorch() {
    .venv/bin/python -c 'from importlib.util import find_spec as find
raise SystemExit(not (find("torch") and find("torchvision")))'
}

# PyTorch and all other packages in the background, where pip mostly waits or unpacks, once what the library's build
# reads is there.
pip_process=
start_pip() {
    local from=() size="5 GB"
    if pytorch_index_answers; then
        from=(--extra-index-url "$pytorch_index") size="1 GB"
    fi
    say "installing PyTorch (about $size on disk) and Python packages into .venv, while the library is built"
    "${pip_install[@]}" onnx || fail "pip could not install the package onnx; is PyPI reachable?"
    "${pip_install[@]}" ${from[@]+"${from[@]}"} -r tools/requirements-torch.txt -r tools/requirements.txt &
    pip_process=$!
    trap 'kill "$pip_process" 2>/dev/null || true' EXIT
}
finish_pip() {
    wait "$pip_process" ||
        fail "pip could not install PyTorch and the packages of tools/requirements.txt; is PyPI reachable?" \
            "(CLPRIM_PYTORCH_INDEX= asks PyPI alone)"
    trap - EXIT
    run_once packages "$(sha256sum <tools/requirements.txt)" true
}

# ---- Build -----------------------------------------------------------------------------------------------------------

# A compilation takes up to 0.9 GiB, a precompiled header of PyTorch's 1.1.
parallel_jobs() {
    local cores memory limit
    cores=$(nproc)
    memory=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
    limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
    [ "$limit" = max ] || [ $((limit >> 20)) -ge "$memory" ] || memory=$((limit >> 20))
    local fit=$((memory / 1229))
    [ "$fit" -ge 1 ] || fit=1
    echo $((cores < fit ? cores : fit))
}

version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# clang compiles this code in half of g++'s time, and PoCL's package brings one. It must find a standard library: one
# for a newer g++ whose headers are missing does not.
fast_compiler() {
    local candidate
    for candidate in $(compgen -c | grep -xE 'clang\+\+-[0-9]+' | sort -t- -k2 -nru) clang++; do
        if version_at_least 15 "$("$candidate" -dumpversion 2>/dev/null || echo 0)" &&
            "$candidate" -std=c++20 -x c++ -fsyntax-only -include string /dev/null 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

find_cmake() {
    cmake=cmake
    if ! version_at_least 3.24 "$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')"; then
        [ -x .venv/bin/cmake ] || { say "installing a newer CMake into .venv"; "${pip_install[@]}" cmake; }
        cmake=.venv/bin/cmake
    fi
}

configure() {
    mkdir -p build
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 CXX=${CXX:-$(fast_compiler)} \
        "$cmake" --preset default "$@" >build/configure.log 2>&1 ||
        { cat build/configure.log >&2; fail "CMake's configuration failed"; }
}

compile() {
    "$cmake" --build build --parallel "${CLPRIM_JOBS:-$(parallel_jobs)}" --target "$@" ||
        fail "the build failed; the first error is above"
}

# build TARGET...
build() {
    local key
    key=$( { cat CMakePresets.json; pwd; .venv/bin/python -c '
import importlib.metadata, sys
print(sys.version, importlib.metadata.version("torch"))'; } | sha256sum)
    [ -f build/build.ninja ] || rm -f .venv/.clprim-configure
    run_once configure "$key" configure -DCLPRIM_BUILD_PYTORCH=ON -DCLPRIM_BUILD_PYTHON=ON
    compile "$@"

    # The built packages join .venv's path, so that `import torch` finds the device. The path is relative to the
    # file: the folder may be moved or have any name.
    local packages
    for packages in .venv/lib/python3*/site-packages; do
        [ -f "$packages/clprim.pth" ] || echo ../../../../build/python >"$packages/clprim.pth"
    done
}

if [ "${1:-}" = packages ]; then
    more_packages=("${@:2}")
    install_packages
    exit
fi
for target in "$@"; do
    [[ $target =~ ^[A-Za-z0-9_]+$ ]] || fail "usage: tools/setup.sh [packages [NAME...] | TARGET...]"
done
if [ -n "${CLPRIM_NO_APT:-}" ]; then :
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then install_packages
else say "no apt-get here: see docs/building.md for the packages that the build needs"; fi
make_venv
if has_pytorch; then
    install_python_packages
    find_cmake
else
    find_cmake
    start_pip
    configure -DCLPRIM_BUILD_PYTORCH=OFF -DCLPRIM_BUILD_PYTHON=OFF
    compile clprim
    finish_pip
fi
build "${@:-python_packages}"
