#!/bin/sh
# The planner's goals, one line each: L1 and L2 on 1,000 series-parallel and 200 general random graphs against all placements,
# L4 on the step graph of InceptionV4. Exits non-zero where one is missed.
# Usage: sh tests/planner/run.sh [BUILD_DIR]     BUILD_DIR: default build/, built if need be
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build
if [ $# -gt 0 ]; then build=$(mkdir -p "$1" && cd "$1" && pwd); shift; fi
sh "$root/tools/build.sh" "$build" -- test_planner generate-inception_v4 >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
PLANNER_FULL=1 ENGINE_BIN=$build/bin ENGINE_SOURCE=$root "$build/bin/test_planner" >"$log" 2>&1 || status=1
grep '^L[0-9]' "$log" || true
[ "$status" = 0 ] || grep -v '^L[0-9]' "$log" >&2
exit "$status"
