# GNU General Public License v3.0 or later (see LICENSE)
"""From trials to tables: what is used, what is shown beside it, and what is never claimed."""

from __future__ import annotations

import json

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import summary
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of
from ansible_collections.pgsizing.bench.plugins.module_utils.report_markdown import markdown

SMALL = [130.0, 132.5, 134.0, 131.0, 133.0]
LARGE = [208.0, 210.0, 207.0, 211.0, 209.5]


def variant(name, shared_buffers, base=False):
    return {
        "name": name,
        "base": base,
        "differs": {"gucs": {"shared_buffers": shared_buffers}},
        "parameters": {"scale": 50, "clients": 10, "threads": 2, "transactions": 1000, "duration": None},
        "cache": "as_is",
        "postgres": {"version": "15", "initdb": {}},
        "settings": [
            {"name": "max_wal_size", "text": "1GB", "origin": "profile none", "reason": "the default"},
            {"name": "shared_buffers", "text": shared_buffers, "origin": "variant", "reason": None},
        ],
        "dataset": {"fingerprint": "abc123", "bytes": 10**9},
    }


def experiment(values=(SMALL, LARGE), **plan):
    variants = [variant("128MB", "128MB", base=True), variant("1GB", "1GB")]
    trials = [
        {"id": f"{v['name']}-r{r}", "variant": v["name"], "repeat": r, "position": 2 * r + i}
        for i, v in enumerate(variants)
        for r in range(1, len(values[i]) + 1)
    ]
    return {
        "schema": "pgsizing/experiment/1",
        "experiment_id": "20260101T120000Z-pgbench",
        "created": 1.0,
        "collection": {"version": "0.1.0", "git_commit": "f00"},
        "plan": {
            "inputs": {"reproduce": "pgbench-shared-buffers-2023", "repeats": 5, "gucs": {"work_mem": "8MB"}},
            "where": {"provider": "local", "server": ["localhost"], "driver": ["localhost"], "reason": "size local: this machine"},
            "size": "local",
            "workload": "pgbench",
            "load_generator": "pgbench",
            "headline": "tps",
            "variants": variants,
            "repeats": 5,
            "cache": "as_is",
            "reset": "template",
            "trials": trials,
            "comparisons": {"count": 1, "alpha": 0.05, "repeats_needed": 4},
            "scaling": [],
            "findings": [finding("callback_off", "the callback is off")],
            "estimate": {"seconds": 300, "parts": [{"what": "10 trials", "seconds": 290}]},
            "published": {
                "id": "pgbench-shared-buffers-2023",
                "title": "before and after",
                "source": "https://example.org/post",
                "figures": [
                    {"variant": "128MB", "metric": "tps", "value": 132.559344, "unit": "1/s"},
                    {"variant": "128MB", "metric": "latency_average", "value": 75.438, "unit": "ms"},
                    {"variant": "1GB", "metric": "tps", "value": 209.944478, "unit": "1/s"},
                    {"variant": "1GB", "metric": "latency average", "value": 47.632},
                    {"variant": "128MB", "metric": "load_seconds", "value": 30.29},
                ],
            },
            "deviations": [{"what": "connection", "published": "TCP with TLS", "here": "Unix socket"}],
            **plan,
        },
        "environment": {"datasets": {"15-0a0a0a0a/abc123": {"load_seconds": 12.5, "reused": False}}},
        "journal": {"trials": {t["id"]: {"state": "finished", "message": None} for t in trials}, "stages": {}, "end": None},
    }


def trial(planned, value, findings=(), **changes):
    return {
        "schema": "pgsizing/trial/1",
        "trial_id": planned["id"],
        **{k: planned[k] for k in ("variant", "repeat", "position")},
        "headline": {"metric": "tps", "value": value, "unit": "1/s", "better": "higher"},
        "verdict": verdict_of(list(findings)),
        "findings": list(findings),
        "counts": {"failed_pct": 0.0},
        "steps": [],
        "timing": {"total_s": 29.0, "measure_s": 20.0},
        "metrics": {"tps": {"value": value, "unit": "1/s", "better": "higher"}},
        "latency": {"average": value and 10000 / value, "p50": 40.0, "p95": 80.0, "p99": 120.0, "max": 300.0},
        "environment": {
            "server": {
                "cpu_model": "Example CPU",
                "cores": 2,
                "memory_bytes": 8 * 2**30,
                "filesystems": {"data": {"fstype": "ext4", "device": None}},
            },
            "driver": None,
            "postgres": {"version": "15.18", "non_default_settings": [], "initdb": {"data_checksums": True}},
            "observation": {"postgres": {"blks_read": 1000}},
        },
        "cost": None,
        **changes,
    }


