"""`python -m emulator run`: scripts written for a GPU, run from the command line."""

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import emulator
from emulator.commands.main import main
from emulator.commands.run import REPORT_EXIT
from emulator.errors import EmulatorError
from emulator.leniency import Leniency

ROOT = Path(__file__).parents[2]
PRELUDE = """
    import sys
    import torch
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream

    @cute.kernel
    def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        at = block * 64 + thread
        if at < cute.size(a):
            c[at] = a[at] + b[at]

    @cute.jit
    def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        add_kernel(a, b, c).launch(grid=(cute.ceil_div(cute.size(a), 64), 1, 1), block=(64, 1, 1))

    @cute.jit
    def add_on(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, stream):
        add_kernel(a, b, c).launch(grid=(cute.ceil_div(cute.size(a), 64), 1, 1), block=(64, 1, 1), stream=stream)

    a, b = torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
    c = torch.full((100,), float("nan"), device="cuda")
"""


@dataclass(frozen=True)
class Finished:
    """The exit code and output of a run."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Return a function that runs a script after PRELUDE in this process, as the command would."""

    def run(body, *options, script_args=()):
        if "tvm-ffi" in body or "tvm_ffi" in body:
            pytest.importorskip("tvm_ffi")
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(body))
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        monkeypatch.setattr(sys, "path", list(sys.path))
        try:
            code: Any = main(["run", *options, str(script), *script_args])
        except SystemExit as exit:
            code = exit.code
        return Finished(code, *capsys.readouterr())

    return run


@pytest.fixture
def passes(run):
    def passes(body, *options):
        finished = run(body, *options)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.strip().endswith("PASS"), finished.stdout

    return passes


