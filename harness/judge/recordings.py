"""Recordings that a candidate's process leaves for the judge, one for each case, and its answers about itself.

`FOLDER/recordings/index.json` names the recording of each case, or the error that its host code raised. The candidate
wrote all of it, so it is read as untrusted input.
"""

from __future__ import annotations

import copy
import re
import struct
import time
from collections.abc import Collection, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from emulator.bridge import elf
from emulator.recordings import NotRecordable, Recording, record, replay
from emulator.recordings.format import RecordingError, load_file
from emulator.recordings.replay import Launcher
from harness.host.files import digest, open_plain, write_atomically
from harness.host.journal import one_line
from harness.judge.kept import KeptKernels
from stages.calls import Outputs, Python, Tensors, Tiles, launches
from stages.inputs import draw
from stages.launch import outputs, placed

if TYPE_CHECKING:
    import kernel
    from stages.case import Case

INDEX = "index.json"
RESULTS = ("o", "u", "lse", "m")
MOST_INDEX_BYTES = 1 << 20
MOST_CUBIN_BYTES = 64 << 20
DEBUG = re.compile(r"(\.nv\.merc)?(\.rela)?\.(nv_)?debug_")
"""Names of sections with debug information."""
#: CPU time on the host of a call like an earlier one. The longest takes 0.03 s (D5b).
MOST_HOST_S = 0.5
#: Its whole time: most of it goes to other processes of a busy machine.
MOST_WHOLE_S = 3.0
CLOCKS = time.process_time, time.perf_counter
#: What host code may compute on the device, where no clock sees it, such as a workspace that it fills.
MOST_FILLED_BYTES = 1 << 16
USUAL, MOST = Tiles(128, 32, 128), 4096


class Index(msgspec.Struct):
    """By case: the file of its recording, or an error in `errors`; and the candidate's statements about itself.

    compile_s: seconds of each case's configuration. accepted: lines of bad calls that were not rejected, by table.
    """

    files: dict[str, str] = {}
    errors: dict[str, str] = {}
    compile_s: dict[str, float] = {}
    accepted: dict[str, list[str]] = {}


