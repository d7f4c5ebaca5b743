"""The pages of scripts/history: what a row of it holds, where series step, and how they are drawn."""

import csv
import html
import math
import re
import shutil
import statistics

# A column of the history for each metric and statistic that `loadgen report --format csv` has.
METRICS = {
    ("latency", "p50"): "p50_ms",
    ("latency", "p90"): "p90_ms",
    ("latency", "p99"): "p99_ms",
    ("first_chunk", "p50"): "first_chunk_p50_ms",
    ("over_baseline", "p50"): "over_baseline",
    ("server_cpu", "mean"): "server_cpu_ms",
    ("client_cpu", "mean"): "client_cpu_ms",
    ("peak_memory", "max"): "peak_memory_bytes",
    ("idle_memory", "min"): "idle_memory_bytes",
    ("bytes", "one"): "list_bytes",
    ("rate", "mean"): "requests_per_s",
}
ABOUT = ("run", "started", "commit", "scenario", "host", "cpu", "cores", "data_set", "target", "target_version", "tier", "case")
# Names stay; new ones come at the end.
COLUMNS = (*ABOUT, "starts", *METRICS.values())

# What a page shows, and how many runs of it.
DRAWN = {
    "p50_ms": "p50",
    "p99_ms": "p99",
    "server_cpu_ms": "server CPU of a request",
    "peak_memory_bytes": "peak memory above idle",
    "requests_per_s": "requests a second",
}
RUNS = 90

# A step: so many runs on each side of it, so rare by chance, so large.
LEAST, MOST = 7, 14
CHANCE = 0.001
MARGIN = 0.05
# Peaks of memory closer than this differ by a slab or a stack.
LEAST_BYTES = 1 << 20


class Refused(Exception):
    """Why something is not done."""


# Steps


def chance(before, after):
    """How likely ranks as lopsided are by chance: the two-sided Mann–Whitney test, exact, ties counted half."""
    n, m = len(before), len(after)
    u = sum(1.0 if a < b else 0.5 if a == b else 0.0 for a in before for b in after)
    u = min(u, n * m - u)
    # ways[i][j][u]: orders of i and j values with so many pairs in which the second is the larger.
    ways = [[None] * (m + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        for j in range(m + 1):
            if i == 0 or j == 0:
                ways[i][j] = [1]
                continue
            count = [0] * (i * j + 1)
            for at, of in enumerate(ways[i - 1][j]):
                count[at] += of
            for at, of in enumerate(ways[i][j - 1]):
                count[at + i] += of
            ways[i][j] = count
    as_far = sum(ways[n][m][: math.ceil(u) + 1])
    return min(1.0, 2 * as_far / sum(ways[n][m]))


def steps(values, floor):
    """The first run after each step, and by what factor its runs differ."""
    found = []
    for at in range(LEAST, len(values) - LEAST + 1):
        before, after = values[max(0, at - MOST) : at], values[at : at + MOST]
        low, high = statistics.median(before) + floor, statistics.median(after) + floor
        if low <= 0 or high <= 0 or abs(math.log(high / low)) < math.log(1 + MARGIN):
            continue
        likely = chance(before, after)
        if likely >= CHANCE:
            continue
        # Neighbours see the same step: it is where chance explains least.
        if found and at - found[-1][1] < LEAST:
            found[-1] = min(found[-1], (likely, at, high / low))
        else:
            found.append((likely, at, high / low))
    return [(at, factor) for _, at, factor in found]


# Drawing

STYLE = """
:root { color-scheme: light dark; --line: #0072b2; --step: #d55e00; --faint: #8886; }
@media (prefers-color-scheme: dark) { :root { --line: #56b4e9; --step: #e69f00; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 0 auto; padding: 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr)); gap: .5rem 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; }
svg { width: 100%; height: auto; overflow: visible; }
svg .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
svg circle { fill: var(--line); } svg a:focus circle, svg a:hover circle { stroke: currentColor; stroke-width: 2; }
svg .axis { stroke: var(--faint); } svg .step { stroke: var(--step); stroke-dasharray: 3 2; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid var(--faint); text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.step-said { color: var(--step); }
"""


def page(title, body):
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def amount(column, value):
    """A value with its unit."""
    if column.endswith("_bytes"):
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.3g} {unit}"
        return f"{value:.0f} B"
    if column.endswith("_ms"):
        return f"{value / 1e3:.3g} s" if value >= 1e3 else f"{value:.3g} ms" if value >= 1 else f"{value * 1e3:.3g} µs"
    if column.endswith("_per_s"):
        return f"{value:,.0f}/s"
    return f"{value:.3g}"


def chart(column, points):
    """A line over runs from 0 to the highest value; each point leads to its run."""
    width, height, radius = 240, 60, 2.5
    values = [value for _, value in points]
    top = max(values) or 1.0
    x = lambda at: round(radius + at * (width - 2 * radius) / max(1, len(points) - 1), 1)
    y = lambda value: round(height - radius - value / top * (height - 2 * radius), 1)
    floor = LEAST_BYTES if column.endswith("_bytes") else 0
    found = steps(values, floor)
    last = amount(column, values[-1])
    said = [f"{DRAWN[column]}: {last}, from {amount(column, min(values))} to {amount(column, top)} in {len(points)} runs"]
    said += [f"step × {factor:.2f} at {points[at][0]['commit'][:7] or points[at][0]['started'][:10]}" for at, factor in found]
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape("; ".join(said))}">']
    parts.append(f'<line class="axis" x1="0" y1="{height}" x2="{width}" y2="{height}"/>')
    for at, _ in found:
        middle = (x(at - 1) + x(at)) / 2
        parts.append(f'<line class="step" x1="{middle}" y1="0" x2="{middle}" y2="{height}"/>')
    parts.append(f'<polyline class="line" points="{" ".join(f"{x(at)},{y(value)}" for at, value in enumerate(values))}"/>')
    for at, (row, value) in enumerate(points):
        title = html.escape(f"{row['started'][:16]} {row['commit'][:7]}: {amount(column, value)}")
        parts.append(f'<a href="{link(row)}"><circle cx="{x(at)}" cy="{y(value)}" r="{radius}"><title>{title}</title></circle></a>')
    parts.append("</svg>")
    steps_said = "".join(f'; <span class="step-said">{html.escape(step)}</span>' for step in said[1:])
    return f"<figure>{''.join(parts)}<figcaption>{DRAWN[column]}: {last} (0 to {amount(column, top)}){steps_said}</figcaption></figure>"


