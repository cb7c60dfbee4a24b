"""Lays Debian's dataset-fashion-mnist out as class folders of PNG files: python3 fashion_folders.py OUT [--train 4000] [--val 1000]

OUT/train/<class>/<number>.png are the first pictures of the training set, OUT/val/... the first of the test set, so the choice is the
same everywhere. Needs nothing but Python's standard library; a set-up step of tools/demo.sh, not a part of the engine.
"""
import argparse
import gzip
import os
import struct
import sys
import zlib

CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"]


def read_idx(path):
    """The dimensions and the bytes of an IDX file of unsigned bytes."""
    with gzip.open(path, "rb") as f:
        data = f.read()
    zeros, kind, rank = struct.unpack(">HBB", data[:4])
    if zeros != 0 or kind != 8:
        sys.exit(f"{path}: not an IDX file of unsigned bytes")
    dims = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return dims, data[4 + 4 * rank:]


def png(rows, columns, pixels):
    """A grey 8-bit PNG file."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    lines = b"".join(b"\0" + pixels[r * columns:(r + 1) * columns] for r in range(rows))
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def lay_out(source, prefix, folder, count):
    (n, rows, columns), pictures = read_idx(f"{source}/{prefix}-images-idx3-ubyte.gz")
    (m,), labels = read_idx(f"{source}/{prefix}-labels-idx1-ubyte.gz")
    if n != m or count > n:
        sys.exit(f"{source}/{prefix}: {n} pictures, {m} labels, {count} wanted")
    for name in CLASSES:
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    size = rows * columns
    for i in range(count):
        with open(f"{folder}/{CLASSES[labels[i]]}/{i:05}.png", "wb") as f:
            f.write(png(rows, columns, pictures[i * size:(i + 1) * size]))


p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("out")
p.add_argument("--train", type=int, default=4000)
p.add_argument("--val", type=int, default=1000)
p.add_argument("--source", default="/usr/share/datasets/fashion-mnist")
a = p.parse_args()
lay_out(a.source, "train", f"{a.out}/train", a.train)
lay_out(a.source, "t10k", f"{a.out}/val", a.val)
