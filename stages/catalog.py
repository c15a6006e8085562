"""The milestones, in the order in which they build on each other. One without a module is rejected, never skipped."""

import importlib
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent
FILE = FOLDER / "cases.toml"
#: Cases of a milestone that a second process records. All would take a fifth of the time of all milestones, to compile
#: 199 configurations, and show a process that differs by chance no more often: it differs in each case.
SAMPLE = 2


class UnknownMilestone(ValueError):
    """The name is not in the catalog."""


class NotBuilt(ValueError):
    """The milestone is in the catalog, but has no module yet."""


@dataclass(frozen=True)
class Milestone:
    """One row of the catalog. needs: the milestone that it builds on. summary: what the kernel can do with it."""

    id: str
    needs: str | None
    summary: str

    @property
    def module(self) -> Path:
        """Path of its pytest module: `stages/d1_1.py` for D1.1."""
        return FOLDER / f"{self.id.lower().replace('.', '_')}.py"

    @property
    def built(self) -> bool:
        """True if its module exists."""
        return self.module.exists()

    def launched(self) -> list[Any]:
        """Return the cases that its tests launch: CASES, and those of TWINS if it has them."""
        module = self.load()
        return list(dict.fromkeys((*module.CASES, *getattr(module, "TWINS", ()))))

    def beside(self, others: Sequence[str]) -> list[Any]:
        """Return the cases of other milestones that its run has too. others: milestones, and names as of `name_of`.

        The gate has those of `cases.toml`, others all cases of the milestone that they need, and the first of others.
        """
        always = tomllib.loads(FILE.read_text())[f"{GATE.id} beside"]
        found: list[Any] = []
        for other, _, drawn in (each.partition(" ") for each in others):
            cases = find(other).load().CASES
            if drawn or self is GATE:
                found += [case for case in cases if case.name in ([drawn] if drawn else always.get(other, []))]
            else:
                found += cases[: None if other == self.needs else 1]
        return found

    def prerequisites(self) -> list[str]:
        """Return the milestones that it builds on, the one that it needs first."""
        return [self.needs, *find(self.needs).prerequisites()] if self.needs else []

    def name_of(self, case: Any) -> str:
        """Return the name of a case in its record: with the milestone, if that is another one."""
        return str(case) if case.milestone == self.id else f"{case.milestone} {case}"

    def sample(self, seed: int, others: Sequence[str] = ()) -> list[Any]:
        """Return SAMPLE of the cases of its run, drawn by `seed`."""
        cases = [*self.launched(), *self.beside(others)]
        return random.Random(seed).sample(cases, min(SAMPLE, len(cases)))

    def load(self) -> ModuleType:
        """Import its module, which defines CASES and SEEDS."""
        return importlib.import_module(f"stages.{self.module.stem}")


CATALOG = (
    Milestone("D1.1", None, "hd=64, one KV tile, P staged in tensor memory: the regression gate"),
    Milestone("D1.2", "D1.1", "many KV tiles, online softmax, rescaled O"),
    Milestone("D1.3", "D1.2", "P staged in shared memory beside tensor memory, hd up to 256"),
    Milestone("D1.4", "D1.3", "hd=512: logits accumulated over the head dim inside the kernel"),
    Milestone("D1.5", "D1.4", "normalised output, one way from tensor memory to global memory"),
    Milestone("D2", "D1.5", "multi-query grid, heads packed into rows"),
    Milestone("D3", "D2", "swa_lens mask"),
    Milestone("D4", "D3", "causal and window mask, skipped tiles"),
    Milestone("D5a", "D4", "partials (U, lse, m)"),
    Milestone("D5b", "D5a", "merge of the branches in Python"),
    Milestone("D5c", "D5b", "window and compressed branch in one launch"),
    Milestone("D5d", "D5c", "sink merged in the epilogue, O and lse out of one launch"),
    Milestone("D6a", "D5d", "top-k lists as callers have them: any heads up to 128, any topk, free strides"),
    Milestone("D6b", "D6a", "pages of any size and stride, by indices or block tables"),
    Milestone("D6c", "D6b", "two caches in one softmax"),
    Milestone("D6d", "D6c", "FP8 caches of DeepSeek-V4, 584 bytes a key"),
    Milestone("D6f", "D6d", "decode: split keys, several tokens, and bits that do not depend on the batch"),
    Milestone("D6e", "D6f", "keys of 576 columns, values of 512: bf16, and DeepSeek-V3.2's FP8 of 656 bytes"),
    Milestone("D6g", "D6e", "caches of DeepSeek-V4.1: FP8 of 528 bytes a key, FP4 of 288"),
    Milestone("D6h", "D6g", "few heads at full speed: on a B200 operands swapped, keys converted by integers"),
)

GATE = CATALOG[0]

#: Limit for compiling one configuration, in seconds of CPU time; the goal is 10. A longer compile ends as COMPILE_HANG.
COMPILE_S = 60.0


def find(name: str) -> Milestone:
    """Find a milestone by its id, ignoring case. Raises UnknownMilestone, which lists the ids."""
    for milestone in CATALOG:
        if milestone.id.lower() == name.lower():
            return milestone
    known = ", ".join(milestone.id for milestone in CATALOG)
    raise UnknownMilestone(f"{f'no milestone {name!r}' if name else 'no milestone was given'}; there are {known}")


def runnable(name: str) -> Milestone:
    """Find a milestone that has a module. Raises UnknownMilestone or NotBuilt."""
    milestone = find(name)
    if not milestone.built:
        built = ", ".join(each.id for each in CATALOG if each.built)
        raise NotBuilt(f"{milestone.id} is not built yet ({milestone.summary}); built so far: {built}")
    return milestone
