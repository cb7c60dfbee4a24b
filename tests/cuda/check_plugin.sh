#!/bin/sh
# What the built CUDA plugin must be, with or without a GPU: one exported symbol, code for all architectures that it was configured for, nothing needed to load
# it but the C and C++ libraries, and devices that cannot be used listed with the reason. The emulated plugin plays the machines that are not here.
# Usage: sh tests/cuda/check_plugin.sh [BUILD_DIR]      says so and passes where the plugin was not built
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
real=$build/bin/libengine_backend_cuda.so emulated=$build/bin/plugins/libengine_backend_cuda_emulated.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
passed=0 failed=0
ok() { passed=$((passed + 1)); }
wrong() { failed=$((failed + 1)); echo "FAIL $*" >&2; }
check() {  # check WHAT TEXT PART: TEXT contains PART
  case $2 in *"$3"*) ok ;; *) wrong "$1: '$3' is not in: $2" ;; esac
}
devices() { "$build/bin/engine-graph" devices --backend-path "$1" 2>&1 || true; }

for plugin in "$real" "$emulated"; do
  [ -e "$plugin" ] || { echo "check_plugin: $plugin was not built"; continue; }
  symbols=$(nm -D --defined-only "$plugin" | awk '{ print $3 }' | sort | tr '\n' ' ')
  if [ "$symbols" = "eb_get_backend " ]; then ok; else wrong "$plugin exports: $symbols"; fi
done

if [ -e "$real" ]; then
  sanitizers=no  # a build with ENGINE_SANITIZE
  if grep -q '^ENGINE_SANITIZE:[A-Z]*=\(ON\|1\|TRUE\)' "$build/CMakeCache.txt"; then sanitizers=yes; fi
  needed=$(objdump -p "$real" | awk '$1 == "NEEDED" { print $2 }' | tr '\n' ' ')
  for library in $needed; do
    case $sanitizers:$library in
      *:libc.so.* | *:libm.so.* | *:libstdc++.so.* | *:libgcc_s.so.* | *:ld-linux* | yes:libasan.so.* | yes:libubsan.so.*) ok ;;
      *) wrong "$real needs $library" ;;
    esac
  done
  # Machine code (not for NN-virtual) and PTX (not for NN-real) of every architecture configured, and of no other, in each of the .cu files' objects.
  wanted=$(awk -F= '/^ENGINE_CUDA_ARCHS:/ { n = split($2, a, /[; ]+/); for (i = 1; i <= n; i++) { number = a[i]; sub(/-.*/, "", number)
    if (a[i] !~ /-virtual/) print "sm_" number; if (a[i] !~ /-real/) print "compute_" number } }' "$build/CMakeCache.txt" | sort | tr '\n' ' ')
  held=$(python3 "$root/tests/cuda/architectures.py" "$real")
  if [ "$(echo "$held" | awk '{ print $1 }' | sort | tr '\n' ' ')" = "$wanted" ]; then ok; else wrong "$real holds code for: $held; wanted: $wanted"; fi
  if [ "$(echo "$held" | awk '{ print $2 }' | sort -u | wc -l)" = 1 ]; then ok; else wrong "some kernels of $real lack an architecture: $held"; fi
  text=$(devices "$real")
  check "devices" "$text" "cpu:0"
  if [ -e /dev/nvidiactl ]; then check "devices" "$text" "compute capability"
  else check "without a driver" "$text" "cuda:0  no CUDA device  not usable: no NVIDIA driver is installed (libcuda.so.1 is missing)"; fi
fi

if [ -e "$emulated" ]; then
  text=$(CUDA_EMULATION_DEVICES=3 devices "$emulated")
  check "three devices" "$text" "cuda:2"
  check "three devices" "$text" "compute capability 9.0"
  check "an old device" "$(CUDA_EMULATION_CAPABILITY=75 devices "$emulated")" "not usable: it has compute capability 7.5, at least 8.0 is needed"
  check "no device" "$(CUDA_EMULATION_DEVICES=0 devices "$emulated")" "cuda:0  no CUDA device"
fi
echo "check_plugin: $passed passed, $failed failed"
[ "$failed" = 0 ]
