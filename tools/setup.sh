#!/bin/sh
# Installs what the engine is built from, on Debian 12: Debian's packages, and from PyPI (pinned below) a newer CMake,
# oneDNN's binaries and ONNX's source, which is compiled once. Everything from PyPI lands in one cache folder,
# so a second run, or another checkout, only looks that it is there. A step that was interrupted is done again.
# Usage: sh tools/setup.sh [--print cache|cmake|onnx|onednn|pip]      ENGINE_CACHE chooses the folder (default: ~/.cache/onnx-training-engine)
# To raise a version: change it here, the folder name follows, and the next run builds it anew.
set -eu

ONNX_VERSION=1.23.2
ONEDNN_VERSION=2023.2.0      # oneDNN 3.2, libgomp build
CMAKE_VERSION=3.31.6

cache=${ENGINE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/onnx-training-engine}
python=$cache/cmake-$CMAKE_VERSION
onednn=$cache/onednn-$ONEDNN_VERSION
onnx=$cache/onnx-$ONNX_VERSION
cmake=$python/bin/cmake
if [ $# -gt 0 ]; then
  case "$*" in
    --print-cache | "--print cache") echo "$cache" ;;
    "--print cmake") echo "$cmake" ;;
    "--print onnx") echo "$onnx" ;;
    "--print onnx-version") echo "$ONNX_VERSION" ;;
    "--print onednn") echo "$onednn" ;;
    "--print pip") echo "$python/bin/pip" ;;
    *) echo "setup: unknown argument '$*'; wanted none or --print cache|cmake|onnx|onnx-version|onednn|pip" >&2; exit 2 ;;
  esac
  exit 0
fi
say() { printf '%s\n' "setup: $*" >&2; }

mkdir -p "$cache"
# One set-up at a time: a second one waits here and then finds everything done.
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another set-up in $cache"; flock 9; }

PACKAGES="g++ make ninja-build ccache git ca-certificates unzip python3 python3-venv pkg-config
  libprotobuf-dev protobuf-compiler libeigen3-dev libpng-dev libturbojpeg0-dev libjpeg62-turbo-dev libhdf5-dev zlib1g-dev
  libopenmpi-dev openmpi-bin libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev doctest-dev"

missing=
for p in $PACKAGES; do
  case "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || true)" in *"ok installed"*) ;; *) missing="$missing $p" ;; esac
done
if [ -n "$missing" ]; then
  say "installing Debian packages:$missing"
  sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  log=$cache/apt.log
  # shellcheck disable=SC2086
  { $sudo dpkg --configure -a && $sudo apt-get -o DPkg::Lock::Timeout=600 update -qq &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $missing
  } >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; say "apt-get could not install the packages; the whole log: $log"; exit 1; }
fi

# A step of the cache is done when its last file and its mark are there: nothing else counts.
finished() { [ -e "$1/.finished" ] && [ -e "$1/$2" ]; }
pip_install() { "$python/bin/pip" -q --disable-pip-version-check --no-input "$@" </dev/null 9>&-; }

if ! finished "$python" bin/cmake || ! "$cmake" --version >/dev/null 2>&1; then
  say "CMake $CMAKE_VERSION"
  rm -rf "$python"
  python3 -m venv "$python"
  pip_install install "cmake==$CMAKE_VERSION"
  touch "$python/.finished"
fi

if ! finished "$onednn" lib/cmake/dnnl/dnnl-config.cmake; then
  say "oneDNN $ONEDNN_VERSION"
  rm -rf "$onednn"
  mkdir -p "$onednn/wheels"
  pip_install download --no-deps -d "$onednn/wheels" "onednn-cpu-gomp==$ONEDNN_VERSION" "onednn-devel-cpu-gomp==$ONEDNN_VERSION"
  for w in "$onednn"/wheels/*.whl; do unzip -q -o "$w" -d "$onednn"; done
  # A wheel keeps its files under NAME.data/data; lay them out as one ordinary prefix.
  for d in "$onednn"/*.data/data; do if [ -d "$d" ]; then cp -a "$d/." "$onednn/"; fi; done
  rm -rf "$onednn/wheels" "$onednn"/*.data
  touch "$onednn/.finished"
fi

if ! finished "$onnx" lib/cmake/ONNX/ONNXTargets.cmake; then
  say "ONNX $ONNX_VERSION from source (about two minutes on two cores, once)"
  work=$onnx.work
  rm -rf "$work" "$onnx"
  mkdir -p "$work"
  pip_install download --no-deps --no-binary onnx -d "$work" "onnx==$ONNX_VERSION" >"$work/download.log" 2>&1 ||
    { tail -n 20 "$work/download.log" >&2; exit 1; }
  tar -xzf "$work"/onnx-*.tar.gz -C "$work"
  "$cmake" -S "$work/onnx-$ONNX_VERSION" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$onnx" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DONNX_USE_UNITY_BUILD=ON \
    -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DONNX_BUILD_PYTHON=OFF -DONNX_BUILD_TESTS=OFF -DONNX_ML=ON \
    -DCMAKE_CXX_STANDARD=17 -DFETCHCONTENT_FULLY_DISCONNECTED=ON >"$work/configure.log" 2>&1 ||
    { tail -n 20 "$work/configure.log" >&2; exit 1; }
  "$cmake" --build "$work/build" --target install >"$work/build.log" 2>&1 9>&- || { tail -n 40 "$work/build.log" >&2; exit 1; }
  touch "$onnx/.finished"
  rm -rf "$work"
fi
say "ready: $cache"