def link(row):
    return html.escape(f"runs/{row['run']}/index.html")


def machine(row):
    return f"{row['cores']} cores of {row['cpu'] or 'an unknown CPU'}"


def scenario_page(scenario, rows):
    """All charts of a scenario: a machine after the other, since their values are not of one series."""
    body = ['<p><a href="index.html">All scenarios</a></p>']
    for name in sorted({machine(row) for row in rows}):
        body.append(f"<h2>{html.escape(name)}</h2>")
        series = {}
        for row in rows:
            if machine(row) == name:
                targets = series.setdefault((row["data_set"], row["case"]), {})
                targets.setdefault(row["target"], []).append(row)
        # Targets of one case beneath each other.
        of_targets = [(*case, target, of_case) for case, targets in series.items() for target, of_case in targets.items()]
        for data_set, case, target, of_case in of_targets:
            charts = []
            for column in DRAWN:
                points = [(row, float(row[column])) for row in of_case if row.get(column)][-RUNS:]
                if points:
                    charts.append(chart(column, points))
            if charts:
                body.append(f'<h3>{html.escape(f"{data_set} {case}: {target}")}</h3>\n<div class="charts">{"".join(charts)}</div>')
    return page(scenario, "\n".join(body))


def run_page(rows):
    """What one run measured, as the history has it."""
    first = rows[0]
    drawn = [column for column in METRICS.values() if any(row.get(column) for row in rows)]
    head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in ("case", "target", "starts", *drawn))
    lines = []
    for row in rows:
        cells = [f'<th scope="row">{html.escape(row["data_set"] + " " + row["case"])}</th>', f"<td>{html.escape(row['target'])} ({html.escape(row['target_version'])})</td>"]
        values = [row["starts"], *(amount(column, float(row[column])) if row.get(column) else "" for column in drawn)]
        cells += [f'<td class="number">{html.escape(value)}</td>' for value in values]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    about = f"{first['started']}, commit {first['commit'] or 'unknown'}, {first['host']}: {machine(first)}"
    body = (
        f"<p>{html.escape(about)}</p>\n<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>\n"
        f'<p><a href="report.json">report.json</a> · <a href="../../{html.escape(scenario_file(first["scenario"]))}">all runs of {html.escape(first["scenario"])}</a></p>'
    )
    return page(first["run"], body)


def scenario_file(scenario):
    return f"scenario-{re.sub(r'[^A-Za-z0-9_.-]', '_', scenario)}.html"


def read(source):
    """Every row of the history, in order of time."""
    rows = []
    for file in sorted(source.glob("history/*/*/*.csv")):
        with file.open(encoding="utf-8", newline="") as text:
            found = list(csv.DictReader(text))
        for row in found:
            missing = [column for column in ABOUT if row.get(column) is None]
            if missing:
                raise Refused(f"{file} lacks {', '.join(missing)}")
        rows += found
    return sorted(rows, key=lambda row: row["started"])


def write_pages(source, out):
    rows = read(source)
    if not rows:
        raise Refused(f"{source} has no history")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    items = []
    for scenario in sorted({row["scenario"] for row in rows}):
        of_scenario = [row for row in rows if row["scenario"] == scenario]
        file = scenario_file(scenario)
        (out / file).write_text(scenario_page(scenario, of_scenario), encoding="utf-8")
        runs = len({row["run"] for row in of_scenario})
        last = of_scenario[-1]
        items.append(
            f'<tr><th scope="row"><a href="{html.escape(file)}">{html.escape(scenario)}</a></th><td class="number">{runs}</td>'
            f"<td><a href=\"{link(last)}\">{html.escape(last['started'][:16])}</a></td><td>{html.escape(last['commit'][:7])}</td></tr>"
        )
    runs = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    for run, of_run in runs.items():
        folder = out / "runs" / run
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(run_page(of_run), encoding="utf-8")
        shutil.copyfile(source / "runs" / run / "report.json", folder / "report.json")
    head = "".join(f'<th scope="col">{title}</th>' for title in ("scenario", "runs", "newest", "commit"))
    body = (
        '<p>What each nightly run measured, over commits. <a href="../index.html">Results worth keeping</a></p>\n'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(items)}</tbody></table>"
    )
    (out / "index.html").write_text(page("History", body), encoding="utf-8")
    print(f"{out / 'index.html'}: {len(runs)} runs of {len(items)} scenarios")
