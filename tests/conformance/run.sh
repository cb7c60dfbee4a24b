#!/bin/sh
# Runs ONNX's node tests through the CPU backend, compares shape inference with ONNX's on the same models, and runs the other test models
# that the onnx package ships. The last line is the node tests': "N passed, N failed, N skipped". Skipped are operators
# (and element types) that docs/operators.md does not list as supported.
# With --device, such as cuda:0, the node tests alone: those for which that device has kernels.
# Usage: sh tests/conformance/run.sh [BUILD_DIR] [OPTION OF conformance-runner...]     BUILD_DIR: default build/, built if need be
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then build=$(mkdir -p "$1" && cd "$1" && pwd); shift; fi
version=$(sh "$root/tools/setup.sh" --print onnx-version)
cache=$(sh "$root/tools/setup.sh" --print cache)
runner=$build/bin/conformance-runner
if [ ! -x "$runner" ]; then sh "$root/tools/build.sh" "$build" -- conformance-runner >&2; fi

# The cases come out of the Python package of the same version; they are made once.
cases=$cache/onnx-cases-$version-1
mkdir -p "$cache"
exec 9>"$cache/onnx-cases.lock"
flock 9
if [ ! -e "$cases/.finished" ]; then
  echo "conformance: writing the test cases of onnx $version (once)" >&2
  rm -rf "$cases"
  mkdir -p "$cases"
  python3 -m venv "$cases/venv"
  "$cases/venv/bin/pip" -q --disable-pip-version-check --no-input install "onnx==$version" numpy </dev/null >&2
  "$cases/venv/bin/python" "$root/tests/conformance/generate.py" "$cases" >"$cases/generate.log" 2>&1 || { tail "$cases/generate.log" >&2; exit 1; }
  rm -rf "$cases/venv"
  touch "$cases/.finished"
fi
flock -u 9

# ASan: memory that a crashed or skipped case leaves is not a finding of its own.
LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp
export LSAN_OPTIONS
status=0
case " $*" in
  *" --device"*) ;;
  *)
    echo "== shape inference"
    "$runner" "$cases/node" --shapes "$@" || status=1
    echo "== model tests (simple, pytorch-converted, pytorch-operator, light)"
    "$runner" "$cases/models" "$@" || status=1
    ;;
esac
echo "== node tests"
"$runner" "$cases/node" "$@" || status=1
exit $status
