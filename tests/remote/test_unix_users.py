"""Two Unix users of one host, and of one cluster, each with their own work folder."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.host.repository import ACCEPTED, Repository
from remote.slurm import Slurm
from remote.ssh import Ssh
from tests.remote.conftest import serving
from tests.remote.person import Person

pytestmark = [pytest.mark.long, pytest.mark.sshd]


@pytest.fixture
def other_sshd(other_account, laptop_home):
    with serving(other_account, "bobs", laptop_home) as server:
        yield server


def owners(workdir):
    return {path.stat().st_uid for path in Path(workdir).rglob("*")}


def test_a_work_folder_of_another_account_is_refused(project, other_clone, sshd, other_sshd):
    workdir = sshd.folder / "work"
    ada = Person(project, workdir, Ssh("b200", "b200", str(workdir), sshd.account.python, device="emulator", disk_mb=8))
    assert ada.stage().verdict == "ACCEPT"
    theirs = Ssh("b200", "bobs", str(workdir), other_sshd.account.python, device="emulator", disk_mb=8)
    entry = Person(other_clone, workdir, theirs).stage()
    assert entry.verdict == "INFRA"
    assert f"workdir {workdir} belongs to the account {sshd.account.name}: choose one of your own" in entry.reason


@pytest.mark.slurm
def test_two_users_of_a_cluster(project, other_clone, sshd, other_sshd, cluster):
    """They run at the same time on different nodes, and neither can end or accept the other's runs."""
    people, going = [], []
    for clone, name, server in ((project, "b200", sshd), (other_clone, "bobs", other_sshd)):
        target = Slurm("cluster", str(server.folder / "work"), name, python=server.account.python, device="emulator")
        people.append(Person(clone, server.folder / "work", target))
        clone.kernel(cosine=1.0, sleep=6)
    for person in people:
        going.append(person.in_background())
        person.wait_for("first run of this clone")  # two threads of CPython 3.11.7 cannot parse at once (gh-106905)
    for person in people:
        person.wait_for("gate")
    mine = next(people[0].driver.store.newest_first()).run
    number = (people[0].place.run(mine).path / "slurm").read_text().strip()
    done = subprocess.run(
        ["scancel", number], user=other_sshd.account.uid, group=other_sshd.account.gid, capture_output=True,
        extra_groups=[], text=True, env=os.environ, cwd="/",
    )  # fmt: skip
    assert "Access/permission denied" in done.stderr, done
    for thread, _ in going:
        thread.join()
    assert [results[0].verdict for _, results in going] == ["ACCEPT", "ACCEPT"], [person.said for person in people]
    for person, server in zip(people, (sshd, other_sshd), strict=True):
        assert owners(server.folder / "work") == {server.account.uid}
        assert Repository(person.project.path).resolve(ACCEPTED) is not None
    nodes = {text.split(" on ")[1] for person in people for text in person.said if text.startswith("Slurm: running")}
    assert nodes == {"n1", "n2"}
