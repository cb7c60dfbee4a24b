#!/bin/sh
# Configuring without CUDA: one message says what is left out and why, everything else is there. The toolkit, where this machine has one, is hidden.
# Usage: sh tests/cuda/check_configure.sh [BUILD_DIR]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "FAIL $*" >&2; }
# A search path without the folders that hold nvcc.
path=$(printf '%s' "$PATH" | tr ':' '\n' | while read -r folder; do [ -x "$folder/nvcc" ] || printf '%s:' "$folder"; done)
# configure WHAT OPTIONS MESSAGE TESTS: tests is "yes" where the emulated tests are to be there
configure() {
  build=$work/$1
  # -n: nothing is built
  # shellcheck disable=SC2086
  if (unset CUDA_PATH CUDA_HOME CUDACXX CUDAToolkit_ROOT; PATH=$path sh "$root/tools/build.sh" "$build" $2 -- -n engine-train) >"$work/log" 2>&1; then ok
  else wrong "$1: does not configure"; tail -n 20 "$work/log" >&2; return; fi
  said=$(grep -E '^-- CUDA: ' "$build/configure.log" || true)
  case $said in "-- CUDA: $3"*) ok ;; *) wrong "$1: it says '$said'" ;; esac
  if [ "$(printf '%s\n' "$said" | wc -l)" = 1 ]; then ok; else wrong "$1: more than one message: $said"; fi
  for target in engine-train engine-graph engine-predict test_graph test_backends test_ops; do
    if grep -q "^build bin/$target:" "$build/build.ninja"; then ok; else wrong "$1: no $target"; fi
  done
  if grep -q "libengine_backend_cuda.so" "$build/build.ninja"; then wrong "$1: the plugin is there"; else ok; fi
  if grep -q "^build bin/test_cuda:" "$build/build.ninja"; then tests=yes; else tests=no; fi
  if [ "$tests" = "$4" ]; then ok; else wrong "$1: test_cuda is there: $tests"; fi
}
no_toolkit=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
configure switched_off -DENGINE_CUDA=OFF "the plugin and its tests are left out: ENGINE_CUDA is OFF" no
if grep -q '^ENGINE_CUDA_cuda_runtime_api.h:.*=/usr/\(include\|lib\)' "${1:-$root/build}/CMakeCache.txt" 2>/dev/null; then
  echo "check_configure: the headers lie in a system folder and cannot be hidden"
else
  configure no_headers "$no_toolkit -DCMAKE_IGNORE_PATH=/usr/local/include" "the plugin and its tests are left out: no cuda_runtime_api.h, cublas_v2.h, cudnn.h, nccl.h (" no
fi
if [ -e /usr/local/include/cudnn.h ] && [ -e /usr/local/include/cuda_runtime_api.h ]; then
  configure no_nvcc "$no_toolkit" "the plugin is left out: no nvcc" yes
fi
echo "check_configure: $passed passed, $failed failed"
[ "$failed" = 0 ]
