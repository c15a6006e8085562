"""Damaged PTX: copies of a module in which one line has a word dropped, duplicated or replaced."""

from __future__ import annotations

import random
import re

TOKEN = re.compile(r"[\w$%.:]+|[^\w\s]")
SIZES = ("8", "16", "32", "64", "128")
NUMBERS = ("0", "1", "-1", "7", "4294967296", "100000")


def damaged(lines: list[str], places: list[int], rng: random.Random) -> str:
    """Return the text with one change in one line: a word dropped, duplicated or exchanged, another width or number."""
    at = rng.choice(places)
    line = lines[at].split("//")[0]
    tokens = list(TOKEN.finditer(line))
    one, other = rng.choice(tokens), rng.choice(TOKEN.findall(lines[rng.choice(places)].split("//")[0]))
    first, second = sorted((one, rng.choice(tokens)), key=lambda t: t.start())
    exchanged = line if first is second else (
        line[: first.start()] + second[0] + line[first.end() : second.start()] + first[0] + line[second.end() :]
    )  # fmt: skip
    new = rng.choice(
        (
            "",
            f"{line} {line}",
            line[: one.start()] + line[one.end() :],
            line[: one.end()] + " " + line[one.start() :],
            line[: one.start()] + other + line[one.end() :],
            exchanged,
            re.sub(r"(?<=[bsuf])(8|16|32|64|128)\b", lambda _: rng.choice(SIZES), line),
            re.sub(r"\b\d+\b", lambda _: rng.choice(NUMBERS), line),
            re.sub(r"%\w+", lambda _: rng.choice(re.findall(r"%\w+", "\n".join(lines))), line, count=1),
        )
    )
    return "\n".join([*lines[:at], new, *lines[at + 1 :]])


def copies(text: str, count: int, seed: int) -> list[str]:
    """Yield damaged copies of a module. The text before its first kernel is unchanged."""
    lines, rng = text.splitlines(), random.Random(seed)
    start = next(i for i, line in enumerate(lines) if ".entry" in line)
    places = [i for i, line in enumerate(lines) if i > start and ";" in line.split("//")[0]]
    return [damaged(lines, places, rng) for _ in range(count)]
