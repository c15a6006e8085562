"""Somebody who takes a clone's changes to a target, and what they are told meanwhile."""

import threading
import time

from harness.client.driver import Driver
from harness.client.run_store import RunStore
from harness.host.job import Workplace
from harness.host.repository import Repository


class Person:
    """One user's clone, and the gate to a target."""

    PATIENCE_S = 20.0

    def __init__(self, project, workdir, target):
        self.project, self.target = project, target
        self.said, self.doings = [], []
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
        thread = threading.Thread(target=lambda: result.append(self.stage(*milestones)))
        thread.start()
        return thread, result

    def wait_for(self, words, patience_s=None):
        deadline = time.monotonic() + (patience_s or self.PATIENCE_S)
        while not any(words in text for text in self.said + self.doings):
            assert time.monotonic() < deadline, (words, self.said, self.doings)
            time.sleep(0.02)
