"""Figures as Vega-Lite: one specification for the SVG files and for the page that draws it in a browser."""

import json
import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable

from kernelcat.figures import METRICS, Figure, number, passed

VEGA_LITE = "6.4"
"""The version that is drawn with, in files and in the page."""

# Seven colours that stay apart for the colour-blind and on white and on black; shape and dash say the same.
_COLOURS = "#0077BB", "#D55E00", "#009E73", "#CC79A7", "#A6761D", "#7F7F7F", "#33A0D0"
_SHAPES = "circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right", "triangle-left", "wedge"
_DASHES = [1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [10, 4]

THEMES = {
    name: {
        "background": background,
        "font": "system-ui, sans-serif",
        "view": {"stroke": line},
        "title": {"color": text, "subtitleColor": dim, "fontSize": 12, "subtitleFontSize": 10, "anchor": "start"},
        "axis": {
            **{"labelColor": text, "titleColor": text, "gridColor": line, "domainColor": dim, "tickColor": dim},
            "titleFontWeight": "normal",
        },
        "legend": {"labelColor": text, "titleColor": text},
    }
    for name, background, text, dim, line in (
        ("light", "#ffffff", "#1b1f24", "#59636e", "#e2e6ea"),
        ("dark", "#14171c", "#e6e9ee", "#a3acb8", "#333a44"),
    )
}
"""Vega-Lite configurations, by the reader's colour scheme."""

TOOLTIP = {
    "line": "provider",
    "case": "case",
    "median": "median",
    "spread": "p20–p80",
    "memory": "peak memory",
    "limit": "of the limit",
    "error": "relative error",
    "marks": "marks",
    "versions": "versions",
    "run": "run",
}
"""What a point's tooltip says: the field of a row, which holds text, and its name."""

FIELDS = (
    *(
        "provider",
        "series",
        "line",
        "case",
        "axes",
        "status",
        "reason",
        "marked",
        *METRICS.values(),
        "p20_ns",
        "p80_ns",
    ),
    *(field for field in TOOLTIP if field not in ("line", "case")),
)
"""What a specification asks of a row; all else costs time."""

LINE = [{"field": "provider"}, {"field": "line"}]
"""What a line joins is equal in."""

TITLES = {"latency": "latency", "memory": "peak memory", "limit": "part of the limit"}

WIDTH, HEIGHT = 250, 180


def providers(rows: Iterable[dict]) -> dict[str, int]:
    """Each provider's place in colours, shapes and dashes, everywhere the same: the most frequent have the plainest,
    and those that one kernel has do not share theirs while there are colours left."""
    counts, kernels = Counter(), defaultdict(set)
    for row in rows:
        counts[row["provider"]] += 1
        kernels[row["provider"]].add(row["kernel"])
    places: dict[str, int] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        used = Counter(places.values())
        beside = {places[other] for other in places if kernels[other] & kernels[name]}
        free = [place for place in range(len(_COLOURS)) if place not in beside] or [len(places)]
        places[name] = min(free, key=lambda place: (used[place], place))
    return places


def styles(figure: Figure, places: dict[str, int]) -> tuple[list[str], list[str], list[str], list[list[int]]]:
    """(series, colours, shapes, dashes) of the group: a provider has one colour, its series differ in shape and
    dash."""
    series = sorted({(places[row["provider"]], row["series"]) for row in figure.group})
    turns = [sum(place == other for other, _ in series[:index]) for index, (place, _) in enumerate(series)]
    return (
        [label for _, label in series],
        [_COLOURS[place % len(_COLOURS)] for place, _ in series],
        [_SHAPES[(place + turn) % len(_SHAPES)] for (place, _), turn in zip(series, turns, strict=True)],
        [_DASHES[(place + turn) % len(_DASHES)] for (place, _), turn in zip(series, turns, strict=True)],
    )


def spec(figure: Figure, places: dict[str, int]) -> dict:
    """The figure's Vega-Lite specification without its data: the rows of kernelcat.query with `series`, and with the
    texts of `TOOLTIP`, `marked` (whether the number has marks) and `reason`.

    Points are hollow where the number is marked; failures are crosses at the lower edge; around a latency is the band
    from p20 to p80, a bar where nothing is swept.
    """
    column = METRICS[figure.metric]
    factor, unit = _unit(figure.metric, _values(figure.group, column))
    series, colours, shapes, dashes = styles(figure, places)
    own = {row["series"] for row in figure.rows}

    def scaled(range_: list) -> dict:
        return {"field": "series", "type": "nominal", "scale": {"domain": series, "range": range_}, "title": None}

    legend = {
        "orient": "bottom",
        "columns": 1 if max(map(len, series)) > 18 else 2,
        "labelLimit": WIDTH,
        "values": [label for label in series if label in own],
        "symbolOpacity": 1,
        "symbolStrokeWidth": 0,  # with the dash of its line a symbol looks crossed out
    }
    x, y = _x(figure), _y(figure, _values(figure.rows, column), factor, unit)
    encoding = {"x": x, "y": y, "color": scaled(colours) | {"legend": legend}}
    if figure.axis is None:
        encoding["xOffset"] = {"field": "series", "type": "nominal", "scale": {"domain": series}}
    tooltip = [{"field": field, "type": "nominal", "title": title} for field, title in TOOLTIP.items()]
    failure = [{"field": field, "type": "nominal"} for field in ("provider", "case", "status", "reason", "run")]
    shape = {"shape": scaled(shapes), "detail": LINE}
    right = {"filter": "datum.status === 'passed' && isValid(datum.y)"}
    layers = []
    if figure.metric == "latency":
        band = {"type": "area", "opacity": 0.2} if figure.axis else {"type": "rule", "opacity": 0.5, "strokeWidth": 3}
        spread = {"y": y | {"field": "low"}, "y2": {"field": "high"}, "detail": LINE}
        layers.append(
            {
                "transform": [right, {"filter": "isValid(datum.low) && isValid(datum.high) && datum.low > 0"}],
                "mark": band,
                "encoding": spread,
            }
        )
    if figure.axis is not None:
        line = {"strokeDash": scaled(dashes), "detail": LINE}
        layers.append({"transform": [right], "mark": {"type": "line", "strokeWidth": 1.5}, "encoding": line})
    for filled, kept in ((True, "!datum.marked"), (False, "datum.marked")):
        layers.append(
            {
                "transform": [right, {"filter": kept}],
                "mark": {"type": "point", "filled": filled, "size": 45, "opacity": 1},
                "encoding": {**shape, "tooltip": tooltip},
            }
        )
    layers.append(
        {
            "transform": [{"filter": "datum.status !== 'passed'"}],
            "mark": {
                "type": "point",
                "shape": "M-1,-1L1,1M-1,1L1,-1",
                "size": 60,
                "strokeWidth": 2,
                "filled": False,
                "opacity": 1,
                "yOffset": {"expr": _stacked(figure, series)},
            },
            "encoding": {"y": {"value": HEIGHT}, "detail": LINE, "tooltip": failure},
        }
    )
    field = f"datum.axes[{json.dumps(figure.axis)}]" if figure.axis is not None else "datum.case"
    scales = {"y": column} | ({"low": "p20_ns", "high": "p80_ns"} if figure.metric == "latency" else {})
    return {
        "title": f"{TITLES[figure.metric]}, {figure.mode}",
        "width": WIDTH,
        "height": HEIGHT,
        "transform": [
            {"calculate": field, "as": "x"},
            *(
                {"calculate": f"isValid(datum.{name}) ? datum.{name} / {factor} : null", "as": target}
                for target, name in scales.items()
            ),
        ],
        "encoding": encoding,
        "layer": layers,
    }


def _stacked(figure: Figure, series: list[str]) -> str:
    """How far from the lower edge a failure's cross is, as a Vega expression: where a line joins cases, those of
    several providers would lie on each other."""
    failed = {row["series"] for row in figure.rows if row["status"] != "passed"} if figure.axis is not None else ()
    return f"-6 - 11 * max(0, indexof({json.dumps([label for label in series if label in failed])}, datum.series))"


def svg(figures: Iterable[Figure], places: dict[str, int]) -> bytes:
    """Figures side by side as SVG. Their rows have what `spec` asks for."""
    import vl_convert  # starts a JavaScript engine

    drawn = list(figures)
    views = [
        {**spec(figure, places), "data": {"values": [{name: row[name] for name in FIELDS} for row in figure.rows]}}
        for figure in drawn
    ]
    whole = {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE[0]}.json",
        "title": {
            "text": f"{drawn[0].kernel} on {drawn[0].device}",
            "subtitle": textwrap.wrap(drawn[0].conditions, 60 * len(drawn)),
        },
        "hconcat": views,
    }
    return vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE, config=THEMES["light"]).encode()


