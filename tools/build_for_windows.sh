#!/usr/bin/env bash
# build_for_windows.sh FOLDER: libclprim and the command clprim for 64-bit Windows, by MinGW-w64 on Debian or Ubuntu.
# Libraries are built from the system's own source packages into FOLDER/windows; OpenCL.dll comes with a GPU's driver.
# What comes out is not run by any test of this project.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${1:?a folder is missing}"
folder=$(cd "$1" && pwd)
root=$folder/windows sources=$folder/sources
mkdir -p "$root/include" "$root/lib" "$root/share/cmake" "$sources"
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
packages=(g++-mingw-w64-x86-64-posix libz-mingw-w64-dev nlohmann-json3-dev libcli11-dev opencl-clhpp-headers
          opencl-c-headers protobuf-compiler dpkg-dev ninja-build cmake)
dpkg -s "${packages[@]}" >/dev/null 2>&1 || $sudo apt-get install -y -qq "${packages[@]}" >/dev/null

# The system's package lists with the sources beside them, in a place of their own.
lists=$folder/lists
mkdir -p "$lists/state/partial" "$lists/parts"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    if [ -f "$list" ]; then
        sed 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$list" >"$lists/parts/$(basename "$list")"
    fi
done
apt=(apt-get -qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$lists/parts"
     -o "Dir::State::Lists=$lists/state")
if ! ls "$sources"/protobuf-*/ >/dev/null 2>&1; then
    "${apt[@]}" update
    (cd "$sources" && "${apt[@]}" source protobuf fmtlib >/dev/null)
fi

toolchain=$here/cmake/mingw-w64.cmake
library() {   # SOURCE OPTIONS...
    local source=$1 build=$folder/build-$(basename "$1")
    shift
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_INSTALL_PREFIX="$root" \
          -DCMAKE_BUILD_TYPE=Release -DCMAKE_FIND_ROOT_PATH="$root" "$@" >"$build.log" 2>&1
    cmake --build "$build" >>"$build.log" 2>&1
    cmake --install "$build" >>"$build.log" 2>&1
}
[ -e "$root/lib/libfmt.a" ] || library "$(ls -d "$sources"/fmtlib-*/)" -DFMT_TEST=OFF -DFMT_DOC=OFF
[ -e "$root/lib/libprotobuf-lite.a" ] ||
    library "$(ls -d "$sources"/protobuf-*/)" -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
            -Dprotobuf_BUILD_LIBPROTOC=OFF -Dprotobuf_WITH_ZLIB=OFF

# Headers alone, and a library of names for OpenCL.dll.
cp -rT /usr/include/CL "$root/include/CL"
cp -rT /usr/include/nlohmann "$root/include/nlohmann"
cp -rT /usr/include/CLI "$root/include/CLI"
for package in nlohmann_json CLI11; do
    cp -rT "$(dirname "$(dpkg -L nlohmann-json3-dev libcli11-dev | grep "/${package}Config.cmake$")")" \
       "$root/share/cmake/$package"
done
cp /usr/x86_64-w64-mingw32/include/z*.h "$root/include"
cp /usr/x86_64-w64-mingw32/lib/libz.a "$root/lib"
{
    echo "LIBRARY OpenCL.dll"
    echo EXPORTS
    grep -ohE '\bcl[A-Z][A-Za-z]+\(' "$root/include/CL/cl.h" | tr -d '(' | sort -u
} >"$folder/OpenCL.def"
x86_64-w64-mingw32-dlltool -d "$folder/OpenCL.def" -l "$root/lib/libOpenCL.a"

python=$here/.venv/bin/python
proto=$("$python" -c 'import onnx, pathlib; print(pathlib.Path(onnx.__file__).parent / "onnx-ml.proto")')
cmake -S "$here" -B "$folder/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_FIND_ROOT_PATH="$root" \
      -DCMAKE_PREFIX_PATH="$root" -DCMAKE_BUILD_TYPE="${BUILD_TYPE:-Release}" -DCLPRIM_BUILD_PYTORCH=OFF \
      -DCLPRIM_BUILD_PYTHON=OFF -DCLPRIM_BUILD_TESTS=OFF -DCLPRIM_BUILD_EXAMPLES=OFF -DCLPRIM_ONNX_PROTO="$proto" \
      -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)"
cmake --build "$folder/build" --target clprim clprim_command
find "$folder/build" -name '*clprim*.dll' -o -name 'clprim.exe'
