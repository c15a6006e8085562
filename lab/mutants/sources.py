"""Files that are mutated, and the sample of their mutants that a run takes by default."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache

from emulator.chip import NAME as CHIP
from harness.paths import ROOT
from lab.mutants.operators import Mutant, mutants


def _files(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"kernel/{folder}/{name}.py" for name in names)


SHARED = _files(
    *("device", "barriers", "combine", "convert", "cta", "dequantise", "load", "operands", "softmax", "tiles")
)
BLACKWELL = _files(
    *("sm100", "barriers", "combine", "epilogue", "fmha", "load", "mma", "operands", "pair_load", "softmax"),
    *("swapped", "swapped_load", "swapped_mma", "swapped_softmax"),
)
HOPPER = _files(
    *("sm90", "combine", "consumer", "dequantise", "epilogue", "fmha", "load", "operands", "softmax", "wide")
)
HOST = (
    *(f"kernel/{name}.py" for name in ("host", "dsv4", "checks", "merge")),
    *(f"kernel/serving/{name}.py" for name in ("caches", "host")),
)
"""Files that the compiled kernel does not depend on: their mutants run with the kernel of a B200 as it is."""
CHOICES = {
    "b200": ("kernel/device/config.py", *_files("sm100", "choice", "config", "memory", "roles", "variants")),
    "h200": ("kernel/device/config.py", *_files("sm90", "choice", "config")),
}
CONFIGURATION = ("kernel/problem.py", *CHOICES["b200"], *CHOICES["h200"])
COMPILED = (*SHARED, *BLACKWELL, *HOPPER, "kernel/fmha.py")
"""Files of which only the compiled code matters: a mutant that compiles to the same code is the kernel."""
FILES = {
    "b200": (*SHARED, *BLACKWELL, "kernel/fmha.py", "kernel/problem.py", *CHOICES["b200"], *HOST),
    "h200": (*SHARED, *HOPPER, "kernel/fmha.py", *CHOICES["h200"]),
}
"""Files that are mutated and judged on a chip."""

#: Operators of which a run takes every mutant: of synchronisation, clamps, selects, scales and thresholds.
ALWAYS = frozenset(
    {
        "drop",
        "update",
        "elect",
        "order",
        "phase",
        "stage",
        "barrier",
        "clamp",
        "select",
        "scale",
        "real",
        "fill",
        "boundary",
    }
)
#: A run takes one of this many of the other mutants of a file; 12 if the file is not listed.
SAMPLED = dict.fromkeys(CONFIGURATION, 20) | {"kernel/device/tiles.py": 4, "kernel/checks.py": 8, "kernel/merge.py": 2}
#: Functions and operators of which every mutant is taken, whatever the file.
WHOLE_FUNCTIONS = frozenset({"FmhaConfig.barriers", "HopperConfig.barriers", "RowTile.first_and_last_token"})
WHOLE = frozenset({("kernel/checks.py", "allow"), ("kernel/dsv4.py", "keyword"), ("kernel/dsv4.py", "integer")})

DEFINITION = ast.ClassDef | ast.FunctionDef


def generated(everything: bool = False, chip: str = CHIP) -> list[Mutant]:
    """Return the mutants of the kernel's sources for a chip, or those of them that a run takes."""
    return [each for path in FILES[chip] for each in mutants(path, original(path)) if everything or taken(each)]


def taken(mutant: Mutant) -> bool:
    """Return True if a run takes a mutant unless it is asked for all."""
    if mutant.operator in ALWAYS and mutant.path not in CONFIGURATION:
        return True
    if mutant.function in WHOLE_FUNCTIONS or (mutant.path, mutant.operator) in WHOLE:
        return True
    return int(hashlib.sha256(mutant.id.encode()).hexdigest()[:8], 16) % SAMPLED.get(mutant.path, 12) == 0


def original(path: str) -> str:
    """Return the text of a file of the kernel."""
    return (ROOT / path).read_text()


@cache
def meaning(path: str, function: str) -> str:
    """Return the digest of a function's or class's own statements: without comments, docstrings, and what it defines.

    function: its name with those of the classes around it; empty for a file's own statements.
    """
    node = _found(ast.parse(original(path)), function.split(".") if function else [])
    for each in ast.walk(node):
        if isinstance(each, ast.Module | DEFINITION):
            each.body = [child for child in each.body if not _defines(child)] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:8]


def _found(node: ast.AST, names: list[str]) -> ast.AST:
    """Return the definitions of names; the last if several have one name."""
    for name in names:
        node = [each for each in ast.walk(node) if isinstance(each, DEFINITION) and each.name == name][-1]
    return node


def _defines(node: ast.stmt) -> bool:
    """Return True for a definition, which has its own digest, and for a docstring."""
    return isinstance(node, DEFINITION) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def digest(*folders: str) -> str:
    """Return the digest of every source file of some folders."""
    found = hashlib.sha256()
    for path in sorted(files(*folders)):
        found.update(f"{path}\n".encode() + (ROOT / path).read_bytes())
    return found.hexdigest()[:16]


def files(*folders: str) -> Iterator[str]:
    """Return the source files of some folders."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".toml"):
                yield str(path.relative_to(ROOT))
