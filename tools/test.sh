#!/bin/sh
# Sets up, builds everything under AddressSanitizer and UndefinedBehaviorSanitizer (build-asan/), runs all tests and ONNX's node tests.
# Ends with one line "N passed, N failed, N skipped": the test cases and the node tests together. Usage: sh tools/test.sh
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-asan
sh "$root/tools/setup.sh"

# -O1: half the time to compile, and stack traces that can be read.
echo "== build (AddressSanitizer, UndefinedBehaviorSanitizer)"
log=$build/build.log
mkdir -p "$build"
sh "$root/tools/build.sh" "$build" -DENGINE_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DENGINE_CPU_ARCH=x86-64-v3 -DENGINE_CUDA_ARCHS=90 \
  >"$log" 2>&1 || { grep -A 12 -E 'FAILED|error' "$log" | tail -n 60 >&2; echo "build failed, the whole log: $log" >&2; exit 1; }

echo "== tests"
ctest=$(dirname "$(sh "$root/tools/setup.sh" --print cmake)")/ctest
status=0
results=$build/ctest.log
{ "$ctest" --test-dir "$build" --verbose --timeout 900 -j 2 || echo "ctest-failed"; } >"$results" 2>&1
grep -E '^[0-9 /]+Test +#|^[0-9]+% tests passed|^Total Test time' "$results" || true
if grep -q '^ctest-failed$' "$results"; then
  status=1
  # Failed checks with their place, sanitizer reports, and whatever else a failing program said.
  grep -vE '^(test [0-9]|[0-9]+: (Test command|Working Dir|Environment| [A-Z_]+=|Test timeout))' "$results" | tail -n 400
fi
# doctest's closing line: [doctest] test cases: 12 | 12 passed | 0 failed | 0 skipped
set -- $(sed -n 's/.*test cases: *[0-9]* *| *\([0-9]*\) passed *| *\([0-9]*\) failed *| *\([0-9]*\) skipped.*/\1 \2 \3/p' "$results" |
  awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
passed=$1 failed=$2 skipped=$3
if [ $status = 1 ] && [ "$failed" = 0 ]; then failed=1; fi   # a program that ended before it could count
if [ "$passed" = 0 ]; then echo "no test ran" >&2; status=1; fi

echo "== the CUDA plugin, where it was built"
sh "$root/tests/cuda/check_plugin.sh" "$build" || { status=1; failed=$((failed + 1)); }

# node_tests WHAT OPTION...: adds their counts
node_tests() {
  what=$1; shift
  line=$(sh "$root/tests/conformance/run.sh" "$build" "$@" 2>"$build/conformance.log" | tee "$build/conformance.txt" | tail -n 1)
  set -- $(printf '%s\n' "$line" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
  if [ $# = 3 ]; then
    echo "$what: $line"
    [ "$2" = 0 ] || { status=1; grep '^FAIL' "$build/conformance.txt" | head -n 100; }
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
  else
    echo "$what did not end:" >&2
    tail -n 40 "$build/conformance.log" "$build/conformance.txt" >&2
    status=1 failed=$((failed + 1))
  fi
}
echo "== ONNX node tests"
node_tests "node tests"
emulated=$build/bin/plugins/libengine_backend_cuda_emulated.so
if [ -e "$emulated" ]; then
  export CUDA_EMULATION_ABORT=1
  node_tests "node tests on the emulated CUDA plugin" --device cuda:0 --backend-path "$emulated"
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