CHECK = """
    torch.cuda.synchronize()
    torch.testing.assert_close(c, a + b)
    print("PASS")
"""
TVM_FFI = """
    fake = [make_fake_compact_tensor(cutlass.Float32, (100,)) for _ in range(3)]
    compiled = cute.compile(
        add_on, *fake, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi"
    )
"""
LAUNCHES = {
    "compiled": "cute.compile(add, from_dlpack(a), from_dlpack(b), from_dlpack(c))(*map(from_dlpack, (a, b, c)))",
    "called": "add(from_dlpack(a), from_dlpack(b), from_dlpack(c))",
    "dynamic": """
        tensors = [from_dlpack(t).mark_layout_dynamic() for t in (a, b, c)]
        cute.compile(add, *tensors)(*tensors)
    """,
    "on a stream": """
        import cuda.bindings.driver as driver
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        handle = driver.CUstream(stream.cuda_stream)
        compiled = cute.compile(add_on, *map(from_dlpack, (a, b, c)), handle)
        with torch.cuda.stream(stream):
            compiled(*map(from_dlpack, (a, b, c)), handle)
        stream.synchronize()
    """,
    "in a graph": """
        import cuda.bindings.driver as driver
        tensors = [from_dlpack(t) for t in (a, b, c)]
        compiled = cute.compile(add_on, *tensors, driver.CUstream(0))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            compiled(*tensors, driver.CUstream(torch.cuda.current_stream().cuda_stream))
        assert c.isnan().all()
        graph.replay()
    """,
    "benchmarked": """
        import cuda.bindings.driver as driver
        from cutlass.cute.testing import JitArguments, benchmark
        stream = driver.CUstream(torch.cuda.Stream().cuda_stream)
        tensors = [from_dlpack(t) for t in (a, b, c)]
        torch.cuda.synchronize()
        compiled = cute.compile(add_on, *tensors, stream)
        for graphs in (False, True):
            assert benchmark(
                compiled, kernel_arguments=JitArguments(*tensors, stream), stream=stream,
                warmup_iterations=1, iterations=2, use_cuda_graphs=graphs,
            ) > 0
    """,
    "TVM-FFI, torch's tensors": TVM_FFI + "    compiled(a, b, c)",
    "TVM-FFI, torch's stream": TVM_FFI
    + """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(a, b, c)
    assert c.isnan().all()
    graph.replay()
    """,
    "TVM-FFI, named tuples of tensors": """
    from typing import NamedTuple

    class Pair(NamedTuple):
        first: cute.Tensor
        second: cute.Tensor

    @cute.jit
    def add_pair(pair: Pair, c: cute.Tensor):
        add_kernel(pair[0], pair[1], c).launch(grid=(2, 1, 1), block=(64, 1, 1))

    fake = [make_fake_compact_tensor(cutlass.Float32, (100,)) for _ in range(3)]
    cute.compile(add_pair, Pair(*fake[:2]), fake[2], options="--enable-tvm-ffi")(Pair(a, b), c)
    """,
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_every_way_to_launch(passes, launch):
    passes(textwrap.indent(textwrap.dedent(launch), "    ") + CHECK)


def test_tvm_ffi_functions_are_saved_and_loaded(passes, tmp_path):
    save = f"""
    compiled.export_to_c({str(tmp_path / "saved.o")!r}, function_name="add_there")
    """
    load = f"""
    module = cute.runtime.load_module({str(tmp_path / "saved.o")!r}, enable_tvm_ffi=True)
    module.add_there(a, b, c)
    module["add_there"](a, b, c)
    """
    passes(TVM_FFI + save + load + CHECK)
    passes(load + CHECK)


def test_a_saved_function_without_ptx_is_refused(run, tmp_path):
    (tmp_path / "saved.o").write_bytes(b"\x7fELF")
    finished = run(f"    cute.runtime.load_module({str(tmp_path / 'saved.o')!r}, enable_tvm_ffi=True)")
    assert finished.returncode == REPORT_EXIT
    assert "machine code and no PTX" in finished.stderr


@pytest.mark.parametrize("wrong", ["c.cpu()", "torch.zeros(99, device='cuda')", "c.half()"])
def test_tvm_ffi_checks_its_arguments(run, wrong):
    finished = run(TVM_FFI + f"    compiled(a, b, {wrong})")
    assert finished.returncode == 1 and "argument #2" in finished.stderr


def test_a_script_that_fails_without_a_finding_is_told_what_explains_a_wrong_value(run, tmp_path):
    finished = run("    add(*map(from_dlpack, (a, b, c)))\n    assert (c == a).all(), 'wrong'")
    trace, _, told = finished.stderr.partition("no fault found. next, if a result is wrong: ")
    assert finished.returncode == 1 and trace.rstrip().endswith("AssertionError: wrong")
    assert trace.count("File ") == 1, "no frame of the emulator's own"
    assert told.startswith(f"ptx-emulator blame {tmp_path / 'script.py'}\n")
    assert "next" not in run("    raise SystemExit(1)").stderr, "it launched nothing"


def test_a_front_end_that_does_not_run_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    finished = run("    import jax")
    assert finished.returncode == 0
    assert finished.stderr.startswith("JAX does not run on the emulated device: ")
    assert "JAX" not in run("    add(*map(from_dlpack, (a, b, c)))").stderr, "a kernel was launched"


def test_a_benchmark_runs_a_kernel_once(run, monkeypatch):
    testing = ModuleType("triton.testing")
    monkeypatch.setattr(testing, "do_bench", lambda fn, warmup=25: [fn() for _ in range(100)], raising=False)
    monkeypatch.setitem(sys.modules, "triton.testing", testing)
    finished = run(
        "    import sys\n    do_bench, calls = sys.modules['triton.testing'].do_bench, []\n"
        "    assert do_bench(lambda: calls.append(1), 10) >= 0\n"
        "    assert len(do_bench(lambda: calls.append(1), quantiles=[0.2, 0.8])) == 2 and calls == [1, 1]"
    )
    assert finished.returncode == 0, finished.stderr


OUT_OF_BOUNDS = """
    @cute.kernel
    def far(a: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        cute.make_tensor(a.iterator + cutlass.Int64(1 << 40), cute.make_layout(32))[thread] = a[thread]

    @cute.jit
    def go(a: cute.Tensor):
        far(a).launch(grid=(1, 1, 1), block=(32, 1, 1))
"""


def test_what_is_found_ends_the_script_with_its_report(run):
    finished = run(OUT_OF_BOUNDS + "    go(from_dlpack(a))\n    print('not reached')")
    assert finished.returncode == REPORT_EXIT
    assert "\nOutOfBounds: " in "\n" + finished.stderr
    assert "PTX line" in finished.stderr
    assert any(f"near  {name}: " in finished.stderr for name in "abc")
    assert "not reached" not in finished.stdout


def test_what_is_found_ends_a_tvm_ffi_call_too(run):
    call = """
    compiled = cute.compile(go, make_fake_compact_tensor(cutlass.Float32, (100,)), options="--enable-tvm-ffi")
    compiled(a)
    """
    finished = run(OUT_OF_BOUNDS + call)
    assert finished.returncode == REPORT_EXIT
    assert "\nOutOfBounds: " in "\n" + finished.stderr


PAST_THE_END = """
    @cute.kernel
    def past(a: cute.Tensor, offset: cutlass.Int64):
        thread, _, _ = cute.arch.thread_idx()
        cute.make_tensor(a.iterator + offset, cute.make_layout(32))[thread] = a[thread]

    @cute.jit
    def go(a: cute.Tensor, offset: cutlass.Int64):
        past(a, offset).launch(grid=(1, 1, 1), block=(32, 1, 1))

    other = torch.zeros(1 << 16).numpy()  # mapped and writable, and no memory of the device
    go = cute.compile(go, from_dlpack(a), cutlass.Int64(0))
"""


@pytest.mark.parametrize(
    ("offset", "apart"),
    [("100", "0 bytes past its end"), ("(other.ctypes.data - a.data_ptr()) // 4", "")],
    ids=["just past", "far"],
)
def test_a_store_to_memory_that_is_not_the_devices(run, offset, apart):
    finished = run(f"{PAST_THE_END}    go(from_dlpack(a), cutlass.Int64({offset}))\n    print('not reached')")
    assert finished.returncode == REPORT_EXIT
    assert "OutOfBounds: st.global touches global memory" in finished.stderr
    assert apart in finished.stderr and any(f"near  {name}: " in finished.stderr for name in "abc")
    assert "not reached" not in finished.stdout


def test_memory_of_the_cpu_is_not(run):
    finished = run("    cute.compile(add, *map(from_dlpack, (a, b, c)))(*map(from_dlpack, (a, b.cpu(), c)))")
    assert finished.returncode == REPORT_EXIT
    assert "OutOfBounds: ld.global touches global memory" in finished.stderr


def test_a_device_that_a_script_enters_itself_takes_cpu_tensors_too(passes):
    passes(
        """
    import emulator
    with emulator.emulate():
        add(*map(from_dlpack, (a.cpu(), b.cpu(), d := torch.zeros(100, device="cpu"))))
        add(*map(from_dlpack, (a, b, c)))
    torch.testing.assert_close(d, (a + b).cpu())
    """
        + CHECK
    )


def test_pinned_memory_is_within_the_devices_reach(run):
    finished = run(f"""{PAST_THE_END}
    for pinned in (torch.zeros(32).pin_memory(), torch.zeros(32, pin_memory=True)):
        assert not pinned.is_cuda
        go(from_dlpack(a), cutlass.Int64((pinned.data_ptr() - a.data_ptr()) // 4))
        assert torch.equal(pinned, a[:32].cpu())
    print("PASS")
    """)
    assert finished.stdout.endswith("PASS\n"), finished.stderr


UNORDERED = """
    @cute.kernel
    def racy(a: cute.Tensor):
        shared = cutlass.Array(cutlass.Float32, 64, space=cutlass.AddressSpace.smem)
        thread, _, _ = cute.arch.thread_idx()
        shared[thread] = cutlass.Float32(thread)
        a[thread] = shared[63 - thread]

    @cute.jit
    def exchange(a: cute.Tensor):
        racy(a).launch(grid=(1, 1, 1), block=(64, 1, 1))

    exchange(from_dlpack(a))
    print("PASS")
"""
CAUGHT = """
    import os, subprocess
    try:
        {fails}
    except Exception:
        pass
    {then}
"""


@pytest.mark.parametrize("then", ["print('went on')", "sys.exit(0)", "sys.exit(5)", "raise ValueError('own')"])
def test_a_fault_that_the_script_caught_is_reported(run, then):
    finished = run(OUT_OF_BOUNDS + CAUGHT.format(fails="go(from_dlpack(a))", then=then))
    assert finished.returncode == REPORT_EXIT
    assert finished.stderr.startswith("OutOfBounds: "), finished.stderr
    assert ("ValueError: own" in finished.stderr) == ("ValueError" in then)
    assert "went on" in finished.stdout or "went on" not in then


def test_faults_of_one_cause_are_reported_once(run):
    finished = run(OUT_OF_BOUNDS + 3 * CAUGHT.format(fails="go(from_dlpack(a))", then=""))
    assert finished.stderr.count("OutOfBounds: ") == 1 and "\n  3 times\n" in finished.stderr


def test_an_instruction_that_is_not_implemented_is_no_success(run):
    launch = 'emulator.launch(".version 8.8\\n.target sm_100a\\n.address_size 64\\n.entry k() {{ suld; ret; }}")'
    finished = run("    import emulator" + CAUGHT.format(fails=launch, then="print('went on')"))
    assert (finished.returncode, finished.stdout) == (REPORT_EXIT, "went on\n")
    assert finished.stderr.startswith("UnknownInstruction: ")


@pytest.mark.long
def test_a_fault_of_a_child_process_counts(tmp_path):
    """In a process of its own: the parent ignores the exit code of its child, which caught the error itself."""
    child = tmp_path / "child.py"
    body = textwrap.dedent(OUT_OF_BOUNDS + CAUGHT.format(fails="go(from_dlpack(a))", then="print('child')"))
    asks = "import importlib.util\nassert importlib.util.find_spec('torch')\n"  # as many programs do
    child.write_text(asks + textwrap.dedent(PRELUDE) + body)
    script = tmp_path / "script.py"
    script.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, {str(child)!r}])\nprint('parent')")
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "emulator", "run", "--report", str(report), str(script)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (finished.returncode, finished.stdout) == (REPORT_EXIT, "child\nparent\n"), finished.stderr
    said = json.loads(report.read_text())
    assert (said["verdict"], said["errors"], said["exit_code"]) == ("fault", False, REPORT_EXIT)
    assert [one["verdict"] for one in said["children"]] == ["fault"]


