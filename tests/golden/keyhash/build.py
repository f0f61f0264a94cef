"""Writes ``vectors.json`` with the ``xxhash`` package: another opinion than our kernels.

Run it only when a type is added; a changed old line means that stored key groups are lost:
``python tests/golden/keyhash/build.py > tests/golden/keyhash/vectors.json``.
"""

import json
import math
import struct
from decimal import Decimal
from typing import Any

import xxhash

SEED = 42
FIXED = {"int8": "<i", "int16": "<i", "int32": "<i", "date32": "<i", "int64": "<q"}
FIXED |= {"timestamp[us]": "<q", "bool": "<i", "float": "<f", "double": "<d"}
SINGLE: dict[str, list[Any]] = {
    "string": ["", "a", "penstock", "ä€𝄞", " ", "x" * 31, "y" * 32, "z" * 33, "w" * 257, None],
    "large_string": ["stream", "s" * 64, None],
    "binary": ["", "00", "ff00ff", "ab" * 40, None],
    "bool": [True, False, None],
    "int8": [0, -1, 127, -128, None],
    "int16": [1, -32768, 32767, None],
    "int32": [0, -5, 2**31 - 1, -(2**31), None],
    "date32": [0, 20000, -1, None],
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), None],
    "timestamp[us]": [0, 1_700_000_000_123_456, -1, None],
    "float": ["0.0", "-0.0", "1.5", "-3.25", "nan", "inf", "-inf", None],
    "double": ["0.0", "-0.0", "1.5", "0.1", "nan", "inf", "-inf", "5e-324", None],
    "decimal128(18, 3)": ["0.000", "1.234", "-999999999999999.999", None],
}
SEVERAL: list[list[tuple[str, Any]]] = [
    [("string", "a"), ("int64", 7)],
    [("string", None), ("int64", 7)],
    [("string", "a"), ("int64", None)],
    [("string", None), ("int64", None)],
    [("int32", 1), ("int32", 1), ("bool", True), ("string", "x" * 40)],
    [("double", "-0.0"), ("timestamp[us]", 5), ("date32", 3)],
]


def packed(kind: str, value: Any) -> bytes:
    if kind in ("string", "large_string"):
        return str(value).encode()
    if kind == "binary":
        return bytes.fromhex(value)
    if kind.startswith("decimal128"):
        return struct.pack("<q", int(Decimal(value).scaleb(3)))
    if kind in ("float", "double"):
        number = float(value) + 0.0  # -0.0 becomes 0.0
        if math.isnan(number):  # the JVM's one NaN
            return bytes.fromhex("0000c07f" if kind == "float" else "000000000000f87f")
        return struct.pack(FIXED[kind], number)
    return struct.pack(FIXED[kind], value)


def hashed(columns: list[tuple[str, Any]]) -> int:
    seed = SEED
    for kind, value in columns:
        if value is not None:
            seed = xxhash.xxh64_intdigest(packed(kind, value), seed)
    return seed - 2**64 if seed >= 2**63 else seed


def main() -> None:
    rows = [[(kind, value)] for kind, values in SINGLE.items() for value in values] + SEVERAL
    lines = [json.dumps({"columns": row, "xxhash64": hashed(row)}) for row in rows]
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
