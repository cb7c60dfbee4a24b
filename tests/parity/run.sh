#!/bin/sh
# Trains the same model on the same data with the same optimiser here and in PyTorch, and compares losses, gradients and final weights.
# Prints every figure; ends with "N passed, N failed". Needs the peers (PyTorch) in a Python environment: PEERS or the first
# argument names its folder, the one with activate-peers; and the case maker, make_parity_case.py, in $SHARED/peers or ../shared/peers.
# Usage: sh tests/parity/run.sh [PEERS_DIR] [--devices LIST] [--emulated] [MODEL...]
#   MODEL       mlp cnn shared_lstm inception_v4_171px (default: all)
#   --devices   where the engine trains, such as cuda:0; limits stay the same
#   --emulated  the CUDA plugin over its emulation instead of a real one; what the emulation complains of is a failure too
# BUILD chooses the build folder (default build/); the cases lie in BUILD/parity.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}
if [ $# -gt 0 ] && [ -e "$1/activate-peers" ]; then PEERS=$1; shift; fi
[ -n "${PEERS:-}" ] || { echo "parity: name the folder of the peers' environment: sh tests/parity/run.sh PEERS_DIR, or PEERS=..." >&2; exit 2; }
[ -e "$PEERS/activate-peers" ] || { echo "parity: $PEERS/activate-peers is not there; peers/setup.sh DIR makes such a folder" >&2; exit 2; }
shared=${SHARED:-$root/../shared}
[ -e "$shared/peers/make_parity_case.py" ] || { echo "parity: $shared/peers/make_parity_case.py is not there; SHARED names the folder above peers/" >&2; exit 2; }
devices= emulated= models=
while [ $# -gt 0 ]; do
  case $1 in
    --devices) [ $# -gt 1 ] || { echo "parity: --devices wants a list, such as cuda:0" >&2; exit 2; }
      devices=$2; shift ;;
    --emulated) emulated=1 ;;
    *) models="$models $1" ;;
  esac
  shift
done
[ -x "$build/bin/engine-train" ] || sh "$root/tools/build.sh" "$build" -- engine-train >&2
report=$build/parity/emulation.txt
if [ -n "$emulated" ]; then
  ENGINE_BACKEND_PATH=$build/bin/plugins/libengine_backend_cuda_emulated.so
  [ -e "$ENGINE_BACKEND_PATH" ] || sh "$root/tools/build.sh" "$build" -- engine_backend_cuda_emulated >&2
  mkdir -p "$build/parity"
  rm -f "$report"
  export ENGINE_BACKEND_PATH CUDA_EMULATION_REPORT="$report"
fi
# shellcheck disable=SC1091
. "$PEERS/activate-peers"
status=0
# shellcheck disable=SC2086
python "$root/tests/parity/compare.py" --engine "$build/bin/engine-train" --maker "$shared/peers/make_parity_case.py" --work "$build/parity" \
  ${devices:+--devices "$devices"} $models || status=$?
if [ -n "$emulated" ] && [ -s "$report" ]; then
  echo "the emulation complains:" >&2
  sort "$report" | uniq -c | sort -rn | head -n 40 >&2
  status=1
fi
exit $status
