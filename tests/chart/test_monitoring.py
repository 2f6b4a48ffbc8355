"""The dashboard and the alert rules ask Prometheus for metrics and labels that a gateway really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from checks.types import CheckedIssue, IssueLabel, Reason, Status, Verdict
from gateway.ledger.record import AttemptRecord
from gateway.ledger.store import PostgresStore
from gateway.ledger.writer import LedgerSettings, SpooledLedger
from gateway.telemetry import Metrics
from tests.chart.helm import Helm, one
from tests.chart.value_sets import USUAL
from tests.gateway.ledger.records import rich_record

FILES = Path(__file__).parents[2] / "helm" / "files"
# What Prometheus itself adds to a sample of a pod.
SCRAPED = {"job", "namespace", "pod", "instance"}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """The labels of every sample that a gateway exposes once everything has happened, by the sample's name."""
    metrics = Metrics()
    settings = LedgerSettings(directory=tmp_path_factory.mktemp("spool"))
    ledger = SpooledLedger(settings, PostgresStore("postgresql://nobody@127.0.0.1:9/nothing"))
    metrics.watch("ledger", ledger.stats)
    metrics.exchange(rich_record("ex_1", attempts=[AttemptRecord("main", None, 0.2, "timeout")]))
    metrics.stage("r", "retrieval", 0.1)
    metrics.verdict("r", Verdict("fact_check", Status.NOT_CHECKED, Reason.TIMEOUT))
    dropped = CheckedIssue("a.py", 1, 1, "x", Status.FAILED, IssueLabel.HALLUCINATION, action="drop")
    metrics.verdict("r", Verdict("code_review", Status.FAILED, issues=(dropped,)))
    metrics.drift("r", drifted=True)
    metrics.problem("retrieval_failed")
    metrics.reloaded(accepted=False)
    metrics.unrecorded()
    text = metrics.render()[0].decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    # A verdict with facts has every label of this one; its values come from the same fixed lists.
    found["grounding_facts_total"] = {"route", "kind", "label", "status"}
    return found


def walk(node: Any) -> Iterator[Any]:
    """Every part of an expression."""
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        inner = getattr(node, name, None)
        if inner is not None:
            yield from walk(inner)
    for argument in getattr(node, "args", ()):
        yield from walk(argument)


def check(expression: str, exposed: Mapping[str, set[str]]) -> None:
    tree = promql.parse(expression.replace("$__rate_interval", "5m"))
    known = set(SCRAPED)
    for part in walk(tree):
        if isinstance(part, promql.VectorSelector):
            assert part.name in exposed, f"{part.name} is no metric of the gateway: {expression}"
            labels = exposed[part.name]
            known |= labels
            matched = {matcher.name for matcher in part.matchers.matchers}
            assert matched <= labels | SCRAPED, f"{part.name} has no label {matched - labels - SCRAPED}"
    for part in walk(tree):
        if isinstance(part, promql.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= known, expression


def test_every_alert_watches_metrics_that_exist(helm: Helm, exposed: Mapping[str, set[str]]) -> None:
    values = {**USUAL, "metrics": {"rules": {"enabled": True, "failedShare": 0.35, "spoolSeconds": 90}}}
    groups = one(helm.template(values), "PrometheusRule")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 9
    for rule in rules:
        check(rule["expr"], exposed)
        assert 'job="gw-grounding-gateway",namespace="ai"' in rule["expr"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "description"}
    text = yaml.safe_dump(rules)
    assert "0.35" in text
    assert "> 90" in text
    assert "@" not in text


def test_every_panel_of_the_dashboard_shows_metrics_that_exist(helm: Helm, exposed: Mapping[str, set[str]]) -> None:
    config_map = one(helm.template(USUAL), "ConfigMap", "gw-grounding-gateway-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    dashboard = json.loads(text)
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(panels) >= 20
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in panels:
        for target in panel["targets"]:
            check(target["expr"], exposed)
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= variables
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set.union(SCRAPED, *exposed.values())
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
            assert label in exposed[metric] | SCRAPED
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]}
    assert len(places) == len(dashboard["panels"])  # none hides another
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_statuses_that_rules_name_are_those_of_the_product() -> None:
    text = (FILES / "alerts.yaml").read_text()
    assert {"passed", "failed"} < {status.value for status in Status}
    named = set(re.search(r'reason=~"([^"]+)"', text)[1].split("|"))  # type: ignore[index]
    assert named <= {reason.value for reason in Reason}
