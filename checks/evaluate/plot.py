"""An evaluation as a plot: recall of hallucinations against valid issues wrongly flagged, as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from checks.evaluate.review import Report, Result

_WIDTH, _HEIGHT = 760, 560
_LEFT, _TOP, _SIDE = 70, 40, 460
_COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#117a65", "#5d6d7e", "#a04000")


def svg(report: Report, title: str) -> str:
    """The plot of a report; variants without both kinds of issues are left out."""
    results = [one for one in report.results if one.measures.recall.total and one.measures.false_positives.total]
    body = "\n".join((*_axes(title, report), *_points(results)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


def _axes(title: str, report: Report) -> Iterator[str]:
    bottom = _TOP + _SIDE
    yield f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>'
    yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#888"/>'
    yield f'<line x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _SIDE}" y2="{_TOP}" stroke="#bbb" stroke-dasharray="4 4"/>'
    for tick in range(0, 101, 20):
        x, y = _x(tick / 100), _y(tick / 100)
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}%</text>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}%</text>'
    middle = _LEFT + _SIDE / 2
    yield f'<text x="{middle}" y="{bottom + 42}" text-anchor="middle">valid issues wrongly flagged</text>'
    yield (
        f'<text x="18" y="{_TOP + _SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 18 {_TOP + _SIDE / 2})">hallucinations found</text>'
    )
    if report.results:
        rate = report.results[0].measures.base_rate
        said = f"{rate.hits} hallucinations among {rate.total} issues; bars: 95% intervals"
        yield f'<text x="{_LEFT}" y="{_HEIGHT - 8}" fill="#555">{said}</text>'


def _points(results: Sequence[Result]) -> Iterator[str]:
    for place, result in enumerate(results):
        colour = _COLOURS[place % len(_COLOURS)]
        across, up = result.measures.false_positives, result.measures.recall
        x, y = _x(across.value or 0.0), _y(up.value or 0.0)
        (left, right), (low, high) = across.interval or (0.0, 0.0), up.interval or (0.0, 0.0)
        yield f'<line x1="{_x(left):.1f}" y1="{y:.1f}" x2="{_x(right):.1f}" y2="{y:.1f}" stroke="{colour}"/>'
        yield f'<line x1="{x:.1f}" y1="{_y(low):.1f}" x2="{x:.1f}" y2="{_y(high):.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
        legend = _TOP + 12 + 20 * place
        yield f'<circle cx="{_LEFT + _SIDE + 22}" cy="{legend - 4}" r="5" fill="{colour}"/>'
        yield f'<text x="{_LEFT + _SIDE + 34}" y="{legend}">{escape(result.name)}</text>'


def _x(share: float) -> float:
    return _LEFT + share * _SIDE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIDE
