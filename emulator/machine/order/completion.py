"""Asynchronous operations of a cluster: issued, outstanding, completed in an order that the completion mode picks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from ...ptx.syntax import Instr

Completion = Literal["eager", "lazy", "random", "all"]


@dataclass(slots=True, eq=False)
class Wait:
    """The reason why a warp is suspended at `instr`, and the objects that can resume it.

    peek: the warp accepts a negative answer once nothing else can run. text: the entry in the deadlock table.
    """

    instr: Instr
    targets: tuple[Any, ...]
    text: Callable[[], str]
    peek: bool = False


@dataclass(slots=True, eq=False)
class AsyncOperation:
    """Work that an agent performs at completion. `targets`: the objects that report it to waiting warps.

    order: the queue that completes first in, first out; None for unordered work. about: the work as data, for
    recordings and the debugger; None if it follows from the instruction.
    """

    targets: tuple[Any, ...]
    perform: Callable[[], None]
    order: deque[AsyncOperation] | None = None
    about: Any = None


class Agents:
    """The outstanding operations of one cluster, in the order of issue."""

    def __init__(self, completion: Completion, random: Random) -> None:
        self.completion, self.random = completion, random
        self.pending: dict[AsyncOperation, None] = {}

    def issue(self, operation: AsyncOperation, held: bool = False) -> None:
        """Queue an operation. held: nothing can observe it before a later operation of its queue completes."""
        self.pending[operation] = None
        if operation.order is not None:
            operation.order.append(operation)
        if self.completion == "eager" and not held:
            self.complete(operation)

    def complete(self, operation: AsyncOperation) -> None:
        """Complete an operation and everything queued before it."""
        order = operation.order
        if order is None:
            del self.pending[operation]
            operation.perform()
            return
        while True:
            head = order.popleft()
            del self.pending[head]
            head.perform()
            if head is operation:
                return

    def complete_first(self, wanted: Set[Any] | None = None) -> bool:
        """Complete the oldest operation that reports to one of `wanted`, or to anything; False if there is none."""
        for operation in self.pending:
            if operation.targets and (wanted is None or not wanted.isdisjoint(operation.targets)):
                self.complete(operation)
                return True
        return False

    def complete_any(self) -> bool:
        """Complete a randomly chosen operation and everything queued before it; False if there is none.

        Operations without a target are not chosen: an uncommitted product may still get more steps.
        """
        reporting = [op for op in self.pending if op.targets]
        if reporting:
            self.complete(self.random.choice(reporting))
        return bool(reporting)

    def drain(self) -> None:
        """Complete everything, in the order of issue."""
        while self.pending:
            self.complete(next(iter(self.pending)))
