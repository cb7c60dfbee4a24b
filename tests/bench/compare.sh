#!/bin/sh
# Training speed and memory against PyTorch on the same machine in one interleaved run (ours, theirs, ours, theirs, ...), equal threads.
#   sh tests/bench/compare.sh inception_v4 [--batch 8] [--threads 2] [--rounds 5] [--steps 4]   images/s, peak MB, and the ratios
#   sh tests/bench/compare.sh shared_lstm|mlp|cnn|inception_v4_171px ...                        the same for the other peers' models
#   sh tests/bench/compare.sh parallel [--models inception_v4,shared_lstm,mlp]                  one process a core against one process on all (no peers)
#   sh tests/bench/compare.sh demo                                                              the demo's fine-tuning: seconds and accuracy of both
# PEERS (or the option --peers DIR in front) names the folder with activate-peers; $SHARED/peers or ../shared/peers has time_training.py.
# BUILD chooses the build folder (default build/, Release).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}
if [ "${1:-}" = --peers ] && [ $# -ge 2 ]; then PEERS=$2; shift 2; fi
if [ "${1:-}" = parallel ]; then
  sh "$root/tools/build.sh" "$build" -- engine-train parallel-case generate-inception_v4 generate-shared_lstm generate-mlp >&2
  exec python3 "$root/tests/bench/compare.py" --engine "$build/bin/engine-train" --peers "$root" --work "$build/bench" "$@"
fi
[ -n "${PEERS:-}" ] || { echo "bench: name the folder of the peers' environment: PEERS=DIR sh tests/bench/compare.sh ..." >&2; exit 2; }
[ -e "$PEERS/activate-peers" ] || { echo "bench: $PEERS/activate-peers is not there; peers/setup.sh DIR makes such a folder" >&2; exit 2; }
shared=${SHARED:-$root/../shared}
sh "$root/tools/build.sh" "$build" -- engine-train >&2
files=
if [ "${1:-}" = demo ]; then files=$(sh "$root/tools/demo_files.sh"); fi
# shellcheck disable=SC1091
. "$PEERS/activate-peers"
exec python "$root/tests/bench/compare.py" --engine "$build/bin/engine-train" --peers "$shared/peers" --work "$build/bench" --demo-files "$files" "$@"
