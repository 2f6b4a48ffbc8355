"""What the guide in examples/kubernetes tells people to apply is what a cluster and the gateway accept."""

from __future__ import annotations

import re
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from gateway.config.load import examine
from tests.chart.helm import ROOT, Helm, one

EXAMPLE = ROOT / "examples" / "kubernetes"
GUIDE = (EXAMPLE / "README.md").read_text()


def test_the_example_values_make_gateways_that_read_their_configuration(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(yaml.safe_load((EXAMPLE / "values.yaml").read_text()), release="gateway")
    text = one(manifests, "ConfigMap", "gateway-grounding-gateway")["data"]["gateway.yaml"]
    # The Secrets that the guide makes, where the pod would see them.
    made = dict(re.findall(r"create secret generic (\w+) ((?:.|\\\n)*?)\n(?=kubectl|```)", GUIDE))
    assert made.keys() == {"ledger", "fences", "openai"}
    for name, literals in made.items():
        (tmp_path / name).mkdir()
        for key, value in re.findall(r"--from-literal=([\w-]+)=(\S+)", literals):
            (tmp_path / name / key).write_text(value)
    reading = examine(text.replace("/run/secrets", str(tmp_path)), tmp_path / "gateway.yaml", {})
    assert reading.problems == ()


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_a_cluster_accepts_the_trial_postgres(version: str) -> None:
    for manifest in yaml.safe_load_all((EXAMPLE / "postgres.yaml").read_text()):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_guide_names_files_and_objects_that_exist(helm: Helm) -> None:
    for path in re.findall(r"(?<![\w/])examples/[\w./-]+", GUIDE):
        assert (ROOT / path.rstrip(".")).exists(), path
    manifests = helm.template(yaml.safe_load((EXAMPLE / "values.yaml").read_text()), release="gateway")
    names = {f"{m['kind'].lower()}/{m['metadata']['name']}" for m in manifests}
    postgres = yaml.safe_load_all((EXAMPLE / "postgres.yaml").read_text())
    names |= {f"{m['kind'].lower()}/{m['metadata']['name']}" for m in postgres}
    named = set(re.findall(r"(?:statefulset|service|job)/[\w-]+", GUIDE))
    assert named
    assert named <= names