def test_diagnostics_stop_or_report(run):
    stopped = run(UNORDERED)
    assert (stopped.returncode, stopped.stdout) == (REPORT_EXIT, "")
    reported = run(UNORDERED, "--diagnostics", "report")
    assert (reported.returncode, reported.stdout) == (REPORT_EXIT, "PASS\n")
    assert "\n  in tests/emulator/test_run_script.py::test_diagnostics_stop_or_report" in reported.stderr
    for finished, prefix in ((stopped, "\n"), (reported, "\nfound ")):
        said = "\n" + finished.stderr
        assert any(prefix + kind in said for kind in ("DataRace: ", "UnwrittenRead: ")), said


FORMAL = """
    @cute.kernel
    def again(a: cute.Tensor):
        for _ in cutlass.range_constexpr(2):
            cute.arch.cluster_arrive()
        for _ in cutlass.range_constexpr(2):
            cute.arch.cluster_wait()

    @cute.jit
    def go(a: cute.Tensor):
        again(a).launch(grid=(4, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1))

    go(from_dlpack(a))
    go(from_dlpack(a))
    sys.exit(0)
"""


def test_what_is_formal_is_listed_once_and_is_no_failure_unless_it_is_asked_for(run):
    listed = run(FORMAL)
    assert listed.returncode == 0
    assert listed.stderr.startswith("formal: PTX forbids it, and no known hardware shows it\nfound BarrierError: ")
    assert listed.stderr.count("found ") == 1 and "\n  16 times\n" in listed.stderr
    assert run(FORMAL, "--level", "formal", "--diagnostics", "report").returncode == REPORT_EXIT
    stopped = run(FORMAL, "--level", "formal")
    assert stopped.returncode == REPORT_EXIT and stopped.stderr.startswith("BarrierError: barrier.cluster.arrive")


