"""Turns samples into figures, and figures into lines and a chart. Nothing is measured here."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Figures = dict[str, Any]


def spread(samples: Sequence[float]) -> Figures:
    """The distribution, and enough of its shape for a chart."""
    ordered = sorted(samples)
    at = [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in range(0, 101, 2)]
    return {
        "p50": statistics.median(ordered),
        "p90": ordered[len(ordered) * 90 // 100],
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "samples": len(ordered),
        "curve": at,
    }


def table(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[float | str]]) -> None:
    print(f"\n{title}")
    width = max(map(len, rows), default=0) + 2
    print(" " * width + "".join(f"{column:>17}" for column in columns))
    for name, cells in rows.items():
        print(f"{name:<{width}}" + "".join(f"{_cell(cell):>17}" for cell in cells))


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


_COLOURS = ("#2a7", "#c63", "#36c", "#999")
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 40, 640, 260


def curves(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """A chart of distributions: duration (up to the slowest p98) against the share that was faster."""
    most = max((line[-2] for line in lines.values()), default=1.0)
    parts = [f'<text x="{_LEFT}" y="20" font-size="15">{title}</text>']
    parts.append(f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#ccc"/>')
    for share in (0, 50, 98):
        y = _TOP + _HEIGHT * (1 - share / 98)
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{share} %</text>')
    for step in range(5):
        x, value = _LEFT + _WIDTH * step / 4, most * step / 4
        parts.append(f'<text x="{x:.0f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{value:.0f}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(
            f"{_LEFT + _WIDTH * min(value, most) / most:.1f},{_TOP + _HEIGHT * (1 - n / (len(line) - 2)):.1f}"
            for n, value in enumerate(line[:-1])
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + _HEIGHT + 44 + 18 * number
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 20}" y="{y}">{name}</text>')
    size = f'width="{_LEFT + _WIDTH + 40}" height="{_TOP + _HEIGHT + 50 + 18 * len(lines)}"'
    style = 'font-family="sans-serif" font-size="12" style="background:#fff"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>\n'