def geometric(values: Iterable[float]) -> bool:
    """Whether an axis with these values is better drawn logarithmically: they span more than eightfold, or each is
    about the same multiple of the one before."""
    found = sorted(set(values))
    if len(found) < 2 or found[0] <= 0:
        return False
    ratios = [b / a for a, b in zip(found, found[1:], strict=False)]
    return found[-1] / found[0] > 8 or (len(found) > 2 and max(ratios) / min(ratios) < 1.1)


def _x(figure: Figure) -> dict:
    if figure.axis is None:
        cases = list(dict.fromkeys(row["case"] for row in figure.group))
        names = {name for name, _ in figure.held}
        labels = {row["case"]: _case(row, names) for row in figure.group}
        axis = {
            "labelExpr": f"{json.dumps(labels)}[datum.value]",
            "labelAngle": 0 if len(cases) < 3 else -40,
            "labelLimit": max(WIDTH / len(cases), 120),
        }
        title = "case" if len(cases) > 1 else "one case"
        return {"field": "x", "type": "nominal", "sort": cases, "title": title, "axis": axis}
    values = sorted({row["axes"][figure.axis] for row in figure.group})
    logarithmic = geometric(values)
    # Each label costs a millisecond and a half in the SVG files, so there are few.
    axis = {"tickCount": 5, "labelExpr": "datum.value >= 1e6 ? format(datum.value, '.3~s') : '' + datum.value"}
    if logarithmic or len(values) <= 8:
        axis["values"] = values[:: math.ceil(len(values) / 5)]
    scale = {"nice": False, "padding": 10} | ({"type": "log"} if logarithmic else {"zero": False})
    return {"field": "x", "type": "quantitative", "title": figure.axis, "scale": scale, "axis": axis}


