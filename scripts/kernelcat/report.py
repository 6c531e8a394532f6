"""The report of a catalog: a page that needs nothing but a browser, and its figures as SVG files."""

import functools
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from kernelcat import catalog, files, identity, plots, quality, query
from kernelcat.fault import printable
from kernelcat.figures import Figure, families, figures, grouped, marked, modes, name_series, number, passed
from kernelcat.index import UNSPECIFIED, at, leaves, text_at
from kernelcat.show import duration, percent, ratio, short

FILTERS = {
    "kernel": "kernel",
    "device": "device",
    "dtype": "dtype",
    "mode": "mode",
    "provider": "provider",
    "liger_version": "version",
    "family": "protocol",
}
"""What the page filters by: columns of its rows, and their names."""

FIELDS = (*(name for name in FILTERS if name not in plots.FIELDS), *plots.FIELDS)
"""The columns of the page's rows."""


def write(catalog_path: str | Path, html: str | Path, folder: str | Path) -> None:
    """Writes the page of the catalog in a file to `html`, and its figures into the folder `folder`, made anew.

    Raises KernelcatError when the catalog cannot be read, OSError when the files cannot be written.
    """
    found = catalog.read(catalog_path)
    rows = prepared(found)
    drawn = figures(rows)
    places = plots.providers(rows)
    page = render(found, rows, drawn, places)
    names = file_names(drawn)
    pictures = {name: plots.svg(group, places) for name, group in names.items()}
    files.write_folder(folder, pictures)
    files.write(html, page)


def prepared(found: dict) -> list[dict]:
    """The catalog's rows (kernelcat.query) with their series and all texts that the page shows.

    Control characters, line separators and lone surrogates are spelled out: Vega-Lite puts texts into its programs,
    where some of them end a line.
    """
    rows = query.rows(found)
    families(found["objects"], rows)
    rows = [{name: _spelled(value) for name, value in row.items()} for row in rows]
    name_series(rows)
    for row in rows:
        row["liger_version"] = row["liger_version"] or UNSPECIFIED
        row["marked"] = marked(row)
        row["marks"] = row["quality"] if row["marked"] else ""
        row["median"] = duration(row["median_ns"])
        spread = row["p20_ns"], row["p80_ns"]
        row["spread"] = "" if None in spread else " – ".join(map(duration, spread))
        row["memory"] = _size(row["peak_memory_bytes"])
        row["limit"] = percent(row["attainable"])
        row["error"] = "" if row["error"] is None else f"{row['error']:.1e}"
        row["versions"] = ", ".join(
            f"{name} {row[column]}"
            for name in ("liger", "torch", "triton", "driver")
            if row[column := f"{name}_version"] not in (None, UNSPECIFIED)
        )
    return rows


def file_names(drawn: Iterable[Figure]) -> dict[str, list[Figure]]:
    """The figures of each file by its name: the modes of one metric side by side. A name has five parts that tell what
    is in it, `KERNEL--DEVICE--PROTOCOL--CASE--METRIC.svg`; two that would be the same get a digest too."""
    groups: dict[tuple, list[Figure]] = defaultdict(list)
    for figure in drawn:
        groups[figure.place, figure.metric].append(figure)
    slugs = {key: _slug(members[0]) for key, members in groups.items()}
    counts = Counter(slugs.values())
    names = {}
    for key, members in groups.items():
        slug = slugs[key]
        if counts[slug] > 1:
            kernel_to_case, _, metric = slug.rpartition("--")
            slug = f"{kernel_to_case}-{hashlib.sha256(repr(key).encode()).hexdigest()[:10]}--{metric}"
        names[f"{slug}.svg"] = members
    return names


def _slug(figure: Figure) -> str:
    case = [figure.dtype, figure.axis or "cases", *(f"{name}{number(value)}" for name, value in figure.held)]
    parts = figure.kernel, figure.device, figure.family, " ".join(case), figure.metric
    return "--".join(identity.kebab(part)[:45].strip("-") or "unnamed" for part in parts)


