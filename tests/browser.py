"""A headless Chromium for tests: it opens pages, evaluates JavaScript in them, and collects console errors."""

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.system import program

PATIENCE_S = 600.0
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--remote-debugging-pipe")


class Browser:
    """A client of the DevTools protocol over two pipes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, commands: int, answers: int) -> None:
        self._popen, self._log, self._process = process, log, psutil.Process(process.pid)
        self._commands, self._answers, self._rest = commands, answers, b""
        self._count, self._session = 0, ""
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    @property
    def log(self) -> str:
        """The last lines that the browser printed."""
        return self._log.read_text(errors="replace")[-2000:]

    @property
    def ended(self) -> bool:
        """True if the browser's process has ended, as it does now and then on a busy machine."""
        return self._popen.poll() is not None

    def open(self, page: Path) -> float:
        """Load a page completely and return the CPU seconds it took, which do not depend on how busy the machine is."""
        started = self._cpu_s()
        self._events.clear()
        self._call("Page.navigate", url=page.as_uri())
        self._loaded()
        return self._cpu_s() - started

    def click(self, selector: str) -> str:
        """Follow the first link that matches `selector` and return the new address."""
        click = "new MouseEvent('click', {bubbles: true, cancelable: true})"  # an SVG's links have no click()
        return self._leave(f"document.querySelector({json.dumps(selector)}).dispatchEvent({click})")

    def back(self) -> str:
        """Go back to the previous page."""
        return self._leave("history.back()")

    def _leave(self, expression: str) -> str:
        """Leave the page by JavaScript that runs after this evaluation: a page that is gone returns no result."""
        self._events.clear()
        self.ask(f"void setTimeout(() => {expression})")
        self._loaded()
        return str(self.ask("location.pathname"))

    def ask(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, width: int, dark: bool) -> None:
        """Show pages on a screen of `width` pixels, light or dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def _cpu_s(self) -> float:
        """Return the CPU seconds of all processes of the browser."""
        used = 0.0
        for each in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += sum(each.cpu_times()[:2])
        return used

    def _loaded(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._hear()

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._count:
                assert "error" not in heard, heard
                return heard["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._answers], [], [], PATIENCE_S)[0], "the browser says nothing"
            data = os.read(self._answers, 1 << 20)
            assert data, f"the browser has ended: {self.log}"
            self._rest += data
        line, self._rest = self._rest.split(b"\0", 1)
        heard: dict[str, Any] = json.loads(line)
        self._events += [heard] if "method" in heard else []
        if heard.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.errors.append(json.dumps(heard["params"])[:500])
        return heard


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a temporary profile, in which its log lies."""
    found = program("browser")
    assert found
    there, commands = os.pipe()
    answers, here = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The DevTools protocol uses file descriptors 3 and 4.
        exec_ = f'exec "$0" "$@" 3<&{there} 4>&{here}'
        log = Path(profile, "log.txt")
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", exec_, found, *OPTIONS, f"--user-data-dir={profile}"],
                pass_fds=(there, here),
                env=os.environ | {"TMPDIR": profile},
                stderr=stream,
            )
        os.close(there)
        os.close(here)
        try:
            yield Browser(process, log, commands, answers)
        finally:
            process.kill()
            process.wait()
            os.close(commands)
            os.close(answers)
