"""Generate emulator/bridge/prototypes.txt, the table of CUDA's C prototypes, from the declarations of cuda-bindings.

python -m tests.emulator.prototypes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from emulator.bridge.prototypes import TABLE

MODULES = ("cydriver.pxd", "cyruntime.pxd")
HEADER = """\
# Prototypes of the CUDA driver's and runtime's C functions: result, name, parameters. Enums are i32.
# Generated from cuda-bindings by `python -m tests.emulator.prototypes`; do not edit.
"""
SCALARS = {
    **{"int": "i32", "unsigned int": "u32", "uint32_t": "u32", "float": "f32", "double": "f64"},
    **{
        "unsigned char": "u8",
        "unsigned short": "u16",
        "size_t": "u64",
        "uint64_t": "u64",
        "unsigned long long": "u64",
        "long long": "i64",
    },
}
DECLARATION = re.compile(r"^cdef ([\w ]+\*?) (cu\w+)\((.*)\) except", re.MULTILINE)
ALIAS = re.compile(r"^ *ctypedef ([\w ]+?)( ?\*)? ?\b(\w+)(?: '\w+')?$", re.MULTILINE)
ENUM = re.compile(r"^ *(?:cdef|ctypedef) enum (\w+)", re.MULTILINE)
FUNCTION_POINTER = re.compile(r"^ *ctypedef .*\(\*(\w+) '\w+'\)", re.MULTILINE)


def table() -> str:
    """Return the content of the table, for the installed version of cuda-bindings."""
    return HEADER + "".join(f"{line}\n" for line in lines())


def lines() -> Iterator[str]:
    """Yield one line per function. Functions that take or return a struct by value are left out."""
    texts = [(folder() / module).read_text() for module in MODULES]
    kinds = dict(SCALARS)
    for text in texts:
        kinds |= dict.fromkeys(ENUM.findall(text), "i32") | dict.fromkeys(FUNCTION_POINTER.findall(text), "ptr")
    aliases = {name: (of, bool(star)) for text in texts for of, star, name in ALIAS.findall(text)}
    for text in texts:
        for result, name, declared in DECLARATION.findall(text):
            parameters = [each.rpartition(" ")[::2] for each in declared.split(", ") if each]
            types = [kind(of, kinds, aliases) for of in (result, *(of for of, _ in parameters))]
            if None not in types:
                listed = ", ".join(f"{of} {called}" for of, (_, called) in zip(types[1:], parameters, strict=True))
                yield f"{types[0]} {name}({listed})"


def folder() -> Path:
    """Return the folder of the package cuda.bindings."""
    found = find_spec("cuda.bindings")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def kind(declared: str, kinds: dict[str, str], aliases: dict[str, tuple[str, bool]]) -> str | None:
    """Return the table's type for a declared C type, None for a struct."""
    name = declared.removeprefix("const ")
    if name.endswith("*"):
        return "ptr"
    if name in kinds:
        return kinds[name]
    of, is_pointer = aliases.get(name, (None, False))
    if of is None:
        return None
    return "ptr" if is_pointer else kind(of, kinds, aliases)


if __name__ == "__main__":
    TABLE.write_text(table())