def trials_of(planned_experiment, values=(SMALL, LARGE), **by_id):
    """One trial for each planned one; ``by_id`` gives findings of single trials."""
    flat = [*values[0], *values[1]]
    return [trial(p, v, by_id.get(p["id"].replace("-", "_"), ())) for p, v in zip(planned_experiment["plan"]["trials"], flat, strict=True)]


@pytest.fixture
def full():
    planned = experiment()
    return planned, summary.summarise(planned, trials_of(planned))


def test_rows(full):
    _, result = full
    base, large = result["rows"]
    assert result["headline"] == {"metric": "tps", "unit": "1/s", "better": "higher", "base": "128MB"}
    assert (base["variant"], base["base"], base["n"], base["n_valid"]) == ("128MB", True, 5, 5)
    assert (base["median"], base["verdict"], base["verdicts"]) == (132.5, "valid", {"valid": 5})
    assert large["values"] == LARGE
    assert large["latency"] == {"average": pytest.approx(10000 / 209.5), "p50": 40.0, "p95": 80.0, "p99": 120.0, "max": 300.0}
    assert large["ci_low"] < 209 < large["ci_high"]


def test_summary_is_strict_json(full):
    json.dumps(full[1], allow_nan=False)


def test_comparison(full):
    (found,) = full[1]["comparisons"]
    assert (found["variant"], found["base"], found["conclusion"]) == ("1GB", "128MB", "faster")
    text = summary.comparison_text(found)
    assert text.startswith("1GB against 128MB: 1.58")
    assert "faster (p = 0.00794)" in text


def test_a_comparison_of_several_changes_says_so():
    planned = experiment()
    base, large = planned["plan"]["variants"]
    base["differs"], large["differs"] = {"clients": 8}, {"clients": 16, "gucs": {"shared_buffers": "1GB"}}
    (found,) = summary.summarise(planned, trials_of(planned))["comparisons"]
    assert found["differs"] == ["clients", "gucs"]
    assert summary.comparison_text(found).endswith("; they differ in clients and gucs at once")
    large["differs"] = {"clients": 16}
    assert "at once" not in summary.comparison_text(summary.summarise(planned, trials_of(planned))["comparisons"][0])


def test_published_beside_measured(full):
    rows = {(r["variant"], r["metric"]): r for r in full[1]["published"]}
    assert set(rows) == {
        ("128MB", "tps"),
        ("128MB", "latency_average"),
        ("1GB", "tps"),
        ("1GB", "latency_average"),
        ("128MB", "load_seconds"),
    }
    tps = rows["1GB", "tps"]
    assert (tps["published"], tps["measured_median"], tps["unit"], tps["n"]) == (209.944478, 209.5, "1/s", 5)
    assert tps["ratio"] == pytest.approx(209.5 / 209.944478)
    assert tps["published_to_base"] == pytest.approx(1.5838, abs=1e-4)
    (comparison,) = full[1]["comparisons"]
    assert tps["measured_to_base"] == comparison["ratio"] == pytest.approx(1.581, abs=2e-3)  # one ratio, wherever it stands
    assert rows["1GB", "latency_average"]["unit"] == "ms"
    load = rows["128MB", "load_seconds"]
    assert (load["measured_median"], load["unit"], load["n"], load["spread_text"]) == (12.5, "s", 1, "spread: none (n=1)")
    assert (load["verdict"], load["note"]) == (None, "built once, not judged")
    assert rows["1GB", "latency_average"]["published_to_base"] == pytest.approx(47.632 / 75.438)


