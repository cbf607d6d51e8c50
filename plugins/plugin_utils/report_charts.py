# GNU General Public License v3.0 or later (see LICENSE)
"""Charts of the HTML report as plain plotly figures (``{data, layout}``): what to draw, not how the page looks.

Colours are names of the page's CSS variables (``--v0`` is the first variant); the page puts in the values of its theme.
Every axis has a title with its unit. A chart that has nothing to show is ``None``.
"""

from __future__ import annotations

import csv
import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import term
from ansible_collections.pgsizing.bench.plugins.module_utils.report_tables import latencies
from ansible_collections.pgsizing.bench.plugins.module_utils.summary import PERCENTILES, USED, figure, percentile_name

Series = dict[str, list[float | None]]

#: A chart over time has at most this many points a line; longer series are averaged over equal stretches.
MOST_POINTS = 600
#: Colours of variants in the style sheet; more variants begin again with another dash and symbol.
COLOURS = 8
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = {"valid": "circle", "suspect": "diamond-open", "invalid": "x-thin-open", "aborted": "triangle-down-open", "failed": "x-thin-open"}
MB = 1e6


def label(text: str) -> str:
    """Return ``text`` as plotly shows it literally: it reads a little HTML, and ``%{`` in templates."""
    return html.escape(text, quote=False).replace("%{", "%&#123;")


def axis_title(name: str, unit: str | None) -> str:
    """Return ``name [unit]``, as plotly shows it literally."""
    return label(f"{name} [{unit}]" if unit else name)


