"""A real Slurm on this machine: munged, slurmctld and several slurmd, with all files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from remote.loopback import reserved_port

START_S = 600.0
CONFIGURATION = """
ClusterName=fmha
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=6
KillWait=5
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=1 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=1 RealMemory=2000
PartitionName=main Nodes=n1,n2 Default=YES State=UP PriorityTier=1
PartitionName=urgent Nodes=n1,n2 State=UP PriorityTier=10 PreemptMode=OFF
"""
#: Options that limit jobs to the memory that they request, if this machine allows it.
MEMORY = Path("/sys/fs/cgroup/memory")
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"


class Cluster:
    """The daemons, which run as root. Each node is a slurmd with one processor."""

    NODES = ("n1", "n2")

    def __init__(self) -> None:
        self.folder = folder = Path(tempfile.mkdtemp(prefix="fmha-slurm-"))
        folder.chmod(0o755)
        self.configuration = folder / "slurm.conf"
        self._reserved = {name: reserved_port() for name in ("port", *self.NODES)}
        ports = {name: port for name, (_, port) in self._reserved.items()}
        host = socket.gethostname().split(".")[0]
        self.limits_memory = os.access(MEMORY / "cgroup.procs", os.W_OK)
        task = "task/cgroup" if self.limits_memory else "task/none"
        self.configuration.write_text(CONFIGURATION.format(folder=folder, host=host, task=task, **ports))
        (folder / "cgroup.conf").write_text(CGROUPS)
        (folder / "munge.key").write_bytes(os.urandom(64))
        (folder / "munge.key").chmod(0o600)
        for name in ("state", *self.NODES):
            (folder / name).mkdir()
        self.munge = self._daemon(
            "munged", "--foreground", "--force", *(f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid",
            "log", "seed")), f"--socket={folder}/munge.socket",
        )  # fmt: skip
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the daemons, and wait until every node is idle."""
        self.start_controller()
        for name in self.NODES:
            self.start_node(name)
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%T %D") == f"idle {len(self.NODES)}")

    def start_controller(self) -> None:
        self.controller = self._daemon("slurmctld", "-D", "-f", str(self.configuration))

    @contextmanager
    def configured(self, *more: str) -> Iterator[None]:
        """Run the controller with more lines in its configuration while the body runs."""
        before = self.configuration.read_text()
        self._restart("\n".join([before, *more, ""]))
        try:
            yield
        finally:
            self.cancel_all()
            self._restart(before)

    def _restart(self, configuration: str) -> None:
        self.configuration.write_text(configuration)
        self.controller.terminate()
        self.controller.wait()
        self.start_controller()
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%T %D", "-p", "main") == "idle 2")

    def start_node(self, name: str) -> None:
        self.nodes[name] = self._daemon("slurmd", "-D", "-N", name, "-f", str(self.configuration))

    def kill_node(self, name: str) -> None:
        """Kill a node as if its power were cut: its daemon, then its jobs' slurmstepd, then their processes."""
        self.nodes[name].kill()
        self.nodes[name].wait()
        jobs = [each for each in psutil.process_iter() if _is_of_job_on(each, name, self.configuration)]
        keepers = {parent for each in jobs for parent in each.parents() if parent.name().startswith("slurmstepd")}
        for each in (*keepers, *jobs):
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def ask(self, *argv: str, patience_s: float = 600.0) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=patience_s)
        return (done.stdout if done.returncode == 0 else done.stderr).strip()

    def wait_for(self, holds) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + START_S
        while not holds():
            assert time.monotonic() < deadline, self.ask("squeue", "--states=all") + self.ask("sinfo")
            time.sleep(0.05)

    def occupy(self, *options: str, patience_s: float = 600.0) -> str:
        """Submit a job that uses one processor until it is cancelled."""
        return self.ask(
            "sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600", patience_s=patience_s
        )

    def cancel_all(self) -> None:
        self.ask("scancel", *self.ask("squeue", "--noheader", "--format=%A").split())

    def clear(self) -> None:
        """End every job, and bring every node back."""
        self.cancel_all()
        for name, node in self.nodes.items():
            if node.poll() is not None:
                self.start_node(name)
        for name in self.NODES:
            self.ask("scontrol", "update", f"NodeName={name}", "State=RESUME")
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%T %D", "-p", "main") == "idle 2")

    def stop(self) -> None:
        self.cancel_all()
        for each in (*self.nodes.values(), self.controller, self.munge):
            each.terminate()
        for each in (*self.nodes.values(), self.controller, self.munge):
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
        for reserved, _ in self._reserved.values():
            reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _daemon(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        found = shutil.which(program, path=f"/usr/sbin:{os.environ['PATH']}")
        assert found is not None
        with open(self.folder / f"{program}.out", "ab") as output:
            return subprocess.Popen(
                [found, *arguments],
                stdout=output,
                stderr=output,
                env=os.environ | {"SLURM_CONF": str(self.configuration)},
            )


def _is_of_job_on(process: psutil.Process, node: str, configuration: Path) -> bool:
    try:
        variables = process.environ()
    except psutil.Error:
        return False
    return variables.get("SLURMD_NODENAME") == node and variables.get("SLURM_CONF") == str(configuration)
