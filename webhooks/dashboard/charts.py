"""Bar charts as small inline SVG, without a style or a script in them. Pure.

The picture has a title for those who can't see it; pages put a table with the numbers beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from coven.visible import with_visible

WIDTH, HEIGHT = 640, 180
_LEFT, _TOP, _BOTTOM = 44, 12, 26


def columns(title: str, values: Sequence[tuple[str, float]], unit: str) -> Markup:
    """Upright bars, one per label, over a scale that begins at 0."""
    if not values:
        return Markup("")
    top = nice(max((value for _, value in values), default=0))
    inner, floor = WIDTH - _LEFT - 8, HEIGHT - _BOTTOM
    step = inner / len(values)
    every = max(1, -(-len(values) // 8))
    parts = [_open(title, values, unit)]
    for share in (0.0, 0.5, 1.0):
        y = floor - share * (floor - _TOP)
        parts.append(
            Markup(
                '<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(_LEFT, WIDTH - 8, y, y, _LEFT - 6, y + 4, _short(top * share))
        )
    for index, (label, value) in enumerate(values):
        height = (floor - _TOP) * value / top if top else 0
        width = min(step * 0.76, 56)
        x = _LEFT + index * step + (step - width) / 2
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5">'
                "<title>{}: {} {}</title></rect>"
            ).format(
                x,
                floor - height,
                width,
                height,
                _seen(label),
                _short(value),
                unit,
            )
        )
        if index % every == 0:
            parts.append(
                Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                    x + width / 2, HEIGHT - 8, _seen(label)[:12]
                )
            )
    return Markup("").join([*parts, Markup("</svg>")])


def nice(value: float) -> float:
    """The end of a scale: 1, 2 or 5 times a power of ten, at least ``value`` and 1."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    for factor in (1, 2, 5, 10):
        if factor * power >= value:
            return factor * power
    return power * 10


def _open(title: str, values: Sequence[tuple[str, float]], unit: str) -> Markup:
    total = sum(value for _, value in values)
    said = f"{title}: {len(values)} bars, {_short(total)} {unit} in all"
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" '
        'preserveAspectRatio="xMinYMid meet">'
    ).format(WIDTH, HEIGHT, said)


def _seen(label: str) -> str:
    return with_visible(label)[0]


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"
