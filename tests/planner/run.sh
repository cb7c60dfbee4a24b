#!/bin/sh
# The planner's goals, one line each: L1 and L2 on 1,000 series-parallel and 200 general random graphs against all placements,
# L4 on the step graph of InceptionV4, L3 and L5 on steps that run on two one-thread devices (a small InceptionV4, two towers of dense
# layers, a shared LSTM). L3 and L5 time: let nothing else run on the machine. Exits non-zero where one is missed.
# Usage: sh tests/planner/run.sh [BUILD_DIR]     BUILD_DIR: default build/, built if need be
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build
if [ $# -gt 0 ]; then build=$(mkdir -p "$1" && cd "$1" && pwd); shift; fi
sh "$root/tools/build.sh" "$build" -- test_planner planner-l3 generate-inception_v4 generate-shared_lstm >&2
log=$(mktemp)
models=$(mktemp -d)
trap 'rm -rf "$log" "$models"' EXIT
status=0
PLANNER_FULL=1 ENGINE_BIN=$build/bin ENGINE_SOURCE=$root "$build/bin/test_planner" >"$log" 2>&1 || status=1
grep '^L[0-9]' "$log" || true
[ "$status" = 0 ] || grep -v '^L[0-9]' "$log" >&2
"$build/bin/generate-inception_v4" "$models/inception_v4.onnx" --size 139x139 --classes 10
"$build/bin/generate-shared_lstm" "$models/shared_lstm.onnx"
ENGINE_CACHE=$models/cache "$build/bin/planner-l3" "$models/inception_v4.onnx:2" towers:128 "$models/shared_lstm.onnx:32" || status=1
exit "$status"
