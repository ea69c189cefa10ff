#!/usr/bin/env bash
# The C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer, in build-sanitized: `make test-sanitized`.
# Arguments go to ctest: tools/test_sanitized.sh --tests-regex allocator
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The compiler of `make build` where it brings the sanitizers' libraries, else g++. The C programs need the same ones.
sanitizers=-fsanitize=address,undefined
cxx=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/CMakeCache.txt 2>/dev/null || true)
cxx=${CXX:-${cxx:-g++}}
echo 'int main() {}' | "$cxx" $sanitizers -x c++ - -o /dev/null 2>/dev/null || cxx=g++
cc=${cxx/clang++/clang}
link=$sanitizers c_libraries=
if [ "$cc" != "$cxx" ]; then   # clang links the sanitizers into programs, C programs too, for the library's C++
    link+=" -fsanitize-link-c++-runtime" c_libraries=-lstdc++
fi
CXX=$cxx CC=${cc/g++/gcc} cmake -S . -B build-sanitized -G Ninja -DCMAKE_BUILD_TYPE=None -DCLPRIM_BUILD_PYTORCH=OFF \
    -DCLPRIM_BUILD_PYTHON=OFF -DCLPRIM_BUILD_COMMAND=OFF -DCLPRIM_BUILD_EXAMPLES=OFF \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" \
    -DCMAKE_CXX_FLAGS="-O1 -g1 -fno-omit-frame-pointer $sanitizers -fno-sanitize-recover=undefined" \
    -DCMAKE_C_FLAGS="-O1 -g1 $sanitizers" -DCMAKE_EXE_LINKER_FLAGS="$link" \
    -DCMAKE_C_STANDARD_LIBRARIES="$c_libraries" >/dev/null
cmake --build build-sanitized --parallel "${CLPRIM_JOBS:-2}"

# Drivers load libraries and keep memory as they like: leaks are not ours to report, and Intel's brings a memory manager.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
pocl=$(cat /etc/OpenCL/vendors/pocl*.icd 2>/dev/null | head -n 1)
intel=$PWD/.venv/lib/libintelocl.so
driver=${OCL_ICD_VENDORS:-$([ -e "$intel" ] && echo "$intel" || echo "$pocl")}
env ${driver:+"OCL_ICD_VENDORS=$driver"} ctest --test-dir build-sanitized --output-on-failure --timeout 1800 \
    --label-exclude "consumer|examples" "$@"