def test_a_level_is_explained(run):
    said = run(FORMAL, "--explain").stderr
    rule = Leniency.SECOND_CLUSTER_ARRIVE
    assert f"  | rule {rule.title}: {rule.reason.check}" in said
    assert "  | level formal: PTX forbids it, and no known hardware shows it\n" in said
    assert said.endswith(f"  | evidence: {', '.join(rule.reason.evidence)}\n")
    assert "  | level fault: some legal timing" in run(UNORDERED, "--explain").stderr


VERDICTS = {
    "clean": "    add(*map(from_dlpack, (a, b, c)))",
    "formal": FORMAL,
    "fault": UNORDERED,
    "incomplete": "    torch.zeros(1, device='cuda:1')",
}


@pytest.mark.parametrize("word", VERDICTS)
def test_the_verdict_as_json(run, tmp_path, word):
    path = tmp_path / "reports" / "report.json"
    finished = run(VERDICTS[word], "--report", str(path))
    said = json.loads(path.read_text())
    errors = word in ("fault", "incomplete")
    assert (said["verdict"], said["errors"]) == (word, errors)
    assert said["exit_code"] == finished.returncode == REPORT_EXIT * errors
    assert said["options"]["completion"] == "lazy" and said["children"] == []
    assert [one["level"] for one in said["findings"]] == [word] * (word != "clean")
    assert said["launches"] == {"clean": 1, "formal": 2, "fault": 1, "incomplete": 0}[word]


