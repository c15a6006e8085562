"""The viewer: its data against independent counts, and its pages in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from debug_programs import GEMM, bf16, core_matrices, operands
from planted import PRODUCT, product
from ptx_launch import kernel
from wgmma_program import WINDOW, Form

import emulator
from emulator.errors import Deadlock, EmulatorError
from emulator.viewer.memory import accesses, maps
from tests.browser import Browser

ROOT = Path(__file__).parents[2]


def shown(folder: Path, ptx: str = GEMM) -> str:
    """Return the page of a launch of the product."""
    a, b = operands()
    with emulator.emulate() as device:
        device.view(folder)
        try:
            arguments = [core_matrices(bf16(a)), core_matrices(bf16(b)), np.zeros((128, 32), np.float32)]
            emulator.launch(ptx, None, arguments, block=192)
        except EmulatorError:
            pass
    (path,) = folder.glob("*.html")
    return path.read_text()


def embedded(page: str, name: str) -> dict[str, object]:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_accesses_are_those_of_the_counts() -> None:
    """Bank conflicts by line sum up to the launch's, which other code counts."""
    problem = product()
    with emulator.emulate() as device:
        recorder = device.record()
        result = emulator.launch(PRODUCT, None, [*problem.inputs.values(), problem.output], block=problem.block)
    assert recorder.last is not None
    shared = [each for each in accesses(recorder.last) if each.space == "shared"]
    assert sum(each.lost for each in shared) == result.stats.shared_conflicts
    assert sum(each.times for each in shared) - 1 == result.stats.shared_accesses, "tcgen05.alloc is not counted there"


@pytest.mark.parametrize(("stride", "taken"), [(4, 4), (8, 8), (32, 32), (128, 32)])
def test_sectors_of_strided_loads(stride: int, taken: int) -> None:
    """32 lanes of 4 bytes need 4 sectors, and take more if they lie apart."""
    body = (
        ".reg .b64 %rd<4>; .reg .b32 %r<4>;\nld.param.b64 %rd1, [x];\nmov.u32 %r1, %tid.x;\n"
        f"mul.wide.u32 %rd2, %r1, {stride};\nadd.s64 %rd1, %rd1, %rd2;\nld.global.b32 %r2, [%rd1];\n"
        "st.global.b32 [%rd1], %r2;\nret;"
    )
    x = np.zeros(32 * 128 + 128, np.uint8)
    x = x[-x.ctypes.data % 128 :][: 32 * 128].view(np.int32)
    with emulator.emulate() as device:
        recorder = device.record()
        emulator.launch(kernel("strided", ".param .u64 x", body), None, [x], block=32)
    assert recorder.last is not None
    assert [(each.needed, each.taken) for each in accesses(recorder.last)] == [(4, taken)] * 2


def test_the_maps_of_the_memories() -> None:
    """Shared memory has A and B where their variables are, tensor memory the accumulator's columns."""
    a, b = (core_matrices(bf16(each)) for each in operands())
    with emulator.emulate() as device:
        recorder = device.record()
        emulator.launch(GEMM, None, [a, b, np.zeros((128, 32), np.float32)], block=192)
    assert recorder.last is not None
    shared, tensor = maps(recorder.last)
    (band,) = [band for band in shared.bands if "sA" in band.names]
    assert band.end - band.first == 4096 and "a" in band.names
    assert (tensor.unit, tensor.bands[0].first, tensor.bands[-1].end) == ("columns", 0, 32)
    instrs = recorder.last.kernel.instrs
    assert [instrs[at].opcode for _, at in tensor.bands[0].writes] == ["tcgen05.mma"]


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    page = shown(tmp_path)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", page)
    assert "nothing was measured" in page


def test_the_trace_is_perfettos(tmp_path: Path) -> None:
    events = embedded(shown(tmp_path), "trace")["traceEvents"]
    assert isinstance(events, list)
    assert {event["ph"] for event in events} >= {"X", "M", "s", "f"}
    assert any(event["name"] == "waits for full" for event in events), "barriers have their names"


