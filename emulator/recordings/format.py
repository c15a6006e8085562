"""The format of a recording: `recording.json` in a folder, with a PTX file and, if there is one, a cubin per module."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = 1
NAME: Final = "recording.json"
MOST_BYTES: Final = 64 << 20
"""The most bytes of a file that is read."""
MOST_STEPS: Final = 4096

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
        """Return True if a tensor of the other layout can take the place of one of this."""
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

    results: values that the call returned, by name. about: JSON of whoever recorded it.
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
        fields = json.loads(_read(path))
        if fields["schema"] != SCHEMA:
            raise RecordingError(f"{path}: schema {fields['schema']!r}, this version reads {SCHEMA}")
        if len(fields["steps"]) > MOST_STEPS:
            raise RecordingError(f"{path}: {len(fields['steps'])} steps, at most {MOST_STEPS}")
        steps = tuple(_step(dict(step)) for step in fields["steps"])
        digests = {step.module for step in steps if isinstance(step, Launched)}
        modules = {digest: _module(path.parent, digest) for digest in sorted(digests)}
        tensors = {str(name): _layout(layout) for name, layout in fields["tensors"].items()}
        results = {str(name): int(value) for name, value in fields["results"].items()}
        return Recording(str(fields["name"]), tensors, steps, results, modules, dict(fields["about"]))
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
    """Return JSON of a layout or step: bytes in base 64."""
    if isinstance(thing, bytes):
        return base64.b64encode(thing).decode()
    if isinstance(thing, Mapping):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_plain(each) for each in thing]
    if isinstance(thing, Layout | Launched | HostOp | Constant | Relocation):
        return {name: _plain(value) for name, value in vars(thing).items()}
    return thing


def _layout(read: dict[str, Any]) -> Layout:
    return Layout(
        str(read["dtype"]),
        _numbers(read["shape"]),
        _numbers(read["strides"]),
        int(read["offset"]),
        int(read["storage_bytes"]),
        base64.b64decode(read["example"]),
    )


def _step(read: dict[str, Any]) -> Step:
    kind = read.pop("step")
    if kind == "HostOp":
        return HostOp(str(read["op"]), list(read["args"]), dict(read["kwargs"]), _numbers(read["values"]))
    if kind == "Constant":
        return Constant(str(read["dtype"]), _numbers(read["shape"]), base64.b64decode(read["data"]), int(read["value"]))
    if kind != "Launched":
        raise RecordingError(f"a step of kind {kind!r}")
    return Launched(
        str(read["module"]),
        str(read["kernel"]),
        _dim3(read["grid"]),
        _dim3(read["block"]),
        None if read["cluster"] is None else _dim3(read["cluster"]),
        int(read["shared_bytes"]),
        bool(read["cooperative"]),
        tuple(base64.b64decode(each) for each in read["parameters"]),
        tuple(map(_relocation, read["relocations"])),
        tuple((int(number), base64.b64decode(data)) for number, data in read["attributes"]),
        {int(at): str(name)[:80] for at, name in read["names"].items()},
    )


def _relocation(read: dict[str, Any]) -> Relocation:
    return Relocation(int(read["parameter"]), int(read["at"]), int(read["value"]), int(read["offset"]))


def _numbers(read: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(each) for each in read)


def _dim3(read: Sequence[Any]) -> Dim3:
    x, y, z = _numbers(read)
    return x, y, z
