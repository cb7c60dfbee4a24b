#!/bin/sh
# Configures and builds. Usage: sh tools/build.sh [BUILD_DIR [CMAKE_OPTION...]] [-- NINJA_ARGUMENT...]
# BUILD_DIR defaults to build/. Needs tools/setup.sh to have run.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$(sh "$root/tools/setup.sh" --print-cache)
build=$root/build
if [ $# -gt 0 ] && [ "$1" != -- ]; then build=$1; shift; fi
options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do options="$options $1"; shift; done
[ $# -gt 0 ] && shift
onnx=$(ls -d "$cache"/onnx-[0-9]* | tail -n 1)
onednn=$(ls -d "$cache"/onednn-[0-9]* | tail -n 1)
cmake=$(ls -d "$cache"/cmake-[0-9]*/bin/cmake | tail -n 1)
# shellcheck disable=SC2086
"$cmake" -S "$root" -B "$build" -G Ninja -DENGINE_ONNX_PREFIX="$onnx" -Ddnnl_DIR="$onednn/lib/cmake/dnnl" \
  -DCMAKE_BUILD_RPATH="$onednn/lib" $options >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 1; }
exec "$cmake" --build "$build" -- "$@"
