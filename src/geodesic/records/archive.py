"""Archives of arrays (.npz) from any source: validated before loading, and never executed.

Members are stored uncompressed, so what is read is never larger than the file. A member's name, type and shape are
read from a few bytes at its head; a reader checks them before any data is loaded. The last bytes of the file, the
comment of the archive, are a checksum of everything before them.

The format is read by hand rather than with a library: NumPy's reader trusts headers, and safetensors has neither
strings nor a checksum, and would be a second format beside curriculum.npz.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, format_error
from geodesic.records.files import open_plain, write_atomically

KINDS = "biufcSU"  # numbers and strings; objects would be pickles
LONGEST_LIST = 4 * 2**20  # bytes of the list of members: some 40,000 of them
ANY = -1  # a side of a shape that may be of any length
_MAGIC = b"\x93NUMPY\x01\x00"
_HEAD = re.compile(
    rf"{{'descr': '([<|][{KINDS}]\d{{1,9}})', 'fortran_order': False, 'shape': \(((?:\d+, )*(?:\d+,?)?)\), }} *\n"
)
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = 20  # bytes between the two, in archives beyond 4 GiB
CHECKSUM = 64  # bytes, in hexadecimal


@dataclass(frozen=True)
class Header:
    """The type and shape of a member, known before its data is read."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"

    def fits(self, expected: Header) -> bool:
        """Whether this is what was expected; a side of the expected shape may be ANY."""
        sides = zip(self.shape, expected.shape)
        same = self.dtype == expected.dtype and len(self.shape) == len(expected.shape)
        return same and all(side == wanted or wanted == ANY for side, wanted in sides)

    @property
    def size(self) -> int:
        """The bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, array: Any) -> Header:
        """The header of an array."""
        return cls(np.dtype(array.dtype), tuple(array.shape))


Headers = dict[str, Header]
Check = Callable[[Headers], None]  # refuses unexpected members before they are read


def read_archive(
    path: Path, check: Check, checked: bool = True, only: Container[str] | None = None, most: int | None = None
) -> Arrays:
    """All arrays of an archive from any source.

    check: refuses unexpected members, before any data is read. checked: whether there must be a checksum. only: the
    names of the arrays to read, if not all are needed. most: the most bytes that the file may have.
    """
    try:
        with open_plain(path, most) as file:
            _check_ends(file, checked)
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, os.fstat(file.fileno()).st_size)
                headers = {name: _header(archive, info) for name, info in members.items()}
                check(headers)
                wanted = members if only is None else {name: members[name] for name in members if name in only}
                return {name: _array(archive, info, headers[name]) for name, info in wanted.items()}
    except FileNotFoundError:
        raise CheckpointError(f"expected an archive of arrays at {path}, found none") from None
    except GeodesicError:
        raise
    except Exception as error:  # parsers raise anything on malicious bytes
        raise CheckpointError(f"damaged or foreign file {path}: {format_error(error)}") from error


def write_archive(path: Path, arrays: Mapping[str, Any], keep: Path | None = None) -> None:
    """Write arrays of numbers or strings to one file with a checksum; keep: where an existing file is moved."""
    members = {name: _plain(name, value) for name, value in arrays.items()}

    def write(file: IO[bytes]) -> None:
        np.savez(file, **members)  # type: ignore[arg-type]
        end = file.seek(-2, os.SEEK_END)
        file.write(CHECKSUM.to_bytes(2, "little"))
        file.write(_checksum(file, end + 2))

    write_atomically(path, write, keep)


def _checksum(file: IO[bytes], length: int) -> bytes:
    """A checksum of the first bytes of a file, read in pieces; the file position is then at their end."""
    digest = hashlib.blake2b(digest_size=CHECKSUM // 2)
    file.seek(0)
    while length > 0 and (part := file.read(min(length, 2**20))):
        digest.update(part)
        length -= len(part)
    return digest.hexdigest().encode()


def add_to(digest: hashlib.blake2b, name: str, value: Any) -> None:
    """Add an array's name, type, shape and content to a digest."""
    array = np.ascontiguousarray(value)
    digest.update(f"{name} {Header.of(value)};".encode())
    if array.nbytes:
        digest.update(array.reshape(-1).view(np.uint8).data)


def _plain(name: str, value: Any) -> Array:
    array = np.asarray(value, order="C")
    if array.dtype.kind not in KINDS:
        raise InvalidInput(f"expected arrays of numbers or strings to save, got {array.dtype} for {name!r}")
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as stream:
        length = _head_length(stream.read(10))
        found = _HEAD.fullmatch(stream.read(length).decode("latin-1"))
    if found is None:
        raise ValueError(f"{info.filename} is not a plain array of numbers or strings")
    shape = tuple(int(part) for part in found[2].replace(",", " ").split())
    header = Header(np.dtype(found[1]), shape)
    if header.size != info.file_size - 10 - length:
        raise ValueError(f"{info.filename} claims to be {header}, but has {info.file_size - 10 - length} bytes")
    return header


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> Array:
    with archive.open(info) as stream:
        stream.read(_head_length(stream.read(10)))
        data = bytearray(stream.read())
    return np.frombuffer(data, header.dtype).reshape(header.shape) if data else np.zeros(header.shape, header.dtype)


def _check_ends(file: IO[bytes], checked: bool) -> None:
    """Refuse a file that is not an archive, has the wrong checksum, or lists too many members."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_64.size - _LOCATOR - _END.size - CHECKSUM))
    tail = file.read()
    has_checksum = (
        tail[-CHECKSUM - _END.size :][:4] == b"PK\5\6"
        and int.from_bytes(tail[-CHECKSUM - 2 : -CHECKSUM], "little") == CHECKSUM
    )
    if has_checksum and _checksum(file, size - CHECKSUM) != tail[-CHECKSUM:]:
        raise ValueError("its content does not match its checksum")
    if checked and not has_checksum:
        raise ValueError("it has no checksum; it was truncated, or is of an older format")
    tail = tail[: -CHECKSUM if has_checksum else None]
    if tail[-_END.size :][:4] != b"PK\5\6":
        raise ValueError("not an archive of arrays, or truncated")
    listed = _END.unpack(tail[-_END.size :])[5]
    if listed == 0xFFFFFFFF:
        listed = _END_64.unpack(tail[-_END.size - _LOCATOR - _END_64.size :][: _END_64.size])[8]
    if listed > LONGEST_LIST:
        raise ValueError("too many members")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Every member by name; compressed, repeated or overlapping ones are refused."""
    infos = archive.infolist()
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError(f"{info.filename!r} is compressed or encrypted")
        if not info.filename.endswith(".npy"):
            raise ValueError(f"{info.filename!r} is not an array")
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) < len(infos) or sum(info.file_size for info in infos) > size:
        raise ValueError("members overlap")
    return members


def _head_length(start: bytes) -> int:
    if len(start) != 10 or not start.startswith(_MAGIC):
        raise ValueError("a member is not an array")
    return int.from_bytes(start[8:10], "little")