def published_sizes(*variants, generator="HammerDB 4.12"):
    """An experiment of a published run whose figures name sizes."""
    figures = [
        {"variant": f"size={size}", "size": size, "metric": metric, "value": value}
        for size, nopm, tpm in (("small", 68499, 157548), ("xl", 490532, 1128086))
        for metric, value in (("nopm", nopm), ("tpm", tpm))
    ]
    trials = [{"id": f"{v['name']}-r1", "variant": v["name"], "repeat": 1, "position": k} for k, v in enumerate(variants, 1)]
    run = {"id": "x", "title": "x", "source": "y", "conditions": {"load_generator": generator}, "figures": figures}
    return experiment(values=([], []), headline="nopm", variants=list(variants), trials=trials, published=run)


def sized(name, size, base=False, **differs):
    return {**variant(name, "1GB", base=base), "size": size, "differs": differs}


def with_tpm(planned, nopm, version="4.12", **generator):
    metrics = {"nopm": {"value": nopm, "unit": "1/min"}, "tpm": {"value": 2.3 * nopm, "unit": "1/min"}}
    headline = {"metric": "nopm", "value": nopm, "unit": "1/min", "better": "higher"}
    said = {"name": "hammerdb", "version": version, "database": "PostgreSQL", **generator}
    return trial(planned, nopm, headline=headline, metrics=metrics, load_generator=said, conditions={"storedprocs": None})


def test_published_figures_of_a_single_size():
    """``-e size=small`` is no axis: its variant is called base."""
    planned = published_sizes(sized("base", "small", base=True))
    rows = summary.summarise(planned, [with_tpm(planned["plan"]["trials"][0], 70000)])["published"]
    assert [(r["variant"], r["metric"], round(r["measured_median"])) for r in rows] == [("base", "nopm", 70000), ("base", "tpm", 161000)]
    assert rows[0]["ratio"] == pytest.approx(70000 / 68499)


def test_published_figures_of_a_size_among_variants():
    planned = published_sizes(sized("plain", "xl", base=True), sized("tuned", "xl", gucs={"work_mem": "64MB"}))
    rows = summary.summarise(planned, [])["published"]
    assert {(r["variant"], r["published"]) for r in rows} == {("plain", 490532), ("plain", 1128086)}
    other = published_sizes(sized("base", "local", base=True))
    assert {r["variant"] for r in summary.summarise(other, [])["published"]} == {"size=small", "size=xl"}


@pytest.mark.parametrize(
    ("version", "generator", "published", "reason"),
    [
        ("4.12", {}, "HammerDB 4.0", None),
        ("5.0", {}, "HammerDB 4.0", "where the driver commits"),
        ("4.12", {}, "HammerDB, version not stated", "where the driver commits"),
        ("4.12", {}, None, "where the driver commits"),
        ("0.1.0", {"name": "builtin"}, "HammerDB 4.0", "builtin and HammerDB differ"),
        ("4.12", {"database": "MariaDB"}, "HammerDB 4.0", "MariaDB and PostgreSQL differ"),
    ],
)
def test_c091_tpm_has_no_ratio_across_drivers(version, generator, published, reason):
    planned = published_sizes(sized("base", "small", base=True), generator=published)
    result = summary.summarise(planned, [with_tpm(planned["plan"]["trials"][0], 70000, version, **generator)])
    nopm, tpm = result["published"]
    assert nopm["ratio"] and (tpm["ratio"] is None) == (reason is not None)
    assert (tpm["note"] is None) if reason is None else (reason in tpm["note"] and "compare NOPM" in tpm["note"])


def test_c091_tpm_to_base_across_drivers():
    planned = published_sizes(sized("size=small", "small", base=True), sized("size=xl", "xl"))
    first, second = planned["plan"]["trials"]
    rows = summary.summarise(planned, [with_tpm(first, 70000, "4.12"), with_tpm(second, 140000, "6.0")])["published"]
    to_base = {(r["variant"], r["metric"]): r["measured_to_base"] for r in rows}
    assert to_base["size=xl", "nopm"] == 2 and to_base["size=xl", "tpm"] is None


def test_c083_variants_that_did_not_start_alike():
    planned = experiment()
    bloated = {"observation": {"postgres": {"blks_read": 1, "dead_tuples_before": 500, "live_tuples_before": 500}}}
    clean = {"observation": {"postgres": {"blks_read": 1, "dead_tuples_before": 0, "live_tuples_before": 500}}}
    trials = [{**t, "environment": bloated if t["variant"] == "1GB" else clean} for t in trials_of(planned)]
    result = summary.summarise(planned, trials)
    assert [f["code"] for f in result["repeat_findings"]["1GB"]] == ["bloat_differs"]
    assert [row["verdict"] for row in result["rows"]] == ["valid", "suspect"]