def record_case(case: Case, buffers: bool = True) -> Recording:
    """Record the call of a case, with buffers for its results or, as users make it, without and under torch.no_grad.

    Every tensor holds zeros meanwhile, so host code cannot see inputs.
    """
    held, spent = placed(case, draw(case, 0), "cpu"), []
    examples = {name: bytes(t.numpy()) for name, t in held.items() if not t.is_floating_point() and t.is_contiguous()}
    for tensor in held.values():
        tensor.zero_()

    def tensors() -> Tensors:
        made = copy.deepcopy(held)  # the recorder needs other memory each time
        return {**made, **_named([each.attention for each in outputs(case, made["q"])] if buffers else [])}

    def call(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        out = _buffers(case, tensors) if buffers else [None] * launches(case)
        asked, before = KeptKernels.asked, [clock() for clock in CLOCKS]
        with torch.set_grad_enabled(buffers):
            found = Python().call(case, tensors, out)
        spent.append((KeptKernels.asked - asked, *(clock() - at for clock, at in zip(CLOCKS, before, strict=True))))
        return _present(found)

    about = {"warps": Python().warps(case), "tiles": list(Python().tiles(case))}
    found = record(str(case), call, tensors, readable(case), about, case.config.mbarriers, examples)
    compiles, cpu_s, whole_s = map(min, zip(*spent[1:], strict=True))
    if compiles or cpu_s > MOST_HOST_S or whole_s > MOST_WHOLE_S:
        raise NotRecordable(
            f"{case}: a call like an earlier one compiles {compiles} kernels and takes {whole_s:.1f} s on the host, "
            f"{cpu_s:.1f} s of them CPU time; keep what earlier calls planned, and wait for nothing"
        )
    return found


def keys(case: Case) -> tuple[str, str]:
    """Return the keys of a case's calls: with buffers for its results, and without."""
    return repr(case), f"{case!r} without buffers"


def readable(case: Case) -> frozenset[str]:
    """Return the tensors that host code may compute with: with `merged`, the partial results and the sink."""
    names = [f"{name}{_suffix(part)}" for part in range(2) for name in RESULTS]
    return frozenset((*names, "sink")) if case.merged else frozenset()


def difference(first: Path, second: Path, cases: Collection[Case]) -> str:
    """Return how two processes' recordings of `cases` differ, "" if they agree: no verdict may depend on chance.

    A recording names its modules by digest. Raises RecordingError or OSError.
    """
    names = {key for case in cases for key in keys(case)}
    one, other = read_index(first), read_index(second)
    files, errors = {name: one.files[name] for name in one.files.keys() & names}, one.errors.keys() & names
    if (files, errors, one.accepted) != (other.files, set(other.errors), other.accepted):
        return "other calls raise errors"
    for file in sorted(files.values()):
        if digest(first / file) != digest(second / file):
            return f"{file} of {len(files)} recordings has other launches"
    modules = {module for file in files.values() for module in load_file(first / file).modules}
    for cubin in sorted(f"{module}.cubin" for module in modules):
        if (first / cubin).exists() and machine_code(first / cubin) != machine_code(second / cubin):
            return f"{cubin} of {len(modules)} modules has other machine code"
    return ""


def machine_code(cubin: Path) -> dict[str, bytes]:
    """Return the sections of a cubin by name, without debug information.

    Debug information names the folder of the sources, which may be another milestone's in a run of several.
    Raises RecordingError or OSError.
    """
    with open_plain(cubin) as stream:
        image = stream.read(MOST_CUBIN_BYTES)
    try:
        return {name: data for name, data in elf.sections(image) if not DEBUG.match(name)}
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise RecordingError(f"{cubin.name} is no machine code: {error}") from error


def read_index(folder: Path) -> Index:
    """Return the index of a folder of recordings. Raises RecordingError."""
    try:
        with open_plain(folder / INDEX) as stream:
            index = msgspec.json.decode(stream.read(MOST_INDEX_BYTES), type=Index)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise RecordingError(f"the candidate's process left no readable index of recordings: {error}") from error
    if bad := [name for name in index.files.values() if not name.removesuffix(".json").isalnum()]:
        raise RecordingError(f"the index names a file outside its folder: {bad[0][:80]!r}")
    return index


class Replayed:
    """The kernel under test, from a folder's recordings: each of the stages' calls is a replay on `launcher`."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self._folder, self._launcher = folder, launcher
        self._index = read_index(folder)
        self._recordings: dict[str, Recording] = {}

    def compile_s(self, case: Case) -> float:
        """Return the seconds that the candidate's process says it compiled for."""
        return self._index.compile_s.get(repr(case), 0.0)

    def warps(self, case: Case) -> dict[int, str]:
        """Return the names of the warps' roles, from the candidate's process."""
        said = self.recording(case).about.get("warps")
        named = said.items() if isinstance(said, dict) else ()
        return {int(warp): one_line(str(name), 40) for warp, name in named if str(warp).isdecimal()}

    def mbarriers(self, case: Case) -> Mapping[int, str]:
        """Return {}: each launch of a recording has the names of its mbarriers."""
        return {}

    def tiles(self, case: Case) -> Tiles:
        """Return the tiles that the candidate's process names, or the usual ones if it names none."""
        said = self.recording(case).about.get("tiles")
        if isinstance(said, list) and len(said) == len(USUAL) and all(type(n) is int and 0 < n <= MOST for n in said):
            return Tiles(*said)
        return USUAL

    def accepted(self, table: str, torch_device: str) -> list[str]:
        """Return the bad calls that the candidate's process says it did not reject."""
        return self._index.accepted.get(table, [f"{table}: the candidate's process does not say"])

    def call(self, case: Case, tensors: Tensors, out: Outputs) -> kernel.Attention:
        """Replay the recording of a case. Results are the judge's own buffers, if there are any.

        With `merged`, or without buffers, they are those that the recorded call returned.
        """
        buffers, first = _named(out), out[0]
        recording = self.recording(case, bool(buffers))
        given, written = {**tensors, **buffers}, frozenset(buffers)
        results = replay(recording, given, self._launcher, readable(case), written, MOST_FILLED_BYTES)
        if first is not None and not case.merged:
            return first
        like = first or outputs(case, tensors["q"])[0].attention
        return _returned(case, results, like)

    def recording(self, case: Case, buffers: bool = True) -> Recording:
        """Return the recording of a case's call, with buffers or without. Raises NotRecordable if there is none."""
        key = keys(case)[not buffers]
        if repr(case) in self._index.errors:
            raise NotRecordable(f"the call was not recorded: {self._index.errors[repr(case)]}")
        if key not in self._index.files:
            raise NotRecordable(f"the candidate's process left no recording of {case}")
        if key not in self._recordings:
            self._recordings[key] = load_file(self._folder / self._index.files[key])
        if not buffers and _grids(self._recordings[key]) != _grids(self.recording(case)):
            raise NotRecordable(f"{case}: the call launches something else if it allocates its results")
        return self._recordings[key]


def save(index: Index, folder: Path) -> None:
    """Write the index."""
    write_atomically(folder / INDEX, msgspec.json.format(msgspec.json.encode(index), indent=1))


def _grids(recording: Recording) -> list[tuple[object, ...]]:
    """Return the kernel of each launch, its grid and shared memory."""
    about = attrgetter("module", "kernel", "grid", "block", "cluster", "shared_bytes", "cooperative")
    return list(map(about, recording.launches))


def _returned(case: Case, results: Mapping[str, torch.Tensor], like: kernel.Attention) -> kernel.Attention:
    """Return the results of a call. Raises NotRecordable unless they have the shapes and dtypes of `like`."""
    import kernel

    names = ("o", "lse") if case.merged else tuple(_present(like))
    for name in names:
        wanted = getattr(like, name)
        found = results.get(name)
        if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            seen = "missing" if found is None else f"{found.dtype} {list(found.shape)}"
            raise NotRecordable(f"{case}: the returned {name} is {seen}, not {wanted.dtype} {list(wanted.shape)}")
    return kernel.Attention(**{name: results[name] for name in names})


def _present(attention: kernel.Attention) -> dict[str, torch.Tensor]:
    found: dict[str, Any] = {name: getattr(attention, name) for name in RESULTS}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _named(out: Outputs) -> dict[str, torch.Tensor]:
    """Return the buffers of all launches by name."""
    parts = ((part, _present(each)) for part, each in enumerate(out) if each is not None)
    return {f"{name}{_suffix(part)}": tensor for part, present in parts for name, tensor in present.items()}


def _buffers(case: Case, tensors: Mapping[str, torch.Tensor]) -> list[kernel.Attention]:
    import kernel

    parts = [{name: tensors.get(f"{name}{_suffix(part)}") for name in RESULTS} for part in range(launches(case))]
    return [kernel.Attention(**part) for part in parts]  # type: ignore[arg-type]


def _suffix(part: int) -> str:
    return f" of launch {part + 1}" if part else ""
