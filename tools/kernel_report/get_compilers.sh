#!/usr/bin/env bash
# Compilers of GPUs for tools/kernel_report: Intel's ocloc, newer than a stable Debian's, unpacked into FOLDER/intel and
# installed nowhere (run there by chroot); clang 19 with libclc of this system; ptxas and nvdisasm from PyPI in
# FOLDER/nvidia.
#
#   tools/kernel_report/get_compilers.sh FOLDER        as root, on Debian
set -euo pipefail
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$(realpath -m "$1")
fail() { echo "get_compilers: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: the unpacked compiler is run by chroot"

# ---- Intel -----------------------------------------------------------------------------------------------------------

mkdir -p "$dir"/apt/{lists/partial,cache/archives/partial}
: >"$dir/apt/status"   # nothing is installed: every dependency is fetched as well
mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
    sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +([^ ]+debian)\/? *.*/\3/p' | sed -n 1p || true)
[ -n "$mirror" ] || fail "no Debian mirror in apt's sources"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror sid main" >"$dir/apt/sources.list"

apt_aside() {
    apt-get -qq -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" -o Dir::State::status="$dir/apt/status" \
        -o Dir::State::extended_states="$dir/apt/extended" -o APT::Install-Recommends=false \
        -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

root=$dir/intel
if ! ls "$root"/usr/bin/ocloc-* >/dev/null 2>&1; then
    apt_aside update
    apt_aside install -y --download-only intel-ocloc libigdfcl2 libigc2 libigc2-tools >/dev/null
    mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,usr/sbin,job,tmp,dev,proc}
    for link in bin lib lib64 sbin; do [ -e "$root/$link" ] || ln -s "usr/$link" "$root/$link"; done
    for deb in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
fi
chroot "$root" /usr/bin/"$(basename "$root"/usr/bin/ocloc-*)" ids bmg-g21 >/dev/null || fail "ocloc does not start"

# ---- AMD and NVIDIA --------------------------------------------------------------------------------------------------

if ! command -v clang-19 >/dev/null || [ ! -e /usr/lib/clc/amdgcn--amdhsa.bc ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-19 libclc-19 >/dev/null ||
        fail "apt-get could not install clang-19 libclc-19"
fi
if ! ls "$dir"/nvidia/nvidia/*/bin/nvdisasm >/dev/null 2>&1; then
    python3 -m pip install -q --no-deps --target "$dir/nvidia" nvidia-cuda-nvcc nvidia-cuda-nvdisasm
fi
echo "export CLPRIM_GPU_COMPILERS=$dir"