def render(found: dict, rows: list[dict], drawn: list[Figure], places: dict[str, int]) -> bytes:
    """The page's bytes."""
    import jinja2  # 60 ms

    index = {row["run"]: place for place, row in enumerate(rows)}
    data = {
        "fields": FIELDS,
        "rows": [[row[field] for field in FIELDS] for row in rows],
        "figures": [
            {"spec": plots.spec(figure, places), "rows": [index[row["run"]] for row in figure.rows]} for figure in drawn
        ],
        "themes": plots.THEMES,
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    marks = sorted({mark for row in rows if row["marked"] for mark in row["marks"].split()})
    letters = dict(zip(marks, map(_letter, range(len(marks))), strict=True))
    best = {row["run"] for row in query.fastest(rows)}
    text = environment.get_template("report.html.j2").render(
        data=embedded(data),
        vega=vega(),
        counts=_counts(rows),
        filters={name: (title, _options(rows, name)) for name, title in FILTERS.items()},
        columns=embedded({title: name for name, title in FILTERS.items()}),
        baselines=sorted({row["provider"] for row in rows}),
        kernels=[
            {
                "name": kernel,
                "figures": _sections(drawn, kernel),
                "tables": _tables(members, index, places, letters, best),
                "failures": [row | {"index": index[row["run"]]} for row in members if not passed(row)],
            }
            for kernel, members in grouped(rows, lambda row: row["kernel"]).items()
        ],
        marks=[(letters[mark], mark, quality.MEANINGS.get(mark, "")) for mark in marks],
        appendices=[
            ("Environments", _cited(found["objects"], rows, "ExecutionEnvironment", "environment")),
            ("Protocols", _cited(found["objects"], rows, "BenchmarkProtocol", "protocol_digest")),
        ],
    )
    return text.encode()


def embedded(value: object) -> str:
    """JSON that may stand inside of a script element, whatever it says: all that could end or begin one is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script for a page that has no network."""
    import vl_convert  # starts a JavaScript engine

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed", vl_version=plots.VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _counts(rows: list[dict]) -> list[tuple[int, str]]:
    counted = {
        "run": len(rows),
        "failure": sum(not passed(row) for row in rows),
        "marked run": sum(row["marked"] for row in rows),
        "kernel": len({row["kernel"] for row in rows}),
        "provider": len({row["provider"] for row in rows}),
        "device": len({row["device"] for row in rows}),
    }
    return [(count, name if count == 1 else f"{name}s") for name, count in counted.items()]


def _options(rows: list[dict], name: str) -> list[tuple[str, int]]:
    counts = Counter(row[name] for row in rows)
    return sorted(counts.items(), key=lambda item: query.natural(item[0]))


def _sections(drawn: list[Figure], kernel: str) -> list[dict]:
    """The kernel's figures as places in `drawn`: one section for each sweep, in it one line for each metric."""
    own = [(place, figure) for place, figure in enumerate(drawn) if figure.kernel == kernel]
    sections = []
    for _, sweep in groupby(own, key=lambda item: item[1].place):
        members = list(sweep)
        figure = members[0][1]
        metrics = groupby(members, key=lambda item: item[1].metric)
        title = f"{figure.device} · {figure.conditions}"
        sections.append({"title": title, "metrics": [[place for place, _ in metric] for _, metric in metrics]})
    return sections


def _tables(rows: list[dict], index: dict, places: dict, letters: dict, best: set[str]) -> list[dict]:
    """Speed-ups: one table for each device and family, one line for each group of runs that compare, one column for
    each series."""
    tables = []
    order = modes(rows)
    ordered = sorted(
        rows,
        key=lambda row: (row["device"], row["family"], query.natural(row["case"]), order.index(row["mode"])),
    )
    for (device, family), members in groupby(ordered, key=lambda row: (row["device"], row["family"])):
        lines: dict[tuple, dict[str, list[dict]]] = {}
        columns = {}
        for row in members:
            column = row["series"]
            columns[column] = places[row["provider"]], query.natural(column)
            key = tuple(row[name] for name in ("case", "mode", "workload", "protocol_digest"))
            lines.setdefault(key, {}).setdefault(column, []).append(row)
        names = sorted(columns, key=columns.get)
        tables.append(
            {
                "title": f"{device} · {family}",
                "columns": names,
                "lines": [
                    {
                        "case": key[0],
                        "mode": key[1],
                        "cells": [
                            [
                                _entry(row, index, letters, best)
                                for row in sorted(cells.get(name, []), key=lambda row: query.natural(row["line"]))
                            ]
                            for name in names
                        ],
                    }
                    for key, cells in lines.items()
                ],
            }
        )
    return tables


def _entry(row: dict, index: dict, letters: dict, best: set[str]) -> dict:
    if not passed(row):
        return {"index": index[row["run"]], "failed": True, "text": row["status"]}
    return {
        "index": index[row["run"]],
        "failed": False,
        "text": row["median"] or row["memory"] or "no number",
        "speedup": "" if row["speedup"] is None else ratio(row["speedup"]),
        "marks": "".join(letters[mark] for mark in row["marks"].split()),
        "best": row["run"] in best,
    }


def _cited(objects: dict[str, dict], rows: list[dict], kind: str, column: str) -> list[dict]:
    """Each object of a kind with all it says, and the runs that cite it."""
    citing: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        citing[row[column]].append(short(row["run"]))
    return [
        {
            "digest": printable(digest),
            "title": printable(text_at(manifest, "metadata", "title", default=text_at(manifest, "metadata", "name"))),
            "facts": list(_facts(at(manifest, "spec"))),
            "runs": sorted(citing[digest]),
        }
        for digest, manifest in sorted(objects.items())
        if at(manifest, "kind") == kind
    ]


def _facts(value: object) -> Iterable[tuple[str, str]]:
    """(path, text) of each value, in the order of the paths."""
    for path, found in leaves(value):
        yield printable(path), ", ".join(map(_text, found)) if isinstance(found, list) else _text(found)


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else json.dumps(value)


def _spelled(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    return {printable(key): value[key] for key in sorted(value)} if isinstance(value, dict) else value


def _size(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _letter(place: int) -> str:
    """a, b … z, aa, ab …"""
    more, last = divmod(place, 26)
    return (_letter(more - 1) if more else "") + chr(ord("a") + last)
