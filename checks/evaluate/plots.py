"""Plots of an evaluation as SVG: ROC curves, reliability, and recall and false alarms against the threshold. Pure.

Written by hand so that an evaluation needs no plotting library; readable in any browser, in light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from checks.evaluate.facts import Task
from checks.evaluate.metrics import curve, reliability

_COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#16a3a3", "#7f4f24", "#555555")
_SIZE, _LEFT, _TOP, _LINE = 360, 52, 34, 16
_MOST_POINTS = 400

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot; both axes run from 0 to 1."""

    name: str
    points: Points
    dashed: bool = False
    marks: bool = False


def roc(title: str, tasks: Sequence[Task]) -> str:
    """ROC curves of tasks over the same question."""
    lines = [Line("chance", ((0.0, 0.0), (1.0, 1.0)), dashed=True)]
    for task in tasks:
        found = curve(task.judged)
        lines.append(Line(_name(task), list(zip(found.false_alarms.tolist(), found.recall.tolist(), strict=True))))
    return svg(title, "false alarms", "recall", lines)


def calibration(title: str, tasks: Sequence[Task]) -> str:
    """Share of positives against the stated probability, in bins."""
    lines = [Line("perfect", ((0.0, 0.0), (1.0, 1.0)), dashed=True)]
    for task in tasks:
        points = [(mean, share) for mean, share, _ in reliability(task.judged)]
        lines.append(Line(_name(task), points, marks=True))
    return svg(title, "stated probability", "share of positives", lines)


def thresholds(title: str, tasks: Sequence[Task]) -> str:
    """Recall (whole line) and false alarms (dashed) against the threshold on the score."""
    lines = []
    for task in tasks:
        found = curve(task.judged)
        at = [min(1.0, max(0.0, value)) for value in found.threshold.tolist()]
        lines.append(Line(f"{_name(task)}: recall", list(zip(at, found.recall.tolist(), strict=True))))
        alarms = list(zip(at, found.false_alarms.tolist(), strict=True))
        lines.append(Line(f"{_name(task)}: false alarms", alarms, dashed=True))
    return svg(title, "threshold", "share", lines)


def _name(task: Task) -> str:
    return task.classifier if task.aggregation == "-" else f"{task.classifier}, {task.aggregation}"


def svg(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """The plot as a standalone SVG document."""
    width, height = _LEFT + _SIZE + 24, _TOP + _SIZE + 48 + _LINE * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="13" font-weight="600">{escape(title)}</text>',
    ]
    for step in range(6):
        value = step / 5
        x, y = _x(value), _y(value)
        parts += [
            f'<path d="M{x} {_y(0)}V{_y(1)}M{_x(0)} {y}H{_x(1)}" stroke="#dddddd" fill="none"/>',
            f'<text x="{x}" y="{_y(0) + 15}" text-anchor="middle">{value:g}</text>',
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>',
        ]
    parts += [
        f'<text x="{_x(0.5)}" y="{_y(0) + 31}" text-anchor="middle">{escape(across)}</text>',
        f'<text transform="translate(14 {_y(0.5)}) rotate(-90)" text-anchor="middle">{escape(up)}</text>',
    ]
    for number, line in enumerate(lines):
        parts += _line(line, _COLOURS[number % len(_COLOURS)], _y(0) + 48 + _LINE * number)
    return "\n".join([*parts, "</svg>", ""])


def _line(line: Line, colour: str, legend: float) -> list[str]:
    points = [(_x(x), _y(y)) for x, y in _thinned(line.points)]
    dash = ' stroke-dasharray="4 3"' if line.dashed else ""
    stroke = f'stroke="{colour}" stroke-width="1.6" fill="none"{dash}'
    parts = [
        f'<path d="M{_LEFT} {legend - 4}h22" {stroke}/>',
        f'<text x="{_LEFT + 28}" y="{legend}">{escape(line.name)}</text>',
    ]
    if points:
        parts.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y in points)}" {stroke}/>')
    if line.marks:
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
    return parts


def _thinned(points: Points) -> Points:
    step = max(1, len(points) // _MOST_POINTS)
    return [*points[:-1:step], *points[-1:]]


def _x(value: float) -> float:
    return round(_LEFT + value * _SIZE, 1)


def _y(value: float) -> float:
    return round(_TOP + (1 - value) * _SIZE, 1)
