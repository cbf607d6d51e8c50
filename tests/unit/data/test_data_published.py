# GNU General Public License v3.0 or later (see LICENSE)
"""Published runs as data: every figure is the printed one, and every contradiction follows from printed figures."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import jsonschema
import pytest
from support.shipped import FACTS, PRICES, PRINTED, PROFILES, RUNS, SIZES, SPECS, TSHIRTS, table

from ansible_collections.pgsizing.bench.plugins.module_utils import guc
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

EDB, GRAVITON, INSERTS = (RUNS[name] for name in ("edb-aws-tshirt-2021", "graviton2-2021", "insert-benchmark-tuning-2023"))
METRICS = [
    *("tps", "nopm", "tpm", "riops", "cache_hits_per_s", "liops_per_thread", "iops_used", "inserts_per_s", "latency_average"),
    *("load_seconds", "build_seconds", "build_cpu_user_s", "build_cpu_system_s", "usd_per_hour"),
]
RECIPE = {"type": "object", "required": ["workload"]}
SCHEMA = {
    "type": "object",
    "required": ["title", "source", "conditions", "figures", "contradictions"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string"},
        "source": {"type": "string"},
        "date": {"type": "string", "pattern": r"^\d{4}(-\d\d-\d\d)?$"},
        "recipe": RECIPE,
        "parts": {"type": "object", "additionalProperties": {"properties": {"recipe": RECIPE, "pgio_conf": {"type": "object"}}}},
        "conditions": {"type": "object"},
        "figures": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["variant", "metric", "value", "unit", "better"],
                "additionalProperties": False,
                "properties": {
                    "variant": {"type": "string"},
                    "size": {"enum": list(TSHIRTS)},
                    "part": {"type": "string"},
                    "step": {"type": "string"},
                    "protocol": {"enum": ["simple", "extended", "prepared"]},
                    "metric": {"enum": METRICS},
                    "value": {"type": "number"},
                    "unit": {"type": "string"},
                    "better": {"enum": ["higher", "lower", None]},
                    "note": {"type": "string"},
                },
            },
        },
        "verdicts": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "contradictions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["what", "says", "taken"],
                "additionalProperties": False,
                "properties": {
                    "what": {"type": "string"},
                    "says": {"type": "string"},
                    "taken": {"type": "string"},
                    "size": {"type": ["string", "array"]},
                },
            },
        },
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}


def text(name: str) -> str:
    return (PRINTED / name).read_text(encoding="utf-8")


def figures(run: dict[str, Any], metric: str, by: str = "variant", **where: str) -> dict[str, float]:
    return {f[by]: f["value"] for f in run["figures"] if f["metric"] == metric and where.items() <= f.items()}


def contradiction(run: dict[str, Any], beginning: str) -> dict[str, Any]:
    (found,) = [c for c in run["contradictions"] if c["what"].startswith(beginning)]
    return dict(found)


@pytest.mark.parametrize("name", RUNS)
def test_schema(name: str) -> None:
    jsonschema.validate(RUNS[name], SCHEMA)
    assert len({tuple(v for k, v in f.items() if k not in ("value", "note")) for f in RUNS[name]["figures"]}) == len(RUNS[name]["figures"])


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if "recipe" in run])
def test_a_figure_belongs_to_a_variant_of_the_recipe(name: str) -> None:
    recipe = RUNS[name]["recipe"]
    variants = recipe.get("variants") or {f"size={size}" for size in recipe["size"]}
    assert {f["variant"] for f in RUNS[name]["figures"]} <= set(variants)


# T-shirt sizes -------------------------------------------------------------------------------------------------------------


def test_figures_of_the_tshirt_sizes_are_the_printed_ones() -> None:
    rows = table("edb_results.md")
    numbers = [[int(cell.replace(",", "")) for cell in row[5:]] for row in rows]
    for column, found in enumerate(
        (EDB["conditions"]["iops_provisioned"], *(figures(EDB, m, "size") for m in ("iops_used", "tpm", "nopm"))),
    ):
        assert found == dict(zip(TSHIRTS, (row[column] for row in numbers), strict=True))


def test_medium_does_not_have_the_ratio_of_the_driver_and_is_not_repaired() -> None:
    nopm, tpm = figures(EDB, "nopm", "size"), figures(EDB, "tpm", "size")
    ratios = {size: tpm[size] / nopm[size] for size in TSHIRTS}
    assert [round(ratios[size], 4) for size in TSHIRTS] == [2.3000, 2.3898, 2.3014, 2.2997]
    assert contradiction(EDB, "TPM against NOPM")["size"] == "medium"
    assert round(tpm["medium"] - 2.3 * nopm["medium"]) == 12697


def test_scaling_from_size_to_size() -> None:
    nopm = figures(EDB, "nopm", "size")
    steps = [nopm[b] / nopm[a] for a, b in itertools.pairwise(TSHIRTS)]
    assert [round(step, 2) for step in steps] == [2.06, 1.91, 1.81]


def test_provisioned_iops_of_table_and_specification() -> None:
    table_says = list(EDB["conditions"]["iops_provisioned"].values())
    spec_says = [SPECS[size]["postgres_server"]["additional_volumes"]["iops"] for size in TSHIRTS]
    assert (table_says, spec_says) == ([10000, 10000, 30000, 40000], [10000, 10000, 10000, 30000])
    limits = [FACTS["instances"][SIZES[size]["instance_type"]]["ebs"]["maximum_iops"] for size in TSHIRTS]
    assert [said > limit for said, limit in zip(table_says, limits, strict=True)] == [False, False, True, True]


def test_specifications_are_appendix_b() -> None:
    line = text("edb_appendix_b.md").splitlines()[2]
    cells = line.strip().removeprefix("| ").removesuffix(" |").split(" | ")
    assert [json.loads(cell[1:-1].replace('""', '"')) for cell in cells] == [SPECS[size] for size in TSHIRTS]
    assert [SPECS[size]["postgres_server"]["volume"]["iops"] for size in TSHIRTS] == [2500, 250, 250, 250]


def test_the_recipe_of_the_tshirt_sizes_is_that_of_the_sizes() -> None:
    for size in TSHIRTS:
        assert {key: EDB["recipe"][key] for key in SIZES[size]["workload"]} == SIZES[size]["workload"]
    assert EDB["recipe"]["profile"] in PROFILES


# Graviton2 -----------------------------------------------------------------------------------------------------------------


def test_c094_figures_of_graviton2_are_the_printed_ones() -> None:
    printed = text("graviton2_figures.txt")
    for variant in ("m5d.2xlarge", "m6gd.2xlarge"):
        times = re.search(rf"{variant} .*?(\d+)m([\d.]+)s, … (\d+)m([\d.]+)s, sys 0m([\d.]+)s", printed)
        assert times
        real, user = (60 * int(times[i]) + float(times[i + 1]) for i in (1, 3))
        assert figures(GRAVITON, "build_seconds")[variant] == pytest.approx(real)
        assert figures(GRAVITON, "build_cpu_user_s")[variant] == pytest.approx(user)
        assert figures(GRAVITON, "build_cpu_system_s")[variant] == pytest.approx(float(times[5]))
        rates = [float(rate) for rate in re.findall(rf"{variant} .*?tps = ([\d.]+)\(", printed)]
        assert rates == [figures(GRAVITON, "tps", protocol=protocol)[variant] for protocol in ("simple", "prepared")]
        price = re.search(rf"{variant} .*?\$([\d.]+)/", printed)
        assert price and figures(GRAVITON, "usd_per_hour")[variant] == float(price[1])
    lines = re.findall(r"Run time: (\d+) seconds. RIOPS >(\d+)< CACHE_HITS/s >(\d+)<", printed)
    for variant, (seconds, riops, hits) in zip(("m6gd.2xlarge", "m5d.2xlarge"), lines, strict=True):  # ARM ran first
        assert int(seconds) == GRAVITON["parts"]["pgio"]["pgio_conf"]["RUN_TIME"] == 3600
        assert figures(GRAVITON, "riops")[variant] == int(riops)
        assert figures(GRAVITON, "cache_hits_per_s")[variant] == int(hits)
        assert figures(GRAVITON, "liops_per_thread")[variant] == int(hits) // 4
    assert re.findall(r"(\d+) LIOPS", printed) == ["780651", "896280"]


def test_c094_what_the_counters_say() -> None:
    rows = re.findall(r"(BEFORE|AFTER): +pgio +\| (\d+) \| +(\d+)", text("graviton2_figures.txt"))
    hits, reads = ([int(row[i]) for row in rows] for i in (1, 2))
    per_second = [(b - a) / 3600 for values in (hits, reads) for a, b in (values[:2], values[2:])]
    assert [round(value, 1) for value in per_second] == [3122604.7, 3585123.1, 0.1, 146.2]
    assert "36,000 s" in contradiction(GRAVITON, "length of the PGIO run")["says"]
    assert re.findall(r"Shared buffers: (\w+)", text("graviton2_figures.txt")) == ["8GB", "8500MB"]


def test_c094_comparisons_are_worked_out_anew() -> None:
    arm, x86 = (figures(GRAVITON, "liops_per_thread")[name] for name in ("m6gd.2xlarge", "m5d.2xlarge"))
    assert (round(100 * (x86 / arm - 1), 1), round(100 * (1 - arm / x86), 1)) == (14.8, 12.9)
    assert "14.8 % faster on x86, or 12.9 % slower on ARM" in contradiction(GRAVITON, "logical I/O")["taken"]
    real, user = (figures(GRAVITON, name) for name in ("build_seconds", "build_cpu_user_s"))
    slower = [round(100 * (f["m6gd.2xlarge"] / f["m5d.2xlarge"] - 1), 1) for f in (real, user)]
    assert slower == [10.5, 13.0]
    usd = figures(GRAVITON, "usd_per_hour")
    assert round(usd["m6gd.2xlarge"] / usd["m5d.2xlarge"], 2) == 0.8


def test_huge_pages_of_the_published_formula() -> None:
    assert 1 + int(1024 * 9000 / 2048) == 4501
    assert "4501" in GRAVITON["conditions"]["huge_pages"]


def test_region_of_the_published_prices() -> None:
    usd = figures(GRAVITON, "usd_per_hour")
    fits = [region for region, p in PRICES.items() if all(round(p["instances"][name], 3) == usd[name] for name in usd)]
    assert fits == ["eu-west-1"]


# insert benchmark ----------------------------------------------------------------------------------------------------------


def test_figures_of_the_insert_benchmark_are_the_printed_ones() -> None:
    found = re.search(r"from (\d+) to (\d+) inserts/s", text("insert_benchmark_figures.txt"))
    assert found
    assert figures(INSERTS, "inserts_per_s") == {"base": int(found[1]), "a1": int(found[2])}
    assert round(122963 / 110299, 2) == 1.11


def _group(pattern: str) -> list[str]:
    found = re.search(pattern, text("insert_benchmark_figures.txt"))
    assert found
    return re.findall(r"a\d+", found[1])


@pytest.mark.parametrize(
    ("verdict", "pattern"),
    [
        ("significant_benefit", r"significant benefit: (.*)"),
        ("small_benefit", r"small benefit: (.*)"),
        ("no_impact", r"no impact: (.*)"),
        ("worse", r"hurt performance:\s*(.*)"),
        ("ignored", r"can be ignored: (.*)"),
        ("worst_case_much_worse", r"Some of the configs \((.*)\)"),
    ],
)
def test_verdicts_of_the_insert_benchmark(verdict: str, pattern: str) -> None:
    assert INSERTS["verdicts"][verdict] == _group(pattern)


def test_a16_is_in_no_group() -> None:
    groups = [INSERTS["verdicts"][g] for g in ("significant_benefit", "small_benefit", "no_impact", "worse", "ignored")]
    assert {f"a{n}" for n in range(1, 18)} - {name for group in groups for name in group} == {"a16"}


def _asked(variant: str) -> dict[str, str]:
    """What the post says that a configuration adds."""
    (line,) = re.findall(rf"\({variant}\) - (.*)", text("insert_benchmark_figures.txt"))
    if variant == "a17":
        return {"bgwriter_lru_maxpages": "1000"}
    renamed = {"autovacuum_scale_factor": "autovacuum_vacuum_scale_factor"}
    renamed["autovacuum_insert_scale_factor"] = "autovacuum_vacuum_insert_scale_factor"
    return {renamed.get(name, name): value.replace("kb", "kB") for name, value in re.findall(r"([a-z_]+)=([\w.]+)", line)}


def test_c037_16384_without_a_unit_is_read_in_mb() -> None:
    assert _asked("a5") == {"min_wal_size": "16384"}
    assert INSERTS["recipe"]["variants"]["a5"] == {"gucs": {"min_wal_size": "16GB"}}


@pytest.mark.parametrize("variant", [f"a{n}" for n in range(1, 18)])
def test_variants_of_the_insert_benchmark(variant: str) -> None:
    ours = INSERTS["recipe"]["variants"][variant]
    known = catalogue.load("postgres", "15")["settings"]
    asked = _asked(variant)
    segments = "wal-segsize" in re.findall(rf"\({variant}\) - (.*)", text("insert_benchmark_figures.txt"))[0]
    assert ours.get("initdb", {}) == ({"wal_segsize": 256} if segments else {})
    for name, printed in asked.items():
        assert guc.equal(known[name], ours["gucs"][name], printed), name
    assert set(ours["gucs"]) - set(asked) == ({"min_wal_size"} if segments else set())


def test_settings_of_the_insert_benchmark_exist() -> None:
    recipe = INSERTS["recipe"]
    known = catalogue.load("postgres", recipe["postgres_version"])
    for variant in recipe["variants"].values():
        segment = variant.get("initdb", {}).get("wal_segsize", 16) * 2**20
        settings, _, problems = guc.resolve({**recipe["gucs"], **variant.get("gucs", {})}, known, origin="recipe", wal_segment_size=segment)
        assert problems == []
        assert guc.conflicts({s["name"]: s for s in settings}, wal_segment_size=segment) == []


def test_the_base_does_not_set_what_the_post_says_it_sets() -> None:
    assert "checkpoint_timeout" not in INSERTS["recipe"]["gucs"]
    assert INSERTS["recipe"]["gucs"]["checkpoint_warning"] == "1800s"
    assert "300 s" in contradiction(INSERTS, "checkpoint_timeout")["taken"]


def test_c050_the_study_of_shared_buffers_takes_what_the_server_showed() -> None:
    run = RUNS["pgbench-shared-buffers-2023"]
    assert contradiction(run, "shared_buffers after the change")["taken"] == "1GB"
    assert list(run["recipe"]["variants"]) == ["128MB", "1GB"]
