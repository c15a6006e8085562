"""A user with a clone who judges changes on a target, and the progress that they see."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from harness.client.driver import Driver
from harness.client.run_store import RunStore
from harness.host.job import Workplace
from harness.host.repository import Repository

CLIENT = """
from pathlib import Path
from harness.client.driver import Driver
from harness.client.run_store import RunStore
from harness.host.repository import Repository
import {module}

class Aloud:
    def say(self, text): print(text, flush=True)
    doing = say

{first}
here = Path({clone!r})
Driver(Repository(here), RunStore(here / "results"), Aloud()).judge(["D1.1"], {module}.{target!r})
"""


class Person:
    """One user's clone, and a driver for a target."""

    PATIENCE_S = 600.0

    def __init__(self, project, workdir, target):
        self.project, self.target = project, target
        self.said, self.doings, self.died = [], [], []
        self.place = Workplace(workdir)
        self.repository = Repository(project.path)
        self.driver = Driver(self.repository, RunStore(project.path / "results"), self)

    def say(self, text):
        self.said.append(text)

    def doing(self, text):
        self.doings.append(text)

    def stage(self, *milestones):
        return self.driver.judge(milestones or ("D1.1",), self.target)

    def in_background(self, *milestones):
        result = []

        def judge():
            try:
                result.append(self.stage(*milestones))
            except Exception as error:
                self.died.append(error)
                raise

        thread = threading.Thread(target=judge)
        thread.start()
        return thread, result

    def wait_for(self, words):
        deadline = time.monotonic() + self.PATIENCE_S
        while not any(words in text for text in self.said + self.doings):
            assert not self.died and time.monotonic() < deadline, (words, self.said, self.doings, self.died)
            time.sleep(0.02)

    def stage_until_killed(self, first=""):
        """Judge D1.1 in its own process, which runs the line `first` first. Kill it once the gate has begun."""
        module = type(self.target).__module__
        program = CLIENT.format(module=module, first=first, clone=str(self.project.path), target=self.target)
        root = Path(__file__).parents[2]
        client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root)
        assert client.stdout is not None
        for line in client.stdout:
            if line.startswith("gate"):
                break
        client.kill()
        client.wait()
