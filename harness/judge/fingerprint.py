"""The fingerprint phase: one line of JSON that identifies this host. It fails if packages differ from the lock.

Run `python -m harness.judge.fingerprint --device emulator|cuda` in a checkout, with the environment's interpreter.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.host.verdict import Verdict

LOCK_NAME = "requirements.lock"
QUERY = "uuid,name,driver_version,vbios_version"
QUERY_S = 20.0


def differences(lock: str, installed: Mapping[str, str]) -> Iterator[str]:
    """Yield a phrase for each package whose `installed` version, on Linux, is not the one that the lock pins."""
    versions = {_normalised(name): version for name, version in installed.items()}
    for line in lock.splitlines():
        text = line.split("#", 1)[0].strip()
        name, _, pinned = text.partition("==")
        found = versions.get(_normalised(name.strip()))
        if not text or (found and found.partition("+")[0] == pinned.partition(";")[0].strip()):
            continue  # the usual line; importing packaging, for the others, takes longer than all else here
        from packaging.requirements import Requirement

        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"sys_platform": "linux"}):
            continue
        found = versions.get(_normalised(wanted.name))
        if found is None:
            yield f"{wanted.name} is missing"
        elif not wanted.specifier.contains(found, prereleases=True):
            yield f"{wanted.name} is {found}, pinned {wanted.specifier}"


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Return the version of every package, from the names of their folders: reading their metadata takes 0.15 s."""
    folders = (path.stem for place in reversed(sys.path) for path in Path(place).glob("*.dist-info"))
    return {name: version for name, _, version in (folder.rpartition("-") for folder in folders)}


def packages(found: Mapping[str, str]) -> str:
    """Return the SHA-256 over name and version of every installed package."""
    rows = sorted(f"{name}=={version}\n" for name, version in found.items())
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def gpu() -> dict[str, str]:
    """Return the driver's facts about the visible GPU. Raises OSError or subprocess.SubprocessError."""
    asked = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=QUERY_S, check=True)
    return {"gpu": " | ".join(done.stdout.split("\n")).strip(" |")}


def main() -> int:
    """Print the fingerprint, or the fix if the host does not meet the requirements. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.fingerprint")
    parser.add_argument("--device", choices=("emulator", "cuda"), required=True)
    device = parser.parse_args().device
    try:
        here = installed()
        wrong = list(differences(Path(LOCK_NAME).read_text(), here))
    except ImportError as error:
        wrong = [str(error)]
    if wrong:
        fix = "make setup on your machine, make provision for a host"
        print(f"environment differs from {LOCK_NAME}: {', '.join(wrong[:5])}; to fix it: {fix}")
        return Verdict.INFRA.exit_code
    found = {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": packages(here),
    }
    if device == "cuda":
        try:
            found |= gpu()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"nvidia-smi does not work: {error}")
            return Verdict.INFRA.exit_code
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
