#!/bin/sh
# Everything that is to be seen on a real GPU, in under four minutes and without a network, from what was built before:
#   sh tools/build.sh build && sh tests/gpu/check.sh build
# conformance of the plugin (copies between devices where there are two), training of small nets against the CPU, on several GPUs where there are some
# and with nodes that a GPU cannot run, every operator that it has against the float64 reference. DEVICE=cuda:1 takes another one. --emulated runs the same on the emulation, for machines without a GPU.
# Usage: sh tests/gpu/check.sh [BUILD_DIR] [--emulated]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build emulated='' limit=100
for word in "$@"; do
  case $word in --emulated) emulated=1 limit=1200 ;; *) build=$(cd "$word" && pwd) ;; esac
done
bin=$build/bin
plugin=$bin/libengine_backend_cuda.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
if [ -n "$emulated" ]; then
  plugin=$bin/plugins/libengine_backend_cuda_emulated.so
  export CUDA_EMULATION_REPORT="$work/report" CUDA_EMULATION_DEVICES="${CUDA_EMULATION_DEVICES:-4}"
fi
device=${DEVICE:-cuda:0}
for file in "$plugin" "$bin/engine-graph" "$bin/test_backends" "$bin/test_ops"; do
  [ -e "$file" ] || { echo "tests/gpu: $file is missing: sh tools/build.sh $build" >&2; exit 1; }
done
export ENGINE_BIN="$bin" ENGINE_SOURCE="$root" ENGINE_BACKEND_PATH="$plugin" ENGINE_TEST_DEVICE="$device"

if [ -z "$emulated" ]; then
  if command -v nvidia-smi >/dev/null; then nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || true; fi
fi
"$bin/engine-graph" devices --backend-path "$plugin"
status=0
run() {  # run WHAT COMMAND...
  what=$1; shift
  start=$(date +%s)
  if timeout "$limit" "$@" >"$work/log" 2>&1; then result=ok; else result=FAILED; status=1; fi
  printf '%-44s %s  %ss\n' "$what" "$result" "$(($(date +%s) - start))"
  grep -E '^[0-9]+ (operators ran|are left)|test cases:|assertions:' "$work/log" || true
  if [ "$result" = FAILED ]; then grep -E 'ERROR|FATAL|is NOT correct|values:|logged:|differs|element|cannot|error' "$work/log" | head -n 80; tail -n 15 "$work/log"; fi
}
run "conformance on $device" "$bin/test_backends" -tc='conformance: the backend of ENGINE_TEST_DEVICE'
run "training on $device against the CPU" "$bin/test_backends" -tc='training on another device*'
run "runs on $device and its neighbours" "$bin/test_backends" -tc='several other devices*,another device*'
run "operators on $device against float64" "$bin/test_ops" -tce='every operator of the catalogue*'
if [ -n "$emulated" ]; then
  run "those of cuDNN without it" env CUDA_EMULATION_MISSING=cuDNN "$bin/test_ops" -sf='*/conv_test*,*/batch_norm_test*,*/pool_test*,*/softmax_test*'
fi
if [ -s "$work/report" ]; then
  echo "the emulation complains:" >&2
  sort "$work/report" | uniq -c | sort -rn | head -n 40 >&2
  status=1
fi
if [ $status = 0 ]; then echo "tests/gpu: all passed"; else echo "tests/gpu: FAILED"; fi
exit $status