def test_a_finding_as_json(run, tmp_path):
    path = tmp_path / "report.json"
    run(UNORDERED, "--report", str(path))
    (found,) = json.loads(path.read_text())["findings"]
    assert found["rule"] is None
    script = (tmp_path / "script.py").read_text().splitlines()
    assert found["class"] in ("DataRace", "UnwrittenRead") and found["ended_launch"] and found["times"] == 1
    assert "racy" in found["kernel"] and found["by"].startswith("warp") and found["cta"] == [0, 0, 0]
    assert Path(found["source"]["file"]).name == "script.py" and found["source"]["function"] == "racy"
    assert "shared[63 - thread]" in script[found["source"]["line"] - 1]
    assert found["instruction"].startswith(("ld.shared", "st.shared")) and found["report"].startswith(found["class"])


def test_the_other_place_of_a_race_as_json(tmp_path):
    racy = textwrap.dedent("""
        mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, 4; add.u32 %r1, %r1, 64; st.shared.u32 [%r1+1024], %r0;
        st.shared.u32 [1100], %r0;
    """)
    ptx = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n"
    ptx += ".shared .b8 words[4096];\n" + racy + "ret;\n}"
    with emulator.emulate() as device, pytest.raises(EmulatorError):
        emulator.launch(ptx, block=64)
    verdict = emulator.Verdict.of(device)
    (found,) = verdict.as_json()["findings"]
    assert (verdict.word, verdict.launches) == ("fault", 1)
    assert [(one["ptx_line"], one["source"]) for one in found["other_places"]] == [(8, None)], found
    json.dumps(verdict.as_json())


def test_a_refusal_is_one_sentence(run):
    finished = run("    torch.zeros(1, device='cuda:1')")
    assert finished.returncode == REPORT_EXIT
    assert finished.stderr == "NotEmulated: device 'cuda:1' is not emulated: there is one emulated device, cuda:0\n"


def test_the_scripts_arguments_are_its_own(run):
    body = "    print(sys.argv[1:], __name__)\n    sys.exit(7)"
    finished = run(body, "--completion", "eager", script_args=["--seed", "3", "--help", "--d", "64"])
    assert finished.returncode == 7
    assert finished.stdout == "['--seed', '3', '--help', '--d', '64'] __main__\n"