def _y(figure: Figure, values: list[float], factor: float, unit: str) -> dict:
    scale, axis = {"zero": True}, {"labelExpr": "format(datum.value, '~r')"}
    if values and min(values) > 0 and figure.metric != "limit" and max(values) / min(values) > 10:
        # Said, not taken from the rows: a filter may leave none that passed, and nothing has no logarithm.
        spread = _values(figure.rows, "p20_ns") + _values(figure.rows, "p80_ns") if figure.metric == "latency" else []
        ends = [function(value / factor for value in values + spread if value > 0) for function in (min, max)]
        scale = {"type": "log", "nice": False, "padding": 10, "domain": ends}
        axis["values"] = _decades(*ends)
    else:
        axis["tickCount"] = 4
    title = unit if figure.metric == "limit" else f"{TITLES[figure.metric]} ({unit})"
    return {"field": "y", "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _values(rows: Iterable[dict], column: str) -> list[float]:
    return [row[column] for row in rows if passed(row) and row[column] is not None]


def _decades(low: float, high: float) -> list[float]:
    """What a logarithmic axis is labelled with: powers of ten, with twos and fives between them where there are few."""
    steps = (1, 2, 5) if high / low < 100 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for power in powers for step in steps if low <= (value := float(f"{step}e{power}")) <= high]


def _unit(metric: str, values: list[float]) -> tuple[float, str]:
    """(what to divide by, the unit)."""
    largest = max(values, default=0)
    if metric == "latency":
        return (1e6, "ms") if largest >= 1e6 else (1e3, "µs")
    if metric == "memory":
        return (2**30, "GiB") if largest >= 2**30 else (2**20, "MiB")
    return 0.01, "% of the device's limit"


def _case(row: dict, held: set[str]) -> str:
    """What is not said of the case elsewhere."""
    if not row["axes"]:
        return row["case"]
    return ", ".join(f"{name} {number(value)}" for name, value in sorted(row["axes"].items()) if name not in held)
