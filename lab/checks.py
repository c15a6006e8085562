"""`python -m lab.checks`: translate the emulator's checks from restricted Python to LLVM IR, by numba.

The file is kept in the repository, so that the emulator needs neither numba nor its compile time. Its vectors have
the width of x86-64-v3, but it has no instructions of x86: LLVM compiles it for the CPU that it runs on. A test makes it
again.
"""

from __future__ import annotations

import os

os.environ["NUMBA_OPT"] = "0"  # LLVM optimises once, in `_optimise`

import re
from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
from numba import njit, types
from numba.extending import intrinsic, overload, register_jitable

from emulator.native import load_store, shadow_check, words

VECTORS_OF: Final = "x86-64-v3"
SOURCES: Final[dict[Any, int]] = {shadow_check: 32, load_store: 64}
"""The modules to translate, with the bits of what their entries return."""
ARRAYS: Final[dict[Callable[[int], Any], types.Integer]] = {
    words.i64: types.int64,
    words.i32: types.int32,
    words.u32: types.uint32,
    words.u16: types.uint16,
    words.u8: types.uint8,
}


def main() -> None:
    """Write the files."""
    for path, text in translated().items():
        path.write_text(text)


def translated() -> dict[Path, str]:
    """Return the modules by file name, as optimised LLVM IR without machine-specific parts."""
    for function, element in ARRAYS.items():
        _declare(function, element)
    return {Path(source.__file__).with_suffix(".ll"): _translated(source, SOURCES[source]) for source in SOURCES}


def _translated(source: Any, bits: int) -> str:
    for function in vars(source).values():
        if isfunction(function) and function not in (*source.ENTRIES, *ARRAYS):
            register_jitable(function)
    module = llvm.parse_assembly("")
    for entry in source.ENTRIES:
        module.link_in(llvm.parse_assembly(_definition(entry, bits)))
    _optimise(module, source)
    return _portable(str(module), source)


def _declare(function: Callable[[int], Any], element: types.Integer) -> None:
    """Have numba translate a function of `words` to a pointer."""

    @intrinsic
    def pointer(_: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), generate

    overload(function)(lambda address: lambda address: pointer(address))  # type: ignore[call-arg]


def _definition(entry: Callable[..., int], bits: int) -> str:
    """Return an entry's IR, and a function of its name that calls it with C's convention."""
    signature = (types.int64,) * entry.__code__.co_argcount
    compiled = njit(types.Integer.from_bitwidth(bits)(*signature), error_model="numpy")(entry)
    text = compiled.inspect_llvm(signature)
    name = compiled.overloads[signature].fndesc.mangled_name  # type: ignore[attr-defined]
    arguments = [f"i64 %{argument}" for argument in entry.__code__.co_varnames[: len(signature)]]
    return f"""{text}
define i{bits} @{entry.__name__}({", ".join(arguments)}) "no-builtins" {{
  %answer = alloca i{bits}
  %raised = call i32 @{name}({", ".join(["ptr %answer", "ptr null", *arguments])}) alwaysinline
  %found = load i{bits}, ptr %answer
  ret i{bits} %found
}}
"""


def _optimise(module: llvm.ModuleRef, source: Any) -> None:
    """Inline what is inlined, then optimise with vectors but without copies of loops."""
    names = [entry.__name__ for entry in source.ENTRIES]
    stem = source.__name__.rpartition(".")[2]
    called = [f"{stem}{len(helper.__name__)}{helper.__name__}B" for helper in source.CALLED]
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
            kept = any(name in function.name for name in called)
            function.add_function_attribute("noinline" if kept else "alwaysinline")
    for variable in module.global_variables:
        if variable.linkage is not llvm.Linkage.external:
            variable.linkage = "internal"
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=VECTORS_OF, opt=3)
    options = llvm.PipelineTuningOptions(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.add_strip_symbols_pass()
    passes.run(module, builder)


def _portable(text: str, source: Any) -> str:
    """Remove everything that names a machine or needs a new LLVM: layout, triple, metadata and attributes."""
    text = re.sub(r"^(?:;|source_filename|target|attributes|!).*\n", "", text, flags=re.MULTILINE)
    text = re.sub(
        r", ![\w.]+ !\d+| #\d+| *;.*| captures\(none\)| range\(.*?\)| samesign| (?:local_)?unnamed_addr", "", text
    )
    return f"; Made from {Path(source.__file__).name} by `python -m lab.checks`.\n{text}"


if __name__ == "__main__":
    main()
