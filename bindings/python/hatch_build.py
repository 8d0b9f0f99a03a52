"""Builds the shared library and the `cenote` command with cargo and puts both into the wheel."""

import os
import pathlib
import shutil
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CargoBuildHook(BuildHookInterface):
    """Runs cargo in the crate above; the wheel serves every Python of the platform."""

    def initialize(self, version, build_data):
        if self.target_name != "wheel":
            return
        root = pathlib.Path(self.root).parent.parent
        if not (root / "Cargo.toml").exists():
            raise RuntimeError("cenote: the Rust sources are missing: install from a checkout")
        cargo = os.environ.get("CARGO", "cargo")
        if shutil.which(cargo) is None:
            raise RuntimeError("cenote: cargo is not installed: install Rust, then try again")
        library, command = self.build(root, cargo)
        tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        build_data["force_include"][str(library)] = "cenote/_lib/libcenote.so.0"
        build_data["shared_scripts"][str(command)] = "cenote"
        if version == "editable":
            self.beside_sources(library)

    def build(self, root, cargo):
        """The paths of the library and the command, made by cargo."""
        release = ["--release", "--locked"]
        # The command first: building it also links the library, but as one of several crate types,
        # for which cargo leaves link-time optimisation out.
        self.run(root, [cargo, "build", "--bin", "cenote", "--features", "cli", *release])
        self.run(root, [cargo, "rustc", "--lib", "--crate-type", "cdylib", *release])
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
        built = root / target / "release"
        return self.lean(built / "libcenote.so"), self.lean(built / "cenote")

    def lean(self, path):
        """A copy without debugging information; with it where there is no strip."""
        folder = pathlib.Path(self.directory) / "native"
        folder.mkdir(parents=True, exist_ok=True)
        copy = pathlib.Path(shutil.copy2(path, folder / path.name))
        strip = shutil.which(os.environ.get("STRIP", "strip"))
        if strip is not None:
            subprocess.run([strip, "--strip-unneeded", str(copy)], check=False)
        return copy

    def beside_sources(self, library):
        """An editable install reads the source folder: the library must lie there."""
        folder = pathlib.Path(self.root) / "src/cenote/_lib"
        folder.mkdir(exist_ok=True)
        shutil.copy2(library, folder / "libcenote.so.0")

    def run(self, root, arguments):
        """One cargo command; its own message is the best there is."""
        if subprocess.run(arguments, cwd=root, check=False).returncode != 0:
            raise RuntimeError(f"cenote: failed: {' '.join(arguments)}")
