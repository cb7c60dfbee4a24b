#!/bin/sh
# Trains the same model on the same data with the same optimiser here and in PyTorch, and compares losses, gradients and final weights.
# Prints every figure; ends with "N passed, N failed". Needs the peers (PyTorch) in a Python environment: PEERS or the first
# argument names its folder, the one with activate-peers; and the case maker, make_parity_case.py, in $SHARED/peers or ../shared/peers.
# Usage: sh tests/parity/run.sh [PEERS_DIR] [MODEL...]      MODEL: mlp cnn shared_lstm inception_v4_171px (default: all)
# BUILD chooses the build folder (default build/); the cases lie in BUILD/parity.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}
if [ $# -gt 0 ] && [ -e "$1/activate-peers" ]; then PEERS=$1; shift; fi
[ -n "${PEERS:-}" ] || { echo "parity: name the folder of the peers' environment: sh tests/parity/run.sh PEERS_DIR, or PEERS=..." >&2; exit 2; }
[ -e "$PEERS/activate-peers" ] || { echo "parity: $PEERS/activate-peers is not there; peers/setup.sh DIR makes such a folder" >&2; exit 2; }
shared=${SHARED:-$root/../shared}
[ -e "$shared/peers/make_parity_case.py" ] || { echo "parity: $shared/peers/make_parity_case.py is not there; SHARED names the folder above peers/" >&2; exit 2; }
[ -x "$build/bin/engine-train" ] || sh "$root/tools/build.sh" "$build" -- engine-train >&2
# shellcheck disable=SC1091
. "$PEERS/activate-peers"
exec python "$root/tests/parity/compare.py" --engine "$build/bin/engine-train" --maker "$shared/peers/make_parity_case.py" --work "$build/parity" "$@"