def variant_style(number: int) -> tuple[str, str]:
    """Return colour and dash of the variant in this place."""
    return f"--v{number % COLOURS}", DASHES[number // COLOURS % len(DASHES)]


# series.csv --------------------------------------------------------------------------------------------------------


class Rate(NamedTuple):
    """The rate that is drawn over time: its column in ``series.csv``, its name for people, its unit."""

    column: str
    name: str
    unit: str


def read_series(path: Path, rate: str, limit: int = MOST_POINTS) -> tuple[float, float, Series]:
    """Return start, step (both s) and columns of a series on an even grid of at most ``limit`` points.

    A point is the mean of the samples in its step, ``None`` where there are none; ``rate_low`` and ``rate_high`` are the
    lowest and highest value of the column ``rate`` in it. ``OSError``, ``ValueError`` or ``KeyError`` when the file cannot be
    read as a series.
    """
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        names = next(reader)
        rows = [[_float(field) for field in row] for row in reader if len(row) == len(names)]
    place = {name: i for i, name in enumerate(names)}
    clock = place["elapsed_s"]
    timed = [(elapsed, row) for row in rows if (elapsed := row[clock]) is not None]
    if not timed:
        raise ValueError(f"{path}: no samples")
    start, last = min(t for t, _ in timed), max(t for t, _ in timed)
    step = max(1.0, float(math.ceil((last - start + 1) / limit)))
    buckets: list[list[list[float | None]]] = [[] for _ in range(int((last - start) / step) + 1)]
    for elapsed, row in timed:
        buckets[int((elapsed - start) / step)].append(row)
    series: Series = {name: [_mean(row[i] for row in bucket) for bucket in buckets] for name, i in place.items()}
    if rate in place:
        rates = [[r for row in bucket if (r := row[place[rate]]) is not None] for bucket in buckets]
        series["rate_low"] = [min(r) if r else None for r in rates]
        series["rate_high"] = [max(r) if r else None for r in rates]
    for name in ("checkpoint_running", "checkpoints"):  # seen at any time in the step
        if name in place:
            series[name] = [max((row[place[name]] or 0 for row in bucket), default=None) for bucket in buckets]
    return start + (step - 1) / 2, step, series


def _float(field: str) -> float | None:
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _mean(values: Any) -> float | None:
    present = [v for v in values if v is not None]
    return sum(present) / len(present) if present else None


def _short(values: Sequence[float | None], factor: float = 1.0) -> list[float | None]:
    """Return values with five digits: more than a picture shows, fewer than a page needs."""
    return [None if v is None else float(f"{v * factor:.5g}") for v in values]


# all trials --------------------------------------------------------------------------------------------------------


def _axis(title: str | None, **more: Any) -> dict[str, Any]:
    return {"automargin": True, "title": {"text": title}} | more


def dots(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every trial's headline figure as a dot by variant; below them the variant's location with its 95 % interval."""
    rows, head = summary["rows"], summary["headline"]
    if sum(t["value"] is not None for row in rows for t in row["trials"]) < 2:
        return None
    data: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        colour, _ = variant_style(number)
        shown = [t for t in row["trials"] if t["value"] is not None]
        if not shown:
            continue
        # Spread over a small height, so that equal figures do not hide each other.
        heights = [-number + 0.14 * ((i % 3) - 1) for i in range(len(shown))]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(row["variant"]),
                "x": [t["value"] for t in shown],
                "y": heights,
                "text": [f"{label(t['trial_id'])}: {figure(t['value'])} {head['unit'] or ''}, {t['verdict']}" for t in shown],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "size": 11,
                    "color": colour,
                    "symbol": [SYMBOLS[t["verdict"]] for t in shown],
                    "line": {"width": 2, "color": colour},
                },
            }
        )
        if row["ci_low"] is not None:
            location, interval = row["location"], f"{figure(row['ci_low'])} to {figure(row['ci_high'])}"
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{label(row['variant'])}: {row['location_name']} and 95 % CI",
                    "x": [location],
                    "y": [-number - 0.32],
                    "hovertemplate": f"{row['location_name']} {figure(location)}, 95 % CI {interval}<extra></extra>",
                    "error_x": {
                        "type": "data",
                        "array": [row["ci_high"] - location],
                        "arrayminus": [location - row["ci_low"]],
                        "color": colour,
                        "thickness": 2,
                        "width": 6,
                    },
                    "marker": {"size": 8, "color": colour, "symbol": "line-ns", "line": {"width": 3, "color": colour}},
                }
            )
    layout = {
        "height": 100 + 64 * len(rows),
        "showlegend": False,
        "margin": {"t": 8, "r": 24},
        "xaxis": _axis(axis_title(term(head["metric"]), head["unit"])),
        "yaxis": _axis(
            "variant",
            tickvals=[-i for i in range(len(rows))],
            ticktext=[label(row["variant"]) for row in rows],
            range=[-len(rows) + 0.4, 0.5],
            zeroline=False,
            showgrid=False,
        ),
    }
    return {"data": data, "layout": layout}


def ratios(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Each variant's ratio to the base with its 95 % interval, around the line of no difference."""
    shown = [c for c in summary["comparisons"] if c["ratio"] is not None]
    if not shown:
        return None
    place = {row["variant"]: i for i, row in enumerate(summary["rows"])}
    ends = [1.0, *(v for c in shown for v in (c["ratio"], c["ci_low"], c["ci_high"]) if v is not None)]
    margin = 0.06 * (max(ends) - min(ends)) or 0.01
    data = []
    for i, c in enumerate(shown):
        colour, _ = variant_style(place[c["variant"]])
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "x": [c["ratio"]],
            "y": [-i],
            "hovertemplate": f"{label(c['variant'])}: %{{x:.3f}}, {c['conclusion']}<extra></extra>",
            "marker": {"size": 11, "color": colour},
        }
        if c["ci_low"] is not None:
            low, high = c["ratio"] - c["ci_low"], c["ci_high"] - c["ratio"]
            trace["error_x"] = {"type": "data", "array": [high], "arrayminus": [low], "color": colour, "thickness": 2, "width": 6}
        data.append(trace)
    line = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "--muted", "dash": "dash", "width": 1.5}}
    layout = {
        "height": 100 + 64 * len(shown),
        "showlegend": False,
        "margin": {"t": 8, "r": 24},
        "shapes": [line],
        "xaxis": _axis(
            axis_title(f"{term(summary['headline']['metric'])}, ratio to {summary['headline']['base']}", "1 = no difference"),
            range=[min(ends) - margin, max(ends) + margin],
        ),
        "yaxis": _axis(
            "variant",
            tickvals=[-i for i in range(len(shown))],
            ticktext=[label(c["variant"]) for c in shown],
            range=[-len(shown) + 0.4, 0.6],
            zeroline=False,
            showgrid=False,
        ),
    }
    return {"data": data, "layout": layout}


