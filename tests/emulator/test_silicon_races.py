"""The broken twins of test_pairs.py on a GPU: run on a machine with a GPU, as `pytest -m gpu` on this file.

Each twin is launched many times. Right results prove nothing; a wrong one confirms its report. The outcomes are
properties of the tests, which `make silicon` puts into its report.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import HERE, PROGRAMS, TWINS, Twin, run
from wgmma_program import Form, bits_of

from emulator.machine.execution import scheduler
from emulator.machine.launch.launch import Launch
from emulator.machine.launch.statistics import Stats
from tests.emulator.silicon import INVALID_PTX, LOST, NO_BINARY, Comparison, DriverError, Worker

pytestmark = pytest.mark.gpu

TIMES = 60


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


@pytest.fixture
def silicon(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every launch on the GPU instead of the emulator. Skip programs that the GPU's compiler does not support."""
    job = Comparison(worker).job

    def on_gpu(launch: Launch, *_arguments: Any, **_named: Any) -> Stats:
        spans = [(address, size) for address, size, _ in launch.allocations if size]
        try:
            after = worker.run(job(launch, spans))[1]
        except DriverError as error:
            if error.code in (NO_BINARY, INVALID_PTX):
                pytest.skip("its compiler rejects the program")
            raise
        for (address, size), content in zip(spans, after, strict=True):
            ctypes.memmove(address, content, size)
        return Stats()

    monkeypatch.setattr(scheduler, "run", on_gpu)


def outcomes(program: str, text: str) -> Counter[str]:
    """Count how a program ended. Nothing is launched after an error that makes the GPU unusable."""
    found: Counter[str] = Counter()
    for _ in range(TIMES):
        try:
            right = np.array_equal(run(program, text, "eager")[0], PROGRAMS[program].expected)
        except DriverError as error:
            found["no end" if error.code == LOST else f"error {error.code}"] += 1
            break
        found["right" if right else "wrong"] += 1
    return found


def text_of(program: str) -> str:
    return (HERE / f"{program}.ptx").read_text()


Record = Callable[[str, object], None]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.usefixtures("silicon")
def test_good(program: str, record_property: Record) -> None:
    found = outcomes(program, text_of(program))
    record_property("outcome", dict(found))
    assert found == {"right": TIMES}


@pytest.mark.parametrize("twin", TWINS, ids=lambda t: t.name)
@pytest.mark.usefixtures("silicon")
def test_twin(twin: Twin, record_property: Record) -> None:
    """A formal twin must end the same way every time and without error, because no known hardware shows its fault.

    Twins whose fault may cause other faults are exempt.
    """
    found = outcomes(twin.program, twin.text())
    record_property("program", twin.program)
    record_property("level", twin.level)
    record_property("report", twin.error)
    record_property("outcome", dict(found))
    assert twin.level != "formal" or twin.then or set(found) in ({"right"}, {"wrong"})


LATE = """{ .reg .pred %z; .reg .b32 %y; setp.lt.u32 %z, %r1, 32; @%z bra NOW; mov.b32 %y, 100;
LATER: nanosleep.u32 1000; add.s32 %y, %y, -1; setp.ne.s32 %z, %y, 0; @%z bra LATER; NOW: }
"""


@pytest.mark.usefixtures("silicon")
def test_four_warps_meet_at_wgmma_fence() -> None:
    """Warps 1 to 3 store what the others multiply 100 us late, and no barrier follows."""
    text = (
        text_of("warpgroup").replace("bar.sync 1, 128;", "").replace("    st.shared.v4", f"{LATE}    st.shared.v4", 1)
    )
    assert outcomes("warpgroup", text) == {"right": TIMES}


STORED, CTAS = 32 * 1024, 3000
LEAVING = f"""
.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %q<2>; .shared .align 128 .b8 data[{STORED}];
ld.param.b64 %q0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.b32 %r2, data;
shl.b32 %r3, %r0, 4; add.s32 %r3, %r3, %r2; mov.b32 %r4, 0; mul.wide.u32 %q1, %r1, {STORED}; add.s64 %q0, %q0, %q1;
FILL: st.shared.v4.b32 [%r3], {{%r1, %r1, %r1, %r1}}; add.s32 %r3, %r3, 2048; add.s32 %r4, %r4, 2048;
setp.lt.u32 %p0, %r4, {STORED}; @%p0 bra FILL;
fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p1, %r0, 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%q0], [%r2], {STORED}; @%p1 cp.async.bulk.commit_group;
ret;
"""


@pytest.mark.usefixtures("silicon")
def test_shared_memory_outlives_a_bulk_store() -> None:
    """CTAs end with 32 KiB in flight, and the next CTAs fill the same shared memory."""
    out = np.zeros((CTAS, STORED // 4), np.uint32)
    launch(kernel("leaving", ".param .u64 out", LEAVING), [out], grid=(CTAS, 1, 1), block=(128, 1, 1))
    assert (out == np.arange(CTAS, dtype=np.uint32)[:, None]).all()


@pytest.mark.parametrize("waits", [True, False], ids=["after the wait", "before the wait"])
@pytest.mark.usefixtures("silicon")
def test_what_products_in_flight_read(waits: bool) -> None:
    """B is overwritten with zeros after seventeen MMAs. Those that were not waited for read the zeros."""
    form = Form(256, "f32", "bf16", "bf16")
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (64, 16)), rng.integers(-4, 5, (256, 16))
    wait = "wgmma.wait_group.sync.aligned 0;" if waits else ""
    got = form.run(*(bits_of(x, "bf16") for x in (a, b)), bits_of(np.zeros((64, 256)), "f32"), False, flight=wait)
    assert np.array_equal(got.view(np.float32), 17 * (a @ b.T)) == waits
