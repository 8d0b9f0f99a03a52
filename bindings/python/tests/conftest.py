"""Fixtures: a fresh pool a test, and a subprocess that runs a piece of Python."""

import os
import pathlib
import subprocess
import sys

import pytest

import cenote

SOURCE = pathlib.Path(cenote.__file__).parent.parent


@pytest.fixture
def pool():
    made = cenote.Pool(name="python test")
    yield made
    assert made.stats.live_blocks == 0, "the test left live blocks"
    made.close()


@pytest.fixture
def host_visible(pool):
    if not cenote.device_info(0).host_visible:
        pytest.skip("the CPU cannot use this device's memory")


@pytest.fixture
def python():
    """Runs a text in a fresh interpreter: (exit code, stdout, stderr)."""

    def run(text, **environment):
        inherited = dict(os.environ, PYTHONPATH=str(SOURCE), CENOTE_LIBRARY=cenote.library_path())
        inherited.update(environment)
        done = subprocess.run(
            [sys.executable, "-c", text], env=inherited, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    return run
