"""Elected lanes: whose accesses an arrival by some lanes publishes. The broken programs are in pairs/elected*.ptx."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import kernel, launch

from emulator import errors
from emulator.engine import elected
from emulator.errors import Level
from emulator.isa import registry
from emulator.lowering import Lowered
from emulator.machine.order.completion import Completion
from emulator.ptx.parser import parse

HANDOVER = """
.reg .pred %p, %q, %one, %w; .reg .b32 %t, %l, %at, %full, %v; .reg .b64 %out, %o;
.shared .align 8 .b8 words[256]; .shared .align 8 .b8 full[8];
mov.u32 %t, %tid.x; and.b32 %l, %t, 31; shl.b32 %at, %l, 2; mov.b32 %full, words; add.s32 %at, %at, %full;
mov.b32 %full, full; setp.ge.u32 %w, %t, 32; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%full], COUNT;
bar.sync 0; elect.sync _|%one, -1; @%w bra READ;
STORE
bra END;
READ:
mbarrier.try_wait.parity.shared.b64 %p, [%full], 0; @!%p bra READ;
ld.shared.u32 %v, [%at]; ld.param.u64 %out, [out]; mul.wide.u32 %o, %l, 4; add.u64 %out, %out, %o;
st.global.u32 [%out], %v;
END: ret;
"""
"""Warp 0 stores its lanes and arrives; warp 1 reads what each lane stored."""
ARRIVE = "mbarrier.arrive.shared.b64 _, [%full];"


def handover(store: str, count: int = 1, completion: Completion = "lazy") -> tuple[np.ndarray, list[errors.Fault]]:
    out, found = np.zeros(32, np.uint32), list[errors.Fault]()
    text = kernel("handover", ".param .u64 out", HANDOVER.replace("STORE", store).replace("COUNT", str(count)))
    launch(text, (out,), block=(64, 1, 1), completion=completion, level=Level.FORMAL, findings=found)
    return out, found


CORRECT = {
    "a synchronisation": (f"st.shared.u32 [%at], %t; bar.warp.sync -1; @%one {ARRIVE}", 1),
    "every lane arrives": (f"st.shared.u32 [%at], %t; {ARRIVE}", 32),
    "every lane arrives after a branch": (f"st.shared.u32 [%at], %t; @%w bra END; {ARRIVE}", 32),
    "every lane arrives in an arm": (
        f"st.shared.u32 [%at], %t; setp.gt.u32 %q, %t, 31; @%q bra OUT; {ARRIVE} OUT:",
        32,
    ),
    "every lane arrives in one of two arms": (
        f"st.shared.u32 [%at], %t; setp.gt.u32 %q, %l, 9; @%q bra OTHER; {ARRIVE} bra OUT; OTHER: {ARRIVE} OUT:",
        32,
    ),
    "a barrier of the warp": (f"st.shared.u32 [%at], %t; bar.sync 1, 32; @%one {ARRIVE}", 1),
    "stored before the last synchronisation": (
        f"st.shared.u32 [%at], %t; bar.warp.sync -1; add.u32 %v, %at, 128; st.shared.u32 [%v], %t; @%one {ARRIVE}",
        1,
    ),
}


@pytest.mark.parametrize(("store", "count"), CORRECT.values(), ids=CORRECT)
def test_what_needs_no_more(store: str, count: int) -> None:
    out, found = handover(store, count)
    assert not found
    np.testing.assert_array_equal(out, np.arange(32))


def test_the_lane_that_arrives_needs_no_synchronisation_for_its_own_accesses() -> None:
    """All lanes store, unsynchronised, to words that nobody reads; the elected lane stores what the others read."""
    own = "".join(f"@%one st.shared.u32 [words+{4 * i}], {i};" for i in range(32))
    out, found = handover(f"add.u32 %v, %at, 128; st.shared.u32 [%v], %t; {own} @%one {ARRIVE}")
    assert not found
    np.testing.assert_array_equal(out, np.arange(32))


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_lanes_that_part_store_and_others_arrive(completion: Completion) -> None:
    lanes = f"setp.gt.u32 %q, %l, 3; @%q st.shared.u32 [%at], %t; @!%q {ARRIVE}"
    with pytest.raises(errors.DataRace, match=r"bar\.warp\.sync between") as caught:
        handover(f"st.shared.u32 [%at], %t; bar.warp.sync -1; {lanes}", 4, completion)
    assert caught.value.level == Level.FAULT and re.search(r"released at +PTX line", str(caught.value))


@pytest.mark.parametrize("chosen", ["setp.ne.u32 %q, %l, 0; @%q bra END;", "@!%one bra END;", "@!%one ret;"])
def test_the_other_lanes_end_before_one_arrives(chosen: str) -> None:
    out, found = handover(f"st.shared.u32 [%at], %t; bar.warp.sync -1; {chosen} {ARRIVE}")
    assert not found
    np.testing.assert_array_equal(out, np.arange(32))
    with pytest.raises(errors.DataRace, match=r"bar\.warp\.sync between"):
        handover(f"st.shared.u32 [%at], %t; {chosen} {ARRIVE}")


def test_all_lanes_of_a_part_of_a_warp_arrive() -> None:
    """Warp 1 has 16 threads, and each of them arrives."""
    body = HANDOVER.replace("setp.ge.u32 %w, %t, 32;", "setp.lt.u32 %w, %t, 32;").replace("COUNT", "16")
    body = body.replace("STORE", f"st.shared.u32 [%at], %t; setp.lt.u32 %q, %t, 32; @%q bra OUT; {ARRIVE} OUT:")
    out, found = np.zeros(32, np.uint32), list[errors.Fault]()
    text = kernel("handover", ".param .u64 out", body.replace("READ:", "READ: setp.gt.u32 %q, %l, 15; @%q bra END;"))
    launch(text, (out,), block=(48, 1, 1), level=Level.FORMAL, findings=found)
    assert not found and out.tolist() == [*range(32, 48), *[0] * 16]


def test_a_later_synchronised_arrival_publishes_everything() -> None:
    twice = f"st.shared.u32 [%at], %t; @%one {ARRIVE} bar.warp.sync -1; @%one {ARRIVE}"
    out, found = handover(twice, 2)
    assert not found
    np.testing.assert_array_equal(out, np.arange(32))


def test_pointers_to_tensor_memory_are_no_accesses_to_publish() -> None:
    path = Path(__file__).parent / "pairs/elected_tensor.ptx"
    (program,) = parse(path.read_text()).kernels.values()
    lowered = Lowered(program, {}, registry.find)
    loads = [e for e in lowered.effects if e.instr.text.strip().startswith("ld.shared")]
    assert loads and set(loads[0].writes) <= elected.tensor_pointers(lowered.effects)