@pytest.mark.parametrize(
    ("buffers", "reads", "codes"),
    [
        ("128MB", 3000, ["cache_differs"]),  # 70 % against 99.9 %
        ("128MB", 100, []),
        ("1GB", 3000, []),  # a larger cache is meant to hold more
        ("128MB", None, []),
    ],
)
def test_variants_that_did_not_find_alike_shares_in_one_cache(buffers, reads, codes):
    planned = experiment()
    planned["plan"]["variants"][1]["settings"] = planned["plan"]["variants"][0]["settings"]
    if buffers != "128MB":
        planned["plan"]["variants"][1] |= {"settings": [{"name": "shared_buffers", "text": buffers}]}
    trials = [
        {**t, "environment": {"observation": {"postgres": {"blks_hit": 7000, "blks_read": reads if t["variant"] == "1GB" else 7}}}}
        for t in trials_of(planned)
    ]
    result = summary.summarise(planned, trials)
    assert [f["code"] for f in result["repeat_findings"].get("1GB", [])] == codes
    assert [row["verdict"] for row in result["rows"]] == ["valid", "valid"]


def test_variants_under_other_conditions_have_no_ratio():
    planned = experiment()
    trials = [{**t, "comparison_key": {"server_version": "15.18" if t["variant"] == "1GB" else "15.17"}} for t in trials_of(planned)]
    result = summary.summarise(planned, trials)
    (found,) = result["comparisons"]
    assert (found["conclusion"], found["ratio"], found["p"]) == ("not comparable", None, None)
    assert all(r["measured_to_base"] is None for r in result["published"] if r["variant"] == "1GB")
    for text in (summary.text_table(result), markdown(result, planned, trials)):
        assert "not comparable: not measured under the same conditions: server version 15.17 and 15.18" in " ".join(text.split())
        assert "faster" not in text


def test_repeats_under_other_conditions_are_doubted():
    planned = experiment()
    trials = trials_of(planned)
    trials = [{**t, "comparison_key": {"server_version": "15.18" if i % 5 == 4 else "15.17"}} for i, t in enumerate(trials)]
    result = summary.summarise(planned, trials)
    assert [row["verdict"] for row in result["rows"]] == ["suspect", "suspect"]
    assert [f["code"] for f in result["repeat_findings"]["1GB"]] == ["conditions_differ"]
    assert result["comparisons"][0]["conclusion"] == "not comparable"


def test_a_scaled_run_has_no_ratio_to_the_published_figure():
    planned = experiment(scaling=[{"name": "scale", "from": 50, "to": 10}])
    trials = trials_of(planned)
    result = summary.summarise(planned, trials)
    assert result["scaled"]
    assert all(r["ratio"] is None and r["note"].startswith("shape only") for r in result["published"])
    row = next(r for r in result["published"] if (r["variant"], r["metric"]) == ("1GB", "tps"))
    assert row["measured_to_base"] == result["comparisons"][0]["ratio"]
    for text in (summary.text_table(result), markdown(result, planned, trials)):
        assert "shape only" in text
        assert f"{209.5 / 209.944478:.3f}" not in text


@pytest.mark.parametrize(
    ("datasets", "measured", "note"),
    [
        ({}, None, "not measured"),
        ({"15-0a0a0a0a/abc123": {"load_seconds": 9.0, "reused": True}}, 9.0, "built by an earlier experiment"),
        ({"15-0a0a0a0a/abc123": {"load_seconds": 9.0}, "16-0a0a0a0a/abc123": {"load_seconds": 5.0}}, 9.0, "built once, not judged"),
        (
            {"15-0a0a0a0a/abc123": {"load_seconds": 9.0}, "15-1b1b1b1b/abc123": {"load_seconds": 5.0}},
            None,
            "not measured",
        ),  # which of the two?
        ({"15-0a0a0a0a/other": {"load_seconds": 9.0}}, None, "not measured"),
    ],
)
def test_load_time_comes_from_the_data_set(datasets, measured, note):
    planned = experiment()
    planned["environment"]["datasets"] = datasets
    row = next(r for r in summary.summarise(planned, trials_of(planned))["published"] if r["metric"] == "load_seconds")
    assert (row["measured_median"], row["note"]) == (measured, note)