def test_the_roles_of_warps(tmp_path: Path) -> None:
    """The first warp copies, and the four of a warpgroup multiply."""
    form = Form(8, "f32", "bf16", "bf16")
    d = np.zeros((form.registers, 128), np.uint32)
    with emulator.emulate() as device:
        device.view(tmp_path)
        emulator.launch(
            form.program().replace("sm_90a", "sm_100a"), None, [np.zeros(WINDOW, np.uint8), d, d.copy(), 0], block=128
        )
    (path,) = tmp_path.glob("*.html")
    roles = embedded(path.read_text(), "data")["roles"]
    assert roles == {"0": "MMA, bulk copies", "1": "MMA", "2": "MMA", "3": "MMA"}


def test_a_launch_that_ends_with_an_error_has_its_report_on_top(tmp_path: Path) -> None:
    page = shown(tmp_path, GEMM.replace("_, [%r5], 5120", "_, [%r5], 5136"))
    assert Deadlock.__name__ in page and page.index("no warp can run") < page.index("<canvas")
    assert "no prediction" in page


def test_text_of_a_kernel_cannot_end_the_data(tmp_path: Path) -> None:
    page = shown(tmp_path, GEMM.replace("@%p2 cp.async", "/* </script><b> */ @%p2 cp.async", 1))
    assert page.count("</script>") == 3 and "<b>" not in page


@pytest.mark.long
def test_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests/emulator')!r})\n"
        "import numpy as np, emulator\nfrom planted import PRODUCT, product\nproblem = product()\n"
        "emulator.launch(PRODUCT, None, [*problem.inputs.values(), problem.output], block=problem.block)\n"
    )
    command = [sys.executable, "-m", "emulator", "run", "--html", str(tmp_path / "pages"), str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"page: {tmp_path}/pages/1-product.html" in done.stderr
    assert (tmp_path / "pages/1-product.html").is_file()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    shown(folder)
    (path,) = folder.glob("*.html")
    return path


SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
INKED = """(() => { const c = document.getElementById('timeline');
    const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    const found = new Set(); for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200)
    found.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`); return [...found]; })()"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_draws_in_a_browser(opened: Browser, drawn: Path, width: int, dark: bool) -> None:
    """The timeline has the colours of running, waiting, tensor core and copies, and nothing is wider than the page."""
    opened.look(width, dark)
    opened.open(drawn)
    opened.ask(SETTLED)
    kinds = ("runs", "waits", "unit", "copy", "barrier")
    wanted = [opened.ask(f"getComputedStyle(document.querySelector('i.{kind}')).backgroundColor") for kind in kinds]
    inked = opened.ask(INKED)
    assert [colour for colour in wanted if re.sub(r"[^\d,]", "", colour) not in inked] == []
    assert opened.ask("document.documentElement.scrollWidth") <= width
    assert opened.errors == []


@pytest.mark.browser
def test_it_searches_zooms_and_tells(opened: Browser, drawn: Path) -> None:
    opened.look(1280, False)
    opened.open(drawn)
    opened.ask(SETTLED)
    opened.ask(
        "(() => { const box = document.getElementById('search'); box.value = 'tcgen05.mma'; box.oninput();"
        " box.onkeydown({key: 'Enter'}); })()"
    )
    assert opened.ask("document.getElementById('hits').textContent") == "1 of 1"
    said = opened.ask("document.getElementById('details').textContent")
    assert re.search(r"tcgen05\.mma\ntensor core: cycles [\d,]+ to [\d,]+ .*\nPTX line \d+: .*tcgen05\.mma", said)
    opened.ask("document.getElementById('fit').click()")
    opened.ask(SETTLED)
    hover = (
        "(() => { const c = document.getElementById('timeline'), box = c.getBoundingClientRect();"
        " for (let y = 24; y < box.height; y += 9) for (let x = 240; x < box.width; x += 2) {"
        " c.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y}));"
        " const said = document.getElementById('tip').textContent;"
        " if (said.includes('waits for done') && said.includes('ended by tensor core')) return said; } return ''; })()"
    )
    assert "ended by tensor core at cycle" in opened.ask(hover), "a flow leads from the commit to the wait"
    assert opened.errors == []
