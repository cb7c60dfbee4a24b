#!/bin/sh
# Installs what the engine is built from, on Debian 12: Debian's packages, and from PyPI (pinned below) a newer CMake,
# oneDNN's binaries and ONNX's source, which is compiled once. Everything from PyPI lands in one cache folder,
# so a second run, or another checkout, only looks that it is there.
# Usage: sh tools/setup.sh [--print-cache]      ENGINE_CACHE chooses the folder (default: ~/.cache/onnx-training-engine)
# To raise a version: change it here, the folder name follows, and the next run builds it anew.
set -eu

ONNX_VERSION=1.23.2
ONEDNN_VERSION=2023.2.0      # oneDNN 3.2, libgomp build
CMAKE_VERSION=3.31.6

cache=${ENGINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-training-engine}
if [ "${1:-}" = --print-cache ]; then echo "$cache"; exit 0; fi
mkdir -p "$cache"

PACKAGES="g++ make ninja-build ccache git ca-certificates unzip python3 python3-venv pkg-config
  libprotobuf-dev protobuf-compiler libeigen3-dev libpng-dev libturbojpeg0-dev libhdf5-dev
  libopenmpi-dev openmpi-bin libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev doctest-dev"

say() { printf '%s\n' "setup: $*" >&2; }

missing=
for p in $PACKAGES; do
  case "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || true)" in *"ok installed"*) ;; *) missing="$missing $p" ;; esac
done
if [ -n "$missing" ]; then
  say "installing Debian packages:$missing"
  sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# One step of the cache: run the commands in a temporary folder, rename it when they have all worked.
finished() { [ -e "$cache/$1/.finished" ]; }

if ! finished "cmake-$CMAKE_VERSION"; then
  say "CMake $CMAKE_VERSION"
  rm -rf "$cache/cmake-$CMAKE_VERSION"
  python3 -m venv "$cache/cmake-$CMAKE_VERSION"
  "$cache/cmake-$CMAKE_VERSION/bin/pip" -q --disable-pip-version-check install "cmake==$CMAKE_VERSION"
  touch "$cache/cmake-$CMAKE_VERSION/.finished"
fi
pip="$cache/cmake-$CMAKE_VERSION/bin/pip -q --disable-pip-version-check"
cmake="$cache/cmake-$CMAKE_VERSION/bin/cmake"

if ! finished "onednn-$ONEDNN_VERSION"; then
  say "oneDNN $ONEDNN_VERSION"
  rm -rf "$cache/onednn-$ONEDNN_VERSION"
  mkdir -p "$cache/onednn-$ONEDNN_VERSION/wheels"
  $pip download --no-deps -d "$cache/onednn-$ONEDNN_VERSION/wheels" \
    "onednn-cpu-gomp==$ONEDNN_VERSION" "onednn-devel-cpu-gomp==$ONEDNN_VERSION"
  for w in "$cache/onednn-$ONEDNN_VERSION"/wheels/*.whl; do unzip -q -o "$w" -d "$cache/onednn-$ONEDNN_VERSION"; done
  # A wheel keeps its files under NAME.data/data; lay them out as one ordinary prefix.
  for d in "$cache/onednn-$ONEDNN_VERSION"/*.data/data; do [ -d "$d" ] && cp -a "$d/." "$cache/onednn-$ONEDNN_VERSION/"; done
  touch "$cache/onednn-$ONEDNN_VERSION/.finished"
fi

if ! finished "onnx-$ONNX_VERSION"; then
  say "ONNX $ONNX_VERSION from source (some minutes, once)"
  work="$cache/onnx-$ONNX_VERSION.work"
  rm -rf "$work" "$cache/onnx-$ONNX_VERSION"
  mkdir -p "$work"
  $pip download --no-deps --no-binary onnx --no-build-isolation -d "$work" "onnx==$ONNX_VERSION" 2>"$work/download.log" ||
    $pip download --no-deps --no-binary onnx -d "$work" "onnx==$ONNX_VERSION"
  tar -xzf "$work"/onnx-*.tar.gz -C "$work"
  "$cmake" -S "$work/onnx-$ONNX_VERSION" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$cache/onnx-$ONNX_VERSION" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DONNX_USE_UNITY_BUILD=ON \
    -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DONNX_BUILD_PYTHON=OFF -DONNX_BUILD_TESTS=OFF -DONNX_ML=ON \
    -DCMAKE_CXX_STANDARD=17 -DFETCHCONTENT_FULLY_DISCONNECTED=ON >"$work/configure.log" 2>&1 ||
    { tail -20 "$work/configure.log" >&2; exit 1; }
  "$cmake" --build "$work/build" --target install >"$work/build.log" 2>&1 || { tail -40 "$work/build.log" >&2; exit 1; }
  touch "$cache/onnx-$ONNX_VERSION/.finished"
  rm -rf "$work"
fi
say "ready: $cache"