def test_c005_unusable_trials_are_counted_and_listed_never_averaged():
    planned = experiment()
    broken = [finding("failed_transactions", "72 % failed")]
    values = (SMALL, [184.9, 999.0, 207.0, 211.0, 209.5])
    trials = trials_of(planned, values, **{"1GB_r1": broken, "1GB_r2": [finding("interrupted", "Ctrl-C")]})
    result = summary.summarise(planned, trials)
    row = result["rows"][1]
    assert (row["n"], row["n_valid"], row["values"]) == (5, 3, [207.0, 211.0, 209.5])
    assert (row["verdict"], row["verdicts"]) == ("aborted", {"valid": 3, "invalid": 1, "aborted": 1})
    table, report = summary.text_table(result), markdown(result, planned, trials)
    assert "3 of 5" in table
    assert "aborted (3 valid, 1 invalid, 1 aborted)" in table
    assert "184.9" not in table
    assert "| 1GB-r1 | invalid | 184.9 |" in report


def test_no_usable_trial_gives_no_figure_and_no_ranking():
    planned = experiment()
    broken = [finding("failed_transactions", "72 % failed")]
    result = summary.summarise(planned, trials_of(planned, **{f"1GB_r{i}": broken for i in range(1, 6)}))
    assert result["rows"][1]["median"] is None
    assert (result["comparisons"][0]["conclusion"], result["comparisons"][0]["ratio"]) == ("too few repeats", None)
    assert "0 and 5 usable trials" in summary.text_table(result)


def test_c095_one_run_each_is_insufficient_evidence():
    values = ([132.559344], [209.944478])
    planned = experiment(values)
    result = summary.summarise(planned, trials_of(planned, values))
    table = summary.text_table(result)
    assert table.count("spread: none (n=1)") >= 2
    assert "too few repeats: 1 and 1, 4 each are needed" in table
    assert "faster" not in table


def test_c017_repeat_findings_reach_the_row():
    values = ([31900.0, 43800.0, 43100.0], [43000.0, 43100.0, 43200.0])
    planned = experiment(values)
    result = summary.summarise(planned, trials_of(planned, values))
    base = result["rows"][0]
    assert (base["median"], base["verdict"], base["verdicts"]) == (43100.0, "suspect", {"valid": 3})
    assert [f["code"] for f in result["repeat_findings"]["128MB"]] == ["spread"]  # it read as little as the others
    table = summary.text_table(result)
    assert "43,100" in table
    assert "CV 16.9 %" in table
    assert "suspect (3 valid)" in table


def test_missing_trials_are_named():
    planned = experiment()
    planned["journal"]["trials"]["1GB-r5"] = {"state": "interrupted", "message": "Ctrl-C"}
    planned["journal"]["end"] = {"state": "interrupted", "at": 2.0, "cause": "SIGINT"}
    trials = trials_of(planned)[:-1]
    result = summary.summarise(planned, trials)
    assert result["missing"] == [{"id": "1GB-r5", "variant": "1GB", "repeat": 5, "state": "interrupted", "message": "Ctrl-C"}]
    assert "not measured: 1GB-r5: interrupted: Ctrl-C" in summary.text_table(result)
    report = markdown(result, planned, trials)
    assert "9 of 10 trials recorded" in report
    assert "**interrupted**: SIGINT" in report


def test_an_experiment_without_any_trial():
    planned = experiment()
    result = summary.summarise(planned, [])
    assert [row["verdict"] for row in result["rows"]] == [None, None]
    assert "not run" in summary.text_table(result)
    assert "0 of 10 trials recorded" in markdown(result, planned, [])


def test_a_failed_trial_without_figures():
    planned = experiment()
    trials = trials_of(planned)
    trials[0] = trial(planned["plan"]["trials"][0], None, [finding("setup_failed", "no server")], latency=None, metrics={}, counts={})
    row = summary.summarise(planned, trials)["rows"][0]
    assert (row["n"], row["n_valid"], row["verdict"]) == (5, 4, "failed")


