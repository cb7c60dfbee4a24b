#!/usr/bin/env python3
"""Prints what GPU code a shared object holds: "sm_90 32" is machine code in 32 of its fat binaries, "compute_90 32" PTX in as many.
cuobjdump says the same, but not every toolkit brings it along. A fat binary is a header (magic, version, header size, bytes that follow) and entries
(kind 1: PTX, 2: machine code; header size; bytes; at 28 the architecture). Usage: architectures.py FILE.so"""
import collections
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)


def section(data, wanted):
    """Bytes of an ELF64 section."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]  # name, type, flags, address, offset, bytes
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        if data[start:data.index(b"\0", start)] == wanted:
            return data[offset:offset + length]
    return b""


def main():
    with open(sys.argv[1], "rb") as file:
        data = section(file.read(), b".nv_fatbin")
    found = collections.Counter()
    at = data.find(MAGIC)
    while at >= 0:
        header, length = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header, at + header + length
        while entry + 32 <= end:
            kind, _, own, payload = struct.unpack_from("<HHIQ", data, entry)
            architecture, = struct.unpack_from("<I", data, entry + 28)
            if kind not in (1, 2) or own == 0:
                sys.exit(f"{sys.argv[1]}: an entry of a kind that is not known ({kind}) in its fat binary at byte {at}")
            found[f"{'compute' if kind == 1 else 'sm'}_{architecture}"] += 1
            entry += own + payload
        at = data.find(MAGIC, end)
    for name, count in sorted(found.items()):
        print(name, count)


main()
