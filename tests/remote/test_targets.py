"""The example of the targets file, and the target that breaks on purpose."""

import pytest

from remote import targets
from remote.errors import LinkLost, TargetError
from remote.faulty import Faulty
from remote.link import run
from remote.local import Local
from remote.ssh import Ssh


def test_shipped_example_is_whole():
    read = targets.load(targets.EXAMPLE)
    assert isinstance(read.find(), Local) and read.find().name == "sim"
    b200 = read.find("b200")
    assert isinstance(b200, Ssh)
    assert (b200.device, b200.arch, b200.sync, b200.shared) == ("cuda", "sm_100a", "push", True)


def test_a_value_of_the_wrong_type_is_not_printed(tmp_path):
    """It may be a secret that was put into the wrong place."""
    file = tmp_path / "targets.toml"
    file.write_text('default = "a"\n[targets.a]\nkind = "ssh"\nhost = "a"\nworkdir = "/a"\ngpu = "s3cret"\n')
    with pytest.raises(TargetError, match=r"targets\.a\.gpu is a str: must be int") as caught:
        targets.load(file)
    assert "s3cret" not in str(caught.value)


def test_faulty_target_breaks_where_it_is_asked_to(tmp_path):
    file = tmp_path / "targets.toml"
    file.write_text(
        'default = "drill"\n[targets.sim]\nkind = "emulator"\n[targets.drill]\nkind = "faulty"\nof = "sim"\n'
    )
    with pytest.raises(TargetError, match="cut_at"):
        targets.load(file)
    file.write_text(file.read_text() + "cut_at = [4, 5]\n")
    drill = targets.load(file).find()
    assert isinstance(drill, Faulty) and drill.workdir == targets.load(file).find("sim").workdir
    link = drill.connect()
    assert run(link, ["echo", "1"]).out == b"1\n"
    mark = tmp_path / "mark"
    with pytest.raises(LinkLost, match="in the midst"):
        run(link, ["sh", "-c", f"touch {mark}; echo done"])
    assert mark.exists(), "what was asked for was done; its answer is lost"
    with pytest.raises(LinkLost, match="before"):
        run(drill.connect(), ["touch", str(tmp_path / "never")])
    assert not (tmp_path / "never").exists()
    assert run(drill.connect(), ["echo", "again"]).out == b"again\n"