def test_findings_are_merged_by_code_with_their_trials():
    planned = experiment()
    note = finding("closed_loop", "throughput test")
    result = summary.summarise(planned, trials_of(planned, **{"1GB_r1": [note, finding("stall", "3 s")], "1GB_r2": [note]}))
    first, second = result["findings_by_variant"]["1GB"]
    assert (first["code"], first["trials"]) == ("stall", ["1GB-r1"])
    assert (second["code"], second["trials"]) == ("closed_loop", ["1GB-r1", "1GB-r2"])
    table = summary.text_table(result)
    assert "1GB: suspect stall: 3 s" in table
    assert "notes: callback_off, closed_loop" in table


def test_what_differs_between_variants():
    planned = experiment()
    planned["plan"]["variants"][1]["parameters"]["protocol"] = "prepared"
    planned["plan"]["variants"][1]["postgres"] = {"version": "16", "initdb": {"data_checksums": True}}
    found = {d["name"]: d["values"] for d in summary.summarise(planned, [])["differences"]}
    assert found == {
        "shared_buffers": {"128MB": "128MB", "1GB": "1GB"},
        "protocol": {"128MB": "(default)", "1GB": "prepared"},
        "server version": {"128MB": "15", "1GB": "16"},
        "initdb data_checksums": {"128MB": "(default)", "1GB": "true"},
    }


def test_lower_is_better():
    planned = experiment(headline="load_seconds")
    trials = [
        {**t, "headline": {"metric": "load_seconds", "value": t["headline"]["value"], "unit": "s", "better": "lower"}}
        for t in trials_of(planned)
    ]
    assert summary.summarise(planned, trials)["comparisons"][0]["conclusion"] == "slower"


def test_a_share_of_failures_stands_beside_its_rate():
    planned = experiment()
    trials = [{**t, "counts": {"failed_pct": 0.4}} for t in trials_of(planned)]
    assert "valid, 0.40 % failed" in summary.text_table(summary.summarise(planned, trials))


# text ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.04567, "0.04567"),
        (2.529, "2.529"),
        (75.438, "75.44"),
        (132.559, "132.6"),
        (43100.4, "43,100"),
        (-1.5, "-1.500"),
    ],
)
def test_figure(value, text):
    assert summary.figure(value) == text


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_keeps_to_its_width_and_to_the_essential(full, width):
    lines = summary.text_table(full[1], width).split("\n")
    table = lines[:3]
    for word in ("variant", "tps, median [1/s]", "spread", "verdict"):
        assert word in table[0]
    assert ("95 % CI" in table[0]) == (width >= 80)
    assert ("p99 [ms]" in table[0]) == (width >= 100)
    assert max(map(len, table)) <= width
    assert max(map(len, lines)) <= max(width, 100)


def test_columns_are_aligned(full):
    head, first, second = summary.text_table(full[1]).split("\n")[:3]
    start = head.index("spread")
    assert first[start:].startswith("CV 1.2 %")
    assert second[start:].startswith("CV 0.8 %")
    end = head.index("tps, median [1/s]") + len("tps, median [1/s]")
    assert first[:end].endswith("132.5")


def test_long_variant_names_are_cut_in_a_narrow_terminal():
    planned = experiment()
    name = "clients=10 protocol=prepared shared_buffers=1GB work_mem=64MB"
    planned["plan"]["variants"][1]["name"] = name
    for t in planned["plan"]["trials"]:
        t["variant"] = name if t["variant"] == "1GB" else t["variant"]
    lines = summary.text_table(summary.summarise(planned, trials_of(planned)), 80).split("\n")
    assert max(map(len, lines[:3])) <= 80
    assert "…" in lines[2]


def test_report(full):
    planned, result = full
    report = markdown(result, planned, trials_of(planned))
    for part in (
        "# 20260101T120000Z-pgbench",
        "size local: this machine",
        "| 128MB (base) | 5 | 132.5 |",
        "- 1GB against 128MB: 1.58",
        "| 1GB | tps [1/s] | 209.944478 | 209.5 | 0.998 | 5 | CV 0.8 % | valid | 1.584 | 1.583 |  |",
        "| 128MB | load_seconds [s] | 30.29 | 12.50 | 0.413 | 1 | spread: none (n=1) | - | - | - | built once, not judged |",
        "| connection | TCP with TLS | Unix socket |",
        "- note `callback_off`: the callback is off",
        "| shared_buffers | 128MB | 1GB |",
        "| server | cpu model | Example CPU |",
        "| server | filesystems data fstype | ext4 |",
        "| PostgreSQL | version | 15.18 |",
        "| max_wal_size | 1GB | the default |",
        """ansible-playbook benchmark.yml -e reproduce=pgbench-shared-buffers-2023 -e repeats=5 -e '{"gucs": {"work_mem": "8MB"}}'""",
        "With pgsizing.bench 0.1.0, commit f00:",
    ):
        assert part in report
    assert "None" not in report


