"""The wheel: what the build hook puts into it. Cargo is played by a script that copies."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import cenote

FOLDER = pathlib.Path(__file__).parent.parent
CARGO = """#!/bin/sh
echo "$@" >>"{log}"
mkdir -p "$CARGO_TARGET_DIR/release"
cp "{library}" "$CARGO_TARGET_DIR/release/libcenote.so"
printf '#!/bin/sh\\necho command\\n' >"$CARGO_TARGET_DIR/release/cenote"
chmod +x "$CARGO_TARGET_DIR/release/cenote"
"""


@pytest.fixture
def build(tmp_path):
    """Builds the wheel with a cargo of the given text: (exit code, output, wheels)."""
    pytest.importorskip("hatchling")

    def run(text):
        cargo = tmp_path / "cargo"
        cargo.write_text(text.format(log=tmp_path / "log", library=cenote.library_path()))
        cargo.chmod(0o755)
        environment = dict(
            os.environ, CARGO=str(cargo), CARGO_TARGET_DIR=str(tmp_path / "target"), STRIP="true"
        )
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
        done = subprocess.run(
            [*hatchling, "-d", str(tmp_path / "out")],
            cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=120,
        )
        return done.returncode, done.stdout + done.stderr, list(tmp_path.glob("out/*.whl"))

    return run


def test_contents(build, tmp_path):
    code, output, wheels = build(CARGO)
    assert code == 0, output
    (wheel,) = wheels
    assert wheel.name.startswith(f"cenote-{cenote.version()}-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (command,) = [name for name in names if name.endswith(".data/scripts/cenote")]
        assert archive.getinfo(command).external_attr >> 16 & 0o111
        (metadata,) = [name for name in names if name.endswith("/METADATA")]
        requires = [line for line in archive.read(metadata).decode().splitlines()
                    if line.startswith("Requires-Dist") and "extra ==" not in line]
        library = archive.getinfo("cenote/_lib/libcenote.so.0")
        assert library.file_size == os.path.getsize(cenote.library_path())
    assert requires == []
    assert {"cenote/py.typed", "cenote/_abi.py"} <= set(names)
    # The library last, by itself: as one of several crate types it would not be optimised whole.
    assert "cdylib" in (tmp_path / "log").read_text().splitlines()[-1]


def test_a_failing_cargo(build):
    code, output, wheels = build("#!/bin/sh\nexit 3\n")
    assert code != 0 and wheels == []
    assert "cenote: failed:" in output