def overlay(
    trials: Sequence[Mapping[str, Any]], series: Mapping[str, tuple[float, float, Series]], names: Sequence[str], rate: Rate
) -> dict[str, Any] | None:
    """The rate of every trial over time, in the colour of its variant. ``series`` is by trial id."""
    data = []
    seen: set[str] = set()
    for trial in trials:
        if trial["trial_id"] not in series:
            continue
        start, step, columns = series[trial["trial_id"]]
        if not any(v is not None for v in columns.get(rate.column, [])):
            continue
        colour, dash = variant_style(names.index(trial["variant"]))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label(trial["variant"]),
                "legendgroup": trial["variant"],
                "showlegend": trial["variant"] not in seen,
                "x0": start,
                "dx": step,
                "y": _short(columns[rate.column]),
                "hovertemplate": f"{label(trial['trial_id'])}: %{{y:.4~g}}<extra></extra>",
                "opacity": 0.75,
                "line": {"color": colour, "width": 1.6, "dash": "dot" if trial["verdict"] not in USED else dash},
            }
        )
        seen.add(trial["variant"])
    if not data:
        return None
    layout = {
        "height": 340,
        "hovermode": "x",
        "margin": {"t": 8},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": _axis("time since the start of the measurement [s]"),
        "yaxis": _axis(axis_title(rate.name, rate.unit), rangemode="tozero"),
    }
    return {"data": data, "layout": layout}


def percentiles(trials: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any] | None:
    """Latency percentiles by variant (medians of its used trials), on a logarithmic axis."""
    data: list[dict[str, Any]] = []
    drawn: list[list[float | None]] = []
    for row in latencies(trials, names):
        name, values = row["variant"], [row["values"][k] for k in PERCENTILES]
        if values.count(None) > len(values) - 2:
            continue
        colour, dash = variant_style(names.index(name))
        drawn.append(values)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label(name),
                "x": [percentile_name(k) for k in PERCENTILES],
                "y": _short(values),
                "hovertemplate": f"{label(name)} %{{x}}: %{{y:.4~g}} ms<extra></extra>",
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"color": colour, "size": 8},
            }
        )
    if not data:
        return None
    shown = [v for values in drawn for v in values if v]
    ticks = _log_ticks(min(shown), max(shown))
    layout = {
        "height": 320,
        "margin": {"t": 8},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": _axis("percentile of the transactions [%]", type="category"),
        "yaxis": _axis("latency [ms]", type="log", tickvals=ticks, ticktext=[f"{t:g}" for t in ticks]),
    }
    return {"data": data, "layout": layout}


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten from just below ``low`` to just above ``high``."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [t for t in ticks if low / 2.5 <= t <= high * 2.5]


# one trial ---------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One row of the chart of a trial: name and unit of its axis, and lines as (name, column, colour, factor to that unit)."""

    name: str
    unit: str
    lines: list[tuple[str, str, str, float]]
    stacked: bool = False


