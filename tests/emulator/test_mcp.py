"""`ptx-emulator mcp`: the real server, asked by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.commands.main import main

ROOT = Path(__file__).parents[2]
SCRIPT = '''
import numpy as np
import emulator

PTX = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry work(.param .u64 x)
{
.reg .f32 %f<3>; .reg .pred %p<2>; .reg .b64 %rd<2>; .reg .b32 %r<2>;
.shared .align 4 .f32 sums[64];
ld.param.b64 %rd1, [x];
mov.u32 %r1, sums;
ld.shared.f32 %f1, [%r1];
st.global.f32 [%rd1], %f1;
ret;
}
"""
o = np.zeros(4, np.float32)
emulator.launch(PTX, None, [o], block=32)
'''
STUCK = "mbarrier.init.shared.b64 [%r1], 1; w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra w;"
CLIENT = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=["-m", "emulator", "mcp"], env=json.loads(sys.argv[1]))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        assert session.server_info.version, "the emulator's"
        answers = [[tool.name, tool.description] for tool in (await session.list_tools()).tools]
        for name, arguments in json.loads(sys.argv[2]):
            answer = await session.call_tool(name, arguments)
            answers.append([answer.is_error, [part.text for part in answer.content]])
        print(json.dumps(answers))

asyncio.run(main())
"""


def test_without_the_package_it_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 2
    assert "pip install 'ptx-emulator[mcp]'" in capsys.readouterr().err


@pytest.mark.long
def test_the_tools_answer_the_official_client(tmp_path: Path) -> None:
    there = tmp_path / "mcp"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(there), "mcp>=2"], check=True)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "stuck.py").write_text(SCRIPT.replace("ld.shared.f32 %f1, [%r1];", STUCK))
    (tmp_path / "empty.py").write_text("raise ValueError('empty')\n")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{there}"}
    asked = [
        ["findings", {}],
        ["run", {"script": "script.py"}],
        ["findings", {"number": 1}],
        ["findings", {"number": 9}],
        ["debug", {"script": "script.py", "commands": ["stepi 2", "regs"]}],
        ["blame", {"script": "script.py", "output": "o", "element": "0", "rtol": 0.1, "atol": 0.1}],
        ["coverage", {"family": "tcgen05.mma"}],
        ["time", {"script": "script.py"}],
        ["time", {"script": "gone.py"}],
        ["compare", {"base": "script.py", "head": "script.py"}],
        ["compare", {"base": "script.py", "head": "empty.py"}],
        ["run", {"script": "script.py", "levels": "formal"}],
        ["run", {"script": "script.py", "seed": "many"}],
        ["run", {"script": "stuck.py"}],
    ]
    command = [sys.executable, "-c", CLIENT, json.dumps(dict(environment)), json.dumps(asked)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    tools, answers = said[: -len(asked)], said[-len(asked) :]
    assert {name for name, _ in tools} == {"run", "findings", "time", "compare", "debug", "blame", "coverage"}
    assert all(len(about) > 40 for _, about in tools)
    early, run, whole, unknown, debug, blame, coverage, time, gone, compare, failed, extra, wrong, stuck = answers
    assert early[0] and "call the tool `run` first" in early[1][0]
    verdict = json.loads(run[1][0])
    assert verdict["verdict"] == "fault" and verdict["exit_code"] == 3
    assert verdict["findings"][0]["class"] == "UnwrittenRead"
    assert "(4 bytes of sums)" in json.loads(whole[1][0])["report"]
    assert unknown[0] and "counted from 1" in unknown[1][0]
    assert "%rd1" in debug[1][0]
    assert not blame[0] and "o[0]" in blame[1][0]
    assert json.loads(coverage[1][0])["forms"] > 10
    assert "predicted" in time[1][0] and "nothing was measured" in time[1][0]
    assert gone[0] and "there is no file 'gone.py'" in gone[1][0]
    assert "(the same PTX)" in compare[1][0]
    assert failed[0] and "empty" in failed[1][0]
    assert extra[0] and "levels" in extra[1][0]
    assert wrong[0] and "seed" in wrong[1][0]
    (finding,) = json.loads(stuck[1][0])["findings"]
    line = SCRIPT.partition('PTX = """')[2].splitlines().index("ld.shared.f32 %f1, [%r1];") + 1
    assert (finding["class"], finding["ptx_line"]) == ("Deadlock", line)
