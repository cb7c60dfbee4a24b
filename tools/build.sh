#!/bin/sh
# Configures and builds. Usage: sh tools/build.sh [BUILD_DIR [CMAKE_OPTION...]] [-- NINJA_ARGUMENT...]
# BUILD_DIR defaults to build/ (Release). Needs tools/setup.sh to have run. Two runs on one folder wait for each other.
#   sh tools/build.sh build-asan -DENGINE_SANITIZE=ON -- test_graph
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
setup() { sh "$root/tools/setup.sh" --print "$1"; }
cmake=$(setup cmake) onnx=$(setup onnx) onednn=$(setup onednn)
for made in "$cmake" "$onnx/.finished" "$onednn/.finished"; do
  [ -e "$made" ] || { echo "build: $made is not there yet: run sh tools/setup.sh first" >&2; exit 1; }
done
build=$root/build
if [ $# -gt 0 ] && [ "$1" != -- ]; then build=$1; shift; fi
options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do options="$options $1"; shift; done
if [ $# -gt 0 ]; then shift; fi
mkdir -p "$build"
exec 8>"$build/.lock"
flock 8
log=$build/configure.log
# shellcheck disable=SC2086
"$cmake" -S "$root" -B "$build" -G Ninja -DENGINE_ONNX_PREFIX="$onnx" -Ddnnl_DIR="$onednn/lib/cmake/dnnl" \
  -DCMAKE_BUILD_RPATH="$onednn/lib" $options >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
"$cmake" --build "$build" -- "$@" 8>&-