def trial(start: float, step: float, series: Series, rate: Rate) -> dict[str, Any] | None:
    """One trial over time, rows on one time axis: the rate, latency, CPU, disk, WAL; checkpoints shaded through all."""
    rows = [
        _Row(rate.name, rate.unit, [(rate.name, rate.column, "--v0", 1)]),
        _Row("latency, average", "ms", [("latency", "latency_ms", "--v3", 1)]),
        _Row(
            "CPU",
            "% of all cores",
            [
                ("user", "cpu_user", "--cpu-user", 100),
                ("system", "cpu_system", "--cpu-system", 100),
                ("waiting for IO", "cpu_iowait", "--cpu-iowait", 100),
                ("stolen", "cpu_steal", "--cpu-steal", 100),
            ],
            stacked=True,
        ),
        _Row(
            "disk",
            "MB/s",
            [
                ("read", "data_read_bytes_per_s", "--v2", 1 / MB),
                ("written", "data_write_bytes_per_s", "--v1", 1 / MB),
                ("read (WAL device)", "wal_read_bytes_per_s", "--v5", 1 / MB),
                ("written (WAL device)", "wal_write_bytes_per_s", "--v4", 1 / MB),
            ],
        ),
        _Row("disk busy", "%", [("busy", "data_utilisation", "--v6", 100), ("busy (WAL device)", "wal_utilisation", "--v4", 100)]),
        _Row("WAL", "MB/s", [("WAL made", "wal_bytes_per_s", "--v7", 1 / MB)]),
    ]
    shown = [row for row in rows if any(_present(series, column) for _, column, _, _ in row.lines)]
    if not shown:
        return None
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "height": 90 + 128 * len(shown),
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "margin": {"t": 12, "r": 8},
        "xaxis": _axis(
            "time since the start of the measurement [s]",
            anchor=f"y{len(shown) if len(shown) > 1 else ''}",
            domain=[0, 0.86],
            unifiedhovertitle={"text": "%{x} s"},
        ),
        "shapes": _checkpoints(start, step, series),
    }
    height = 1 / len(shown)
    for number, row in enumerate(shown, 1):
        suffix = str(number) if number > 1 else ""
        top = 1 - (number - 1) * height
        layout[f"yaxis{suffix}"] = _axis(
            axis_title(row.name, row.unit), anchor="x", domain=[top - height + 0.022, top], rangemode="tozero", nticks=5
        )
        if row.unit.startswith("%"):
            layout[f"yaxis{suffix}"]["range"] = [0, 100]
        layout[f"legend{suffix}"] = {"x": 0.875, "y": top, "yanchor": "top", "xanchor": "left", "tracegroupgap": 0}
        where = {"type": "scatter", "mode": "lines", "x0": start, "dx": step, "yaxis": f"y{suffix}", "legend": f"legend{suffix}"}
        if number == 1 and step > 1 and _present(series, "rate_low"):
            band = {**where, "line": {"width": 0}, "hoverinfo": "skip", "fillcolor": "--band"}
            data.append({**band, "y": _short(series["rate_low"]), "showlegend": False})
            data.append({**band, "y": _short(series["rate_high"]), "fill": "tonexty", "name": "lowest to highest second"})
        lines = [line for line in row.lines if _present(series, line[1])]
        for name, column, colour, factor in lines:
            said, unit = f"{row.name} {name}" if row.stacked else name, row.unit.partition(" ")[0]
            line = {**where, "name": name, "y": _short(series[column], factor)}
            line["hovertemplate"] = f"{said} %{{y:.4~g}} {unit}<extra></extra>"
            line["showlegend"] = len(lines) > 1  # one line is named by the title of its axis
            line["line"] = {"color": colour, "width": 0.5 if row.stacked else 1.6}
            if row.stacked:
                line |= {"stackgroup": f"row{number}", "fillcolor": colour}
            data.append(line)
    return {"data": data, "layout": layout}


def _present(series: Series, column: str) -> bool:
    return any(v is not None for v in series.get(column, ()))


def _checkpoints(start: float, step: float, series: Series) -> list[dict[str, Any]]:
    """A shade where a checkpoint runs and a dotted line where the server counted one, through all rows."""
    shapes: list[dict[str, Any]] = []
    through = {"yref": "paper", "y0": 0, "y1": 1}
    began: float | None = None
    running = series.get("checkpoint_running", [])
    for i, value in enumerate([*running, 0]):
        at = start + i * step - step / 2
        if value and began is None:
            began = at
        elif not value and began is not None:
            shapes.append(
                {"type": "rect", "x0": began, "x1": at, "fillcolor": "--checkpoint", "line": {"width": 0}, "layer": "below", **through}
            )
            began = None
    for i, value in enumerate(series.get("checkpoints", [])):
        if value:
            at = start + i * step
            shapes.append({"type": "line", "x0": at, "x1": at, "line": {"color": "--muted", "width": 1, "dash": "dot"}, **through})
    return shapes
