"""limits.toml has a limit for every package, and for the repository."""

import tomllib

from lab import size


def test_every_package_has_a_limit() -> None:
    assert set(tomllib.loads(size.LIMITS.read_text())) == set(size.sizes()) - {"tests"}