def test_other_metrics_stand_beside_the_headline_with_their_spread():
    planned = experiment()
    trials = trials_of(planned)
    for n, t in enumerate(trials):
        t["metrics"]["tpm"] = {"value": 8000.0 + 100 * n, "unit": "1/min", "better": "higher"}
    result = summary.summarise(planned, trials)
    assert result["rows"][0]["metrics"] == {"tpm": {"unit": "1/min", "n": 5, "median": 8200.0, "spread_text": "CV 1.9 %"}}
    for text in (summary.text_table(result), markdown(result, planned, trials)):
        assert "128MB: TPM 8,200 1/min (CV 1.9 %)" in text


def test_each_script_has_its_own_latencies():
    planned = experiment()
    trials = trials_of(planned, **{"1GB_r1": [finding("run_aborted", "ended")]})
    for n, t in enumerate(trials):
        one = {"stddev": 0.5, "min": 0.1, "p50": 1.0, "p90": 2.0, "p99": 4.0, "p99_9": 9.0, "max": 20.0}
        t["latency"]["scripts"] = [
            {"name": "neword", "transactions": 450, "average": 1.5, "p95": 3.0 + n, **one},
            {"name": "ostat", "transactions": 50, "average": 0.5, "p95": 0.75, **one},
        ]
    planned["plan"]["workload"] = "tprocc"
    result = summary.summarise(planned, trials)
    assert [(r["variant"], r["script"], r["n"], r["share"], r["latency"]["p95"]) for r in result["scripts"]] == [
        ("128MB", "neword", 5, 0.9, 5.0),
        ("128MB", "ostat", 5, 0.1, 0.75),
        ("1GB", "neword", 4, 0.9, 10.5),  # without the aborted one
        ("1GB", "ostat", 4, 0.1, 0.75),
    ]
    lines = summary.text_table(result).split("\n")
    assert next(line.split() for line in lines if "transaction" in line)[:3] == ["variant", "transaction", "share"]
    assert "1GB      ostat        10.0 %" in "\n".join(lines)
    report = markdown(result, planned, trials)
    assert "### By transaction" in report
    assert "| 1GB | neword | 4 | 90.0 % | 1.500 | 0.5 | 0.1 | 1.000 | 2.000 | 10.50 | 4.000 | 9.000 | 20.00 |" in report


def test_a_single_script_is_the_whole():
    planned = experiment()
    trials = trials_of(planned)
    for t in trials:
        t["latency"]["scripts"] = [{"name": "tpcb-like", "transactions": 450, "average": 1.5}]
    assert summary.summarise(planned, trials)["scripts"] == []


def test_findings_of_one_code_in_one_trial_are_all_told():
    planned = experiment()
    missing = [finding("settings_not_in_effect", f"{name}: asked for 8MB, in effect is 4MB") for name in ("work_mem", "temp_buffers")]
    trials = trials_of(planned, **{"1GB_r1": missing, "1GB_r2": missing[1:]})
    result = summary.summarise(planned, trials)
    found = {f["message"].split(":")[0]: f["trials"] for f in result["findings_by_variant"]["1GB"]}
    assert found == {"work_mem": ["1GB-r1"], "temp_buffers": ["1GB-r1", "1GB-r2"]}
    for text in (summary.text_table(result), markdown(result, planned, trials)):
        assert "work_mem: asked for" in text
        assert "temp_buffers: asked for" in text


def test_cells_cannot_break_a_table():
    planned = experiment(deviations=[{"what": "a|b", "published": "x\ny", "here": None}])
    assert "| a\\|b | x y | None |" in markdown(summary.summarise(planned, []), planned, [])
