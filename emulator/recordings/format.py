"""The format of a recording: `recording.json` in a folder, with a PTX file and, if there is one, a cubin per module."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

SCHEMA: Final = 1
NAME: Final = "recording.json"
MOST_BYTES: Final = 64 << 20
"""The most bytes of a file that is read."""
MOST_STEPS: Final = 4096
LONGEST_NAME: Final = 80

Dim3 = tuple[int, int, int]


class RecordingError(ValueError):
    """A recording that is missing, damaged or of another schema."""


@dataclass(frozen=True)
class Layout:
    """Layout of a tensor: dtype, shape, strides and offset in elements, and bytes of its storage.

    example: values for a replay by hand, as bytes; without them a tensor of numbers is drawn at random.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_bytes: int
    example: bytes = b""

    def lies_like(self, other: Layout) -> bool:
        """Return True if a tensor of the other layout can replace one of this layout."""
        mine, others = (
            (each.dtype, each.shape, each.strides, each.offset, each.storage_bytes) for each in (self, other)
        )
        return mine == others


@dataclass(frozen=True)
class Relocation:
    """An address in a parameter's bytes, at `at`: `offset` bytes from the start of the storage of value `value`."""

    parameter: int
    at: int
    value: int
    offset: int


@dataclass(frozen=True)
class Launched:
    """One launch. module: SHA-256 of its PTX. attributes: id and bytes of each of CUDA's launch attributes.

    names: the names of its mbarriers for reports, by byte offset in dynamic shared memory.
    """

    module: str
    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3 | None
    shared_bytes: int
    cooperative: bool
    parameters: tuple[bytes, ...]
    relocations: tuple[Relocation, ...]
    attributes: tuple[tuple[int, bytes], ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostOp:
    """A torch operation, such as aten.view.default. Arguments as `encoded` writes them; values: of its results."""

    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Constant:
    """A tensor that host code made of numbers."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    value: int


Step = Launched | HostOp | Constant


@dataclass(frozen=True)
class Module:
    """A module that was launched: its PTX, and its machine code if the compiler kept it."""

    ptx: str
    cubin: bytes = b""

    @property
    def digest(self) -> str:
        """The SHA-256 of the PTX."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()


@dataclass(frozen=True)
class Recording:
    """A recorded call. Values are numbered: first `tensors`, those of the call, then the results of the steps.

    results: values that the call returned, by name. about: JSON added by the recording program.
    """

    name: str
    tensors: dict[str, Layout]
    steps: tuple[Step, ...]
    results: dict[str, int]
    modules: dict[str, Module]
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def launches(self) -> list[Launched]:
        """The launches in order."""
        return [step for step in self.steps if isinstance(step, Launched)]

    def save(self, folder: Path, name: str = NAME) -> None:
        """Write the recording into a folder, which may hold others and their modules."""
        folder.mkdir(parents=True, exist_ok=True)
        for digest, module in self.modules.items():
            for suffix, data in ((".ptx", module.ptx.encode()), (".cubin", module.cubin)):
                if data and not (folder / f"{digest}{suffix}").exists():
                    (folder / f"{digest}{suffix}").write_bytes(data)
        (folder / name).write_text(self.encode())

    def encode(self) -> str:
        """Return the recording without its modules as JSON."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "name": self.name,
                "tensors": {name: _plain(layout) for name, layout in self.tensors.items()},
                "steps": [{"step": type(step).__name__} | _plain(step) for step in self.steps],
                "results": self.results,
                "about": self.about,
            },
            indent=1,
        )


def load(folder: Path) -> Recording:
    """Read the recording in a folder. Raises RecordingError."""
    return load_file(folder / NAME)


def load_file(path: Path) -> Recording:
    """Read a recording, whose modules are in the same folder. Raises RecordingError."""
    try:
        read = json.loads(_read(path))
        if read["schema"] != SCHEMA:
            raise RecordingError(f"{path}: schema {read['schema']!r}, this version reads {SCHEMA}")
        if len(read["steps"]) > MOST_STEPS:
            raise RecordingError(f"{path}: {len(read['steps'])} steps, at most {MOST_STEPS}")
        steps = tuple(map(_step, read["steps"]))
        digests = {step.module for step in steps if isinstance(step, Launched)}
        modules = {digest: _module(path.parent, digest) for digest in sorted(digests)}
        tensors, results = _read_as(dict[str, Layout], read["tensors"]), _read_as(dict[str, int], read["results"])
        return Recording(str(read["name"]), tensors, steps, results, modules, dict(read["about"]))
    except RecordingError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise RecordingError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise RecordingError(f"{path}: not a plain file")
    try:
        with open(path, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise RecordingError(f"{path}: more than {MOST_BYTES} bytes")
    return data


def _module(folder: Path, digest: str) -> Module:
    if not digest.isalnum():
        raise RecordingError(f"{folder}: no digest of a module: {digest[:64]!r}")
    cubin = folder / f"{digest}.cubin"
    module = Module(_read(folder / f"{digest}.ptx").decode(), _read(cubin) if cubin.exists() else b"")
    if module.digest != digest:
        raise RecordingError(f"{folder / digest}.ptx: its SHA-256 is {module.digest}")
    return module


def _plain(thing: Any) -> Any:
    """Encode a field of a recording as JSON: bytes in base 64."""
    if isinstance(thing, bytes):
        return base64.b64encode(thing).decode()
    if isinstance(thing, Mapping):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_plain(each) for each in thing]
    if is_dataclass(thing):
        return {name: _plain(value) for name, value in vars(thing).items()}
    return thing


def _read_as(kind: Any, read: Any) -> Any:
    """Decode JSON of `_plain` as a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{field.name: _read_as(kinds[field.name], read[field.name]) for field in fields(kind)})
    if origin is UnionType:  # X | None
        return None if read is None else _read_as(inner[0], read)
    if origin is tuple:
        kinds_of = [inner[0]] * len(read) if inner[-1] is Ellipsis else inner
        return tuple(_read_as(each, value) for each, value in zip(kinds_of, read, strict=True))
    if origin in (dict, Mapping):
        return {_read_as(inner[0], key): _read_as(inner[1], value) for key, value in read.items()}
    if kind is bytes:
        return base64.b64decode(read)
    return read if kind is Any else (origin or kind)(read)


def _step(read: dict[str, Any]) -> Step:
    kind = {"Launched": Launched, "HostOp": HostOp, "Constant": Constant}.get(read["step"])
    if kind is None:
        raise RecordingError(f"a step of kind {read['step']!r}")
    step: Step = _read_as(kind, read)
    for name in step.names.values() if isinstance(step, Launched) else ():
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise RecordingError(f"{name[:LONGEST_NAME]!r} is no name of an mbarrier")
    return step