@pytest.mark.parametrize(
    "options", [["--completion", "eager"], ["--completion", "random", "--seed", "5"], ["--level", "formal"]]
)
def test_options_reach_the_device(run, options):
    body = """
    from emulator.bridge import driver
    device = driver.current()
    print(device.completion, device.seed, device.level)
    """
    finished = run(body, *options)
    given = dict(zip(options[::2], options[1::2], strict=True))
    asked = [
        given.get(name, default) for name, default in (("--completion", "lazy"), ("--seed", "0"), ("--level", "fault"))
    ]
    assert finished.stdout.split() == asked


def test_budget_ends_a_launch(run):
    finished = run("    add(*map(from_dlpack, (a, b, c)))", "--budget", "3")
    assert finished.returncode == REPORT_EXIT
    assert "budget" in finished.stderr.lower()


@pytest.mark.long
def test_processes_share_a_launch(tmp_path):
    """In a separate process, because launches are not split while other threads run, which some tests leave behind."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(PRELUDE)
        + textwrap.dedent("""
            import os
            started = []
            os.register_at_fork(after_in_parent=lambda: started.append(1))
            a, b, c = (torch.ones(150, device="cuda") for _ in range(3))
            add(*map(from_dlpack, (a, b, c)))
            print(torch.equal(c, a + b), len(started))
        """)
    )
    command = [sys.executable, "-m", "emulator", "run", "--processes", "2", str(script)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (finished.returncode, finished.stdout) == (0, "True 1\n"), finished.stderr


NUMBERS = [("--processes", count, "an integer from 1") for count in ("0", "-2", "1.5", "two")]


@pytest.mark.parametrize(("option", "value", "allowed"), [*NUMBERS, ("--html", "page.html", "a folder")])
def test_an_option_with_a_wrong_value_is_refused(run, option, value, allowed):
    finished = run("    print('ran')", option, value)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert f"argument {option}: '{value}' is not allowed; give {allowed}" in finished.stderr


@pytest.mark.parametrize(
    "command", [["run", "--report"], ["time", "--json"], ["time", "--compare", "a", "b", "--html"]], ids=" ".join
)
def test_a_file_that_cannot_be_written_is_rejected_before_the_run(command, tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("print('it ran')")
    for path in (tmp_path, script / "below.json"):
        with pytest.raises(SystemExit, match="2"):
            main([*command, str(path), str(script)])
        said = capsys.readouterr()
        assert f"{str(path)!r} cannot be written" in said.err and said.out == ""


def test_the_command_and_its_help(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\nprint(torch.zeros(1, device='cuda').device, 'cutlass' in sys.modules)\n")
    command = [sys.executable, "-m", "emulator", "run", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "cuda:0 False\n"), "CuTeDSL costs a second"
    assert main(["run", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "SCRIPT: there is no file 'nowhere.py'\n"
    assert main(["run", str(ROOT / "tests/emulator/programs/gemm.cu")]) == 2
    assert "gemm.cu is source text: compile it first, nvcc -gencode arch=compute_100a" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help"])
    said = capsys.readouterr().out
    assert "--completion {eager,lazy,random,all}" in said and "--processes N" in said


def test_the_report_as_sarif(run, tmp_path):
    """Each finding is a result at its source line, with the other access beside it."""
    path = tmp_path / "report.sarif"
    run(UNORDERED, "--report", str(path))
    log = json.loads(path.read_text())
    assert log["version"] == "2.1.0"
    (of_tool,) = log["runs"]
    (result,), (rule,) = of_tool["results"], of_tool["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == (rule["id"], 0, "error")
    (place,) = (at["physicalLocation"] for at in result["locations"])
    script = (tmp_path / "script.py").read_text().splitlines()
    assert place["artifactLocation"]["uri"].endswith("script.py")
    assert "shared[63 - thread]" in script[place["region"]["startLine"] - 1]
