# GNU General Public License v3.0 or later (see LICENSE)
# ruff: noqa: RUF001 - the report writes a multiplication sign
from __future__ import annotations

import builtins
import csv
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.sample_experiment import make

from ansible_collections.pgsizing.bench.plugins.module_utils import report_tables
from ansible_collections.pgsizing.bench.plugins.module_utils.summary import summarise
from ansible_collections.pgsizing.bench.plugins.plugin_utils import report, report_charts
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, StoreError, validate

VOID = {"meta", "link", "br", "hr", "img", "input"}
ALL_FAILED = {"01-base-r1": "failed", "02-big-r1": "failed", "03-big-r2": "failed", "04-base-r2": "failed", "05-base-r3": "failed"}


class Page(HTMLParser):
    """The text a reader sees, the elements with an id, links, and whether every element is closed in its place."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [v for k in ("href", "src") if (v := given.get(k))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def built(directory: Path) -> Page:
    """Build without the chart library inside, which is long and not ours; charts are tested as data and in the browser."""
    report.build(directory)
    html = (directory / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    page.close()
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    return page


@pytest.fixture
def short_plotly(monkeypatch):
    monkeypatch.setattr(report, "plotly_js", lambda: "/* chart library */")


@pytest.fixture
def sample(tmp_path, short_plotly):
    return make(tmp_path)


@pytest.fixture(scope="module")
def sample_text(tmp_path_factory):
    return built(make(tmp_path_factory.mktemp("sample"))).text


def change(path: Path, **parts: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


def test_the_sample_is_an_experiment_as_the_store_writes_it(tmp_path):
    store = Store(make(tmp_path))
    validate(store.experiment, "experiment")
    for trial in store.trials():
        validate(trial, "trial")
    assert {t["verdict"] for t in store.trials()} == {"valid", "suspect", "aborted"}


def test_what_is_written(sample):
    paths = report.build(sample)
    assert paths == {"html": sample / "report.html", "markdown": sample / "report.md", "csv": sample / "trials.csv"}
    assert all(p.stat().st_size > 500 for p in paths.values())
    assert not [p for p in sample.iterdir() if p.name.startswith(".report")]
    before = {name: p.read_bytes() for name, p in paths.items()}
    assert {name: p.read_bytes() for name, p in report.build(sample).items()} == before  # again: the same


def test_no_experiment_is_an_error(tmp_path):
    with pytest.raises(StoreError):
        report.build(tmp_path)


def test_the_page_asks_for_nothing(sample):
    page = built(sample)
    html = (sample / "report.html").read_text()
    assert "default-src 'none'" in html
    outside = [link for link in page.links if not link.startswith("#") and not link.startswith("data:") and ":" in link]
    assert outside == ["https://example.org/sample?a=1&b=2"]  # the published source, for a reader to follow
    assert "@import" not in html
    assert "url(" not in html


def test_links_lead_to_files_and_places(sample):
    page = built(sample)
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        elif ":" not in link:
            assert (sample / link).is_file(), link
    assert "trials/01-base-r1/raw/pgbench.out" in page.links
    assert "trials/01-base-r1/series.csv" in page.links


@pytest.mark.parametrize(
    "said",
    [
        "big measured 1.26× base (95 % CI 1.04 to 1.54) in tps, but 2 and 3 usable trials are too few to show a difference",
        "Scaled run, shape only. Its variants may be compared with each other, never with a published figure. Scaled: scale 250 → 50.",
        "1 valid, 1 suspect, 1 aborted",
        "CV 1.6 %",
        "2 of 3",
        "Throughput test (closed loop)",  # C089
        "the rate fell under 10 % of its median for 5 s (sample) stall big (02-big-r1)",
        "PostgreSQL 15.1 PostgreSQL 15.14",  # a deviation
        "shared_buffers 128MB 1024MB",  # a difference
        "effective_cache_size 16GB profile local 3/4 of 24 GB memory",  # origin and reason
        "A made-up published study (sample test data)",
        "about 14 min 13 s",
        "ansible-playbook benchmark.yml -e reproduce=sample-published -e data_scale=0.2",
        "Sample CPU <made up> & co @ 2.60GHz",
        "LWLock:WALWrite 31 %, Lock:transactionid 12 %",
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;",
    ],
)
def test_the_page_says(sample_text, said):
    assert said in sample_text


def test_no_ratio_to_a_published_figure_in_a_scaled_run(sample):
    assert "measured / published" not in built(sample).text
    plan = json.loads((sample / "experiment.json").read_text())["plan"]
    change(sample / "experiment.json", plan=plan | {"scaling": []})
    text = built(sample).text
    assert "measured / published" in text
    assert "shape only" not in text.lower()


def test_everything_from_outside_is_escaped(sample):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    experiment = json.loads((sample / "experiment.json").read_text())
    plan = experiment["plan"]
    plan["variants"][1]["name"] = evil
    plan["trials"] = [t | ({"variant": evil} if t["variant"] == "big" else {}) for t in plan["trials"]]
    plan["published"]["title"] = plan["deviations"][0]["here"] = plan["findings"][0]["message"] = plan["inputs"]["x"] = evil
    plan["published"]["source"] = "javascript:alert(3)"
    change(sample / "experiment.json", plan=plan)
    for path in sample.glob("trials/*/trial.json"):
        trial = json.loads(path.read_text())
        findings = [f | {"message": evil} for f in trial["findings"]]
        variant = evil if trial["variant"] == "big" else "base"
        change(path, variant=variant, findings=findings)
    page = built(sample)
    html = (sample / "report.html").read_text()
    assert "<script>alert" not in html
    assert "<img" not in html
    assert not [link for link in page.links if link.startswith("javascript:")]
    assert evil in page.text
    assert "\\u003cscript>" in html or "&lt;script&gt;" in html


def figures(directory: Path) -> dict[str, Any]:
    html = (directory / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    return json.loads(found.group(1)) if found else {}


def test_charts_and_their_places(sample):
    page = built(sample)
    drawn = figures(sample)
    trials = {f"trial-{t}" for t in ("01-base-r1", "02-big-r1", "03-big-r2", "04-base-r2", "05-base-r3", "06-big-r3")}
    assert set(drawn) == {"dots", "ratios", "overlay", "percentiles"} | trials
    assert set(drawn) <= set(page.ids)


def test_every_axis_has_a_title_with_its_unit(sample):
    built(sample)
    for name, drawn in figures(sample).items():
        axes = {k: v for k, v in drawn["layout"].items() if k.startswith(("xaxis", "yaxis"))}
        assert axes, name
        for key, axis in axes.items():
            title = axis["title"]["text"]
            assert title == "variant" or re.search(r"\[.+\]$", title), (name, key, title)


def test_the_chart_of_a_trial(sample):
    built(sample)
    chart = figures(sample)["trial-01-base-r1"]
    titles = [v["title"]["text"] for k, v in chart["layout"].items() if k.startswith("yaxis")]
    assert titles == ["tps [1/s]", "latency, average [ms]", "CPU [% of all cores]", "disk [MB/s]", "disk busy [%]", "WAL [MB/s]"]
    stacked = [t["name"] for t in chart["data"] if t.get("stackgroup")]
    assert stacked == ["user", "system", "waiting for IO", "stolen"]
    shapes = [(s["type"], s["x0"]) for s in chart["layout"]["shapes"]]
    assert shapes == [("rect", 37.5), ("rect", 97.5), ("line", 38.0), ("line", 98.0)]  # checkpoints of the made-up series


def test_without_plotly_the_page_says_so_and_holds_the_rest(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    directory = make(tmp_path)
    page = built(directory)
    assert "the Python package plotly is not installed" in page.text
    assert "1.26× base" in page.text
    assert "<script" not in (directory / "report.html").read_text()
    assert not any(i.startswith("trial-") for i in page.ids)


def test_one_trial(tmp_path, short_plotly):
    directory = make(tmp_path, variants=("base",), repeats=1, seconds=5, published=False)
    text = built(directory).text
    assert re.search(r"base: \d+\.\d tps , one trial; spread: none \(n=1\)\.", text)
    assert "ratio to" not in text
    assert "dots" not in figures(directory)


def test_no_trial_finished(tmp_path, short_plotly):
    directory = make(tmp_path, troubles=ALL_FAILED | {"06-big-r3": "missing"}, published=False)
    page = built(directory)
    assert "nothing to compare (0 and 0 usable trials): no connection: password authentication failed <sample & co>" in page.text
    assert "1 of 6 planned trials have no result: 06-big-r3 (planned)" in page.text
    assert figures(directory) == {}
    assert "time" not in page.ids


def test_nothing_recorded_at_all(tmp_path, short_plotly):
    directory = make(tmp_path, troubles=dict.fromkeys([*ALL_FAILED, "06-big-r3"], "missing"))
    shutil.rmtree(directory / "trials", ignore_errors=True)
    text = built(directory).text
    assert "6 of 6 planned trials have no result" in text
    assert "Not recorded." in text


def test_forty_trials(tmp_path, short_plotly):
    directory = make(tmp_path, variants=tuple(f"v{i}" for i in range(10)), repeats=4, seconds=40, published=False)
    page = built(directory)
    assert "5 more comparisons stand in the table." in page.text
    drawn = figures(directory)
    assert sum(name.startswith("trial-") for name in drawn) == 40
    colours = {t["line"]["color"] + t["line"]["dash"] for t in drawn["percentiles"]["data"]}
    assert len(colours) == 10  # told apart by dash where colours come again


def test_interrupted_is_said(sample):
    journal = json.loads((sample / "experiment.json").read_text())["journal"]
    change(sample / "experiment.json", journal=journal | {"end": {"state": "interrupted", "at": 1.0, "cause": "SIGTERM"}})
    assert "This experiment was interrupted : SIGTERM" in built(sample).text


@pytest.mark.parametrize("content", [None, "", "elapsed_s\n", "a,b\n1,2\n", "elapsed_s,tps\nx,y\n"])
def test_a_damaged_series_costs_its_chart_only(sample, content):
    path = sample / "trials/01-base-r1/series.csv"
    path.unlink() if content is None else path.write_text(content)
    page = built(sample)
    assert "01-base-r1: series.csv cannot be read" in page.text
    assert "trial-01-base-r1" not in page.ids
    assert "trial-02-big-r1" in page.ids


def rows(directory: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((directory / "trials.csv").read_text())))


def test_what_the_page_says_of_a_trial_stands_in_the_other_report(tmp_path, short_plotly):
    """Facts, latencies by script and statement, settings in effect and times: the same content without pictures."""
    directory = make(tmp_path)
    path = directory / "trials" / "01-base-r1" / "trial.json"
    trial = json.loads(path.read_text())
    scripts = [{"name": name, "transactions": 70 + n, "p95": 3.25 + n} for n, name in enumerate(("checkout", "browse"))]
    trial["latency"] |= {"scripts": scripts, "lag": {"average": 1.25, "max": 40.5}}
    trial["counts"] |= {"serialization_failures": 12, "deadlock_failures": 3}
    trial["conditions"]["database_bytes"] = 3 * 2**30
    trial["series"]["rate"] = {"name": "tps", "unit": "1/s", "n": 60, "interval_s": 1.0, "min": 111.5, "median": 407.5, "max": 509.5}
    trial["environment"]["observation"]["postgres"]["deadlocks"] = 3
    path.write_text(json.dumps(trial))
    page, report_md = built(directory).text, (directory / "report.md").read_text()
    facts = dict(report_tables.facts(trial))
    assert facts["tps of 60 intervals of 1 s"] == "lowest 111.5, median 407.5, highest 509.5 1/s"
    assert "0 failed, 12 serialization failures, 3 deadlocks" in facts["transactions"]
    assert facts["schedule lag"] == "1.250 ms on average, 40.50 ms at most (part of the latency)"
    assert facts["database"] == "3GB before the run"
    assert facts["slowest statement"].endswith("END;")
    assert facts["deadlocks in the database"] == "3"
    for name, text in facts.items():
        assert f"{name} {text}" in page
        assert f"- {name}: {text}" in report_md
    assert "By script" in page
    assert "| base | checkout | 1 | 49.6 % |" in report_md
    assert "base checkout 1 49.6 %" in page
    for text in ("END;", "shared_buffers", "of which measured"):
        assert text in page
        assert text in report_md


def test_trials_csv(tmp_path, short_plotly):
    directory = make(tmp_path, troubles={"02-big-r1": "failed", "06-big-r3": "missing"})
    built(directory)
    table = rows(directory)
    trials = {t["trial_id"]: t for t in Store(directory).trials()}
    assert [r["trial_id"] for r in table] == ["01-base-r1", "02-big-r1", "03-big-r2", "04-base-r2", "05-base-r3", "06-big-r3"]
    assert float(table[0]["value"]) == trials["01-base-r1"]["headline"]["value"]  # to the last digit
    assert float(table[0]["latency_p99_9_ms"]) == trials["01-base-r1"]["latency"]["p99_9"]
    assert float(table[0]["metric_load_seconds"]) == trials["01-base-r1"]["metrics"]["load_seconds"]["value"]
    assert (table[1]["verdict"], table[1]["value"], table[1]["findings"]) == ("failed", "", "closed_loop server_unreachable")
    assert (table[5]["state"], table[5]["verdict"], table[5]["repeat"]) == ("planned", "", "3")


# answers -----------------------------------------------------------------------------------------------------------


def answered(directory: Path, values: dict[str, list[float]], better: str = "higher") -> list[dict[str, Any]]:
    store = Store(directory)
    trials = store.trials()
    for name, given in values.items():
        for trial, value in zip((t for t in trials if t["variant"] == name), given, strict=True):
            trial["headline"] |= {"value": value, "better": better}
            trial["verdict"], trial["findings"] = "valid", []
    return report.answers(summarise(store.experiment, trials))


@pytest.mark.parametrize(
    ("base", "big", "better", "kind", "said"),
    [
        ([100, 101, 102, 103], [130, 131, 132, 133], "higher", "better", "big is 1.30× base (95 % CI 1.27 to 1.32) in tps: faster"),
        ([130, 131, 132, 133], [100, 101, 102, 103], "higher", "worse", "big is 0.77× base (95 % CI 0.76 to 0.79) in tps: slower"),
        ([130, 131, 132, 133], [100, 101, 102, 103], "lower", "better", "big is 0.77× base (95 % CI 0.76 to 0.79) in tps: faster"),
        (
            [100, 120, 90, 111],
            [105, 95, 118, 101],
            "higher",
            "open",
            "big measured 1.00× base (95 % CI 0.82 to 1.21) in tps: no difference shown",
        ),
    ],
)
def test_the_answer(tmp_path, base, big, better, kind, said):
    answer = answered(make(tmp_path, repeats=4, seconds=5), {"base": base, "big": big}, better)[0]
    assert answer["text"] + answer["strong"] + answer["rest"] == said
    assert answer["kind"] == kind


def test_what_is_shown_comes_first(tmp_path):
    values = {"base": [100 + i for i in range(6)], "same": [100.5 + i for i in range(6)], "big": [150 + i for i in range(6)]}
    answers = answered(make(tmp_path, variants=tuple(values), repeats=6, seconds=5), values)
    assert [a["kind"] for a in answers] == ["better", "open"]


def test_what_is_not_comparable_has_no_ratio_but_a_reason(tmp_path):
    directory = make(tmp_path, seconds=5, troubles={})
    store = Store(directory)
    trials = store.trials()
    for trial in trials:
        trial["comparison_key"]["server_version"] = "15.18" if trial["variant"] == "big" else "15.17"
    summary = summarise(store.experiment, trials)
    (answer,) = report.answers(summary)
    assert answer["strong"] == "nothing to compare"
    assert "server version 15.17 and 15.18" in answer["rest"]
    page = report.page(store.experiment, trials, summary, directory, None)
    assert "<td>not comparable</td>" in page


# series ------------------------------------------------------------------------------------------------------------


def series(tmp_path: Path, text: str, limit: int = 600) -> tuple[float, float, dict[str, list[float | None]]]:
    path = tmp_path / "series.csv"
    path.write_text(text)
    return report_charts.read_series(path, "tps", limit)


def test_a_short_series_is_kept_second_by_second_with_its_gaps(tmp_path):
    start, step, columns = series(tmp_path, "elapsed_s,tps,cpu_user\n1,10,0.5\n2,,0.25\n4,40,\n")
    assert (start, step) == (1, 1)
    assert columns["tps"] == [10, None, None, 40]
    assert columns["cpu_user"] == [0.5, 0.25, None, None]


def test_a_long_series_is_averaged_and_its_extremes_kept(tmp_path):
    text = "elapsed_s,tps,checkpoint_running\n" + "".join(f"{i},{i},{int(i == 5)}\n" for i in range(1, 11))
    start, step, columns = series(tmp_path, text, limit=4)
    assert (start, step) == (2, 3)  # seconds 1 to 3 are drawn at their middle
    assert columns["tps"] == [2, 5, 8, 10]
    assert columns["rate_low"] == [1, 4, 7, 10]
    assert columns["rate_high"] == [3, 6, 9, 10]
    assert columns["checkpoint_running"] == [0, 1, 0, 0]


def test_not_a_number_is_missing(tmp_path):
    assert series(tmp_path, "elapsed_s,tps\n1,nan\n2,inf\n3,x\n4,5\n")[2]["tps"] == [None, None, None, 5]
