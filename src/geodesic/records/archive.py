"""Archives of arrays (.npz) that may come from anywhere: looked at before they are read, and nothing in them is run.

Members are stored plainly, one after another, so what is read is never larger than the file. A member's name, type and
shape are known from a few bytes at its head; a reader says what it expects before any data is loaded. The archive's
comment, its last bytes, is a digest over all before it: the seal.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records.files import write_atomically

KINDS = "biufcSU"  # numbers and text; objects would be pickles
LONGEST_LIST = 4 * 2**20  # bytes of the list of members: some 40,000 of them
ANY = -1  # a side of a shape that may be of any length
_MAGIC = b"\x93NUMPY\x01\x00"
_HEAD = re.compile(
    rf"{{'descr': '([<|][{KINDS}]\d{{1,9}})', 'fortran_order': False, 'shape': \(((?:\d+, )*(?:\d+,?)?)\), }} *\n"
)
_END, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = 20  # bytes between the two, in archives beyond 4 GiB
SEAL = 64  # bytes: a digest in hexadecimal


@dataclass(frozen=True)
class Header:
    """What is known of a member before its data is read."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"

    def fits(self, expected: Header) -> bool:
        """Whether this is what was expected; an expected side may be of any length."""
        sides = zip(self.shape, expected.shape)
        same = self.dtype == expected.dtype and len(self.shape) == len(expected.shape)
        return same and all(side == wanted or wanted == ANY for side, wanted in sides)

    @classmethod
    def of(cls, array: Any) -> Header:
        return cls(np.dtype(array.dtype), tuple(array.shape))


Headers = dict[str, Header]


class Archive:
    """An archive that is open: its members' headers, and their data on demand. sealed: whether it must have a seal."""

    def __init__(self, path: Path, sealed: bool = True) -> None:
        self.path = path
        try:
            self._file = _plain_file(path)
            _check_ends(self._file, sealed)
            self._zip = zipfile.ZipFile(self._file)
            self._members = _members(self._zip, os.fstat(self._file.fileno()).st_size)
            self.headers: Headers = {name: self._header(info) for name, info in self._members.items()}
        except FileNotFoundError:
            raise CheckpointError(f"expected an archive of arrays at {path}, found none") from None
        except Exception as error:  # whatever a parser makes of a stranger's bytes
            self.close()
            raise CheckpointError(f"damaged or foreign file {path}: {first_line(error)}") from error

    def read(self) -> Arrays:
        """All members."""
        try:
            return {name: self._array(info, self.headers[name]) for name, info in self._members.items()}
        except Exception as error:
            raise CheckpointError(f"damaged or foreign file {self.path}: {first_line(error)}") from error

    def close(self) -> None:
        for each in (getattr(self, "_zip", None), getattr(self, "_file", None)):
            if each is not None:
                each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _header(self, info: zipfile.ZipInfo) -> Header:
        with self._zip.open(info) as stream:
            length = _head_length(stream.read(10))
            found = _HEAD.fullmatch(stream.read(length).decode("latin-1"))
        if found is None:
            raise ValueError(f"{info.filename} is not a plain array of numbers or text")
        shape = tuple(int(part) for part in found[2].replace(",", " ").split())
        header = Header(np.dtype(found[1]), shape)
        if math.prod(shape) * header.dtype.itemsize != info.file_size - 10 - length:
            raise ValueError(f"{info.filename} is said to be {header}, but has {info.file_size - 10 - length} bytes")
        return header

    def _array(self, info: zipfile.ZipInfo, header: Header) -> Array:
        with self._zip.open(info) as stream:
            stream.read(_head_length(stream.read(10)))
            data = bytearray(stream.read())
        return np.frombuffer(data, header.dtype).reshape(header.shape) if data else np.zeros(header.shape, header.dtype)


def write_archive(path: Path, arrays: Mapping[str, Any], keep: Path | None = None) -> None:
    """Arrays of numbers or text, in one sealed file; keep: where to the file that was there before is moved."""
    members = plain(arrays)

    def write(file: IO[bytes]) -> None:
        np.savez(file, **members)  # type: ignore[arg-type]
        end = file.seek(-2, os.SEEK_END)
        file.write(SEAL.to_bytes(2, "little"))
        file.write(_seal(file, end + 2))

    write_atomically(path, write, keep)


def _seal(file: IO[bytes], length: int) -> bytes:
    """A digest over the first bytes of a file, in pieces; the file is then where they end."""
    digest = hashlib.blake2b(digest_size=SEAL // 2)
    file.seek(0)
    while length > 0 and (part := file.read(min(length, 2**20))):
        digest.update(part)
        length -= len(part)
    return digest.hexdigest().encode()


def plain(arrays: Mapping[str, Any]) -> Arrays:
    """Arrays as they can be kept; those of objects are refused, since they would have to be pickled."""
    return {name: _plain(name, value) for name, value in arrays.items()}


def add_to(digest: hashlib.blake2b, name: str, value: Any) -> None:
    """An array's name, type, shape and content, to a digest."""
    array = np.ascontiguousarray(value)
    digest.update(f"{name} {Header.of(value)};".encode())
    if array.nbytes:
        digest.update(array.reshape(-1).view(np.uint8).data)


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _plain(name: str, value: Any) -> Array:
    array = np.asarray(value, order="C")
    if array.dtype.kind not in KINDS:
        raise InvalidInput(f"expected arrays of numbers or text to keep, got {array.dtype} for {name!r}")
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def _plain_file(path: Path) -> IO[bytes]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not a file")
    return path.open("rb")


def _check_ends(file: IO[bytes], sealed: bool) -> None:
    """Refuse what is not an archive, or has another seal than its content, or too long a list of members."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_64.size - _LOCATOR - _END.size - SEAL))
    tail = file.read()
    has_seal = tail[-SEAL - _END.size :][:4] == b"PK\5\6" and int.from_bytes(tail[-SEAL - 2 : -SEAL], "little") == SEAL
    if has_seal and _seal(file, size - SEAL) != tail[-SEAL:]:
        raise ValueError("its content is not what its digest says")
    if sealed and not has_seal:
        raise ValueError("it does not end with a digest; it was cut off, or is of an older format")
    tail = tail[: -SEAL if has_seal else None]
    if tail[-_END.size :][:4] != b"PK\5\6":
        raise ValueError("not an archive of arrays, or cut off")
    listed = _END.unpack(tail[-_END.size :])[5]
    if listed == 0xFFFFFFFF:
        listed = _END_64.unpack(tail[-_END.size - _LOCATOR - _END_64.size :][: _END_64.size])[8]
    if listed > LONGEST_LIST:
        raise ValueError("more members than it should have")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Every member by its name; nothing that is compressed, doubled, or larger than the file itself."""
    infos = archive.infolist()
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError(f"{info.filename!r} is compressed or encrypted")
        if not info.filename.endswith(".npy"):
            raise ValueError(f"{info.filename!r} is not an array")
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) < len(infos) or sum(info.file_size for info in infos) > size:
        raise ValueError("members lie on top of each other")
    return members


def _head_length(start: bytes) -> int:
    if len(start) != 10 or not start.startswith(_MAGIC):
        raise ValueError("a member is not an array")
    return int.from_bytes(start[8:10], "little")
