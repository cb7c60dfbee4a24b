#!/bin/sh
# Training runs on 2 to 4 ranks that are killed, frozen, made to fail or to hang at random steps: each must end within 15 s, non-zero, naming rank and
# step, with no process left and a checkpoint that goes on.   Usage: sh tests/distributed/faults.sh [COUNT (default 50)] [BUILD_DIR]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
count=${1:-50} build=${2:-$root/build}
sh "$root/tools/build.sh" "$build" -- engine-train test_distributed faulty_backend >&2
ENGINE_TRAIN_FAULTS=$count ENGINE_BIN=$build/bin ENGINE_SOURCE=$root "$build/bin/test_distributed" -tc='faults of random kind*' --no-skip
