# GNU General Public License v3.0 or later (see LICENSE)
"""Which size: never more than was shown, on made-up points and on the published ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils import preflight, sizing, spec
from ansible_collections.pgsizing.bench.plugins.module_utils.sizing_text import size_text
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB

ROOT = Path(__file__).parents[4]


# made-up points ------------------------------------------------------------------------------------------------------


def facts(vcpus: int, gib: int) -> dict[str, Any]:
    ebs = {"baseline_iops": 1000 * vcpus, "maximum_iops": 20_000, "baseline_bytes_per_s": 10**8, "maximum_bytes_per_s": 10**9}
    return {"vcpus": vcpus, "cores": vcpus // 2, "memory_bytes": gib * GIB, "architecture": "x86_64", "ebs": ebs}


INSTANCES = {"x1.a": facts(2, 16), "x1.b": facts(4, 32), "x1.c": facts(8, 64), "x1.d": facts(16, 128), "y1.c": facts(8, 64)}
PRICES = {
    "date": "2026-07-20",
    "source": "made up",
    "instances": {"x1.a": 0.1, "x1.b": 0.2, "x1.c": 0.4, "x1.d": 0.8, "y1.c": 0.01},
    "volumes": {"io2": {"gb_month": 0.1, "iops_tiers": [{"up_to": None, "iops_month": 0.1}]}, "gp3": {"gb_month": 0.1}},
}


def size(name: str, instance_type: str | None) -> dict[str, Any]:
    volume = {"type": "io2", "bytes": 100 * GIB, "iops": 2000, "throughput": None, "encrypted": None}
    volumes = {"data": volume, "wal": dict(volume)} if instance_type else {}
    return {"name": name, "instance_type": instance_type, "volumes": volumes, "driver": None, "profile": "local", "workload": None}


SIZES = {name: size(name, f"x1.{name}") for name in "abcd"}


def point(name: str, nopm: float, **more: Any) -> dict[str, Any]:
    common = {"size": name, "kind": "published", "instance_type": None, "vcpus": None, "memory_bytes": None, "n": 1, "cv": None}
    rest = {"database_bytes": 64 * GIB, "iops_used": None, "iops_provisioned": None, "source": "made up", "doubts": []}
    return {**common, **rest, "nopm": nopm, **more}


POINTS = [point("a", 1000, iops_used=300), point("b", 2000, iops_used=300), point("c", 4000, iops_used=200)]


def ask(nopm: float, database: int = 64, working_set: int | None = None, **more: Any) -> dict[str, Any]:
    need = {
        "nopm": nopm,
        "database_bytes": database * GIB,
        "working_set_bytes": working_set and working_set * GIB,
        "region": None,
        "results_dir": None,
    }
    arguments = {"points": POINTS, "sizes": SIZES, "instances": INSTANCES, "prices": PRICES, "region": "r", **more}
    return sizing.recommend(need, **arguments)


@pytest.mark.parametrize(
    ("nopm", "recommended", "order"),
    [
        (1, "a", ["a", "b", "c"]),
        (1000, "a", ["a", "b", "c"]),
        (1001, "b", ["b", "c", "d"]),
        (2000, "b", ["b", "c", "d"]),
        (2001, "c", ["c", "d"]),
        (4000, "c", ["c", "d"]),
        (4001, None, []),
    ],
)
def test_the_cheapest_size_that_was_shown_and_the_next_two(nopm: float, recommended: str | None, order: list[str]) -> None:
    answer = ask(nopm)
    assert answer["recommended"] == recommended
    assert [c["size"] for c in answer["sizes"]] == order
    assert answer["evidence"] == ("shown" if recommended else None)
    for candidate in answer["sizes"]:
        assert candidate["promised_nopm"] >= nopm
        assert candidate["headroom"] == pytest.approx(candidate["promised_nopm"] / nopm - 1)


def test_a_size_that_was_never_measured_is_promised_what_the_smaller_one_shows() -> None:
    answer = ask(3000)
    never = next(c for c in answer["sizes"] if c["size"] == "d")
    assert (never["promised_nopm"], never["promised_by"]["size"], never["measured"]) == (4000, "c", None)
    assert any("d: never measured; promised is what the smaller c shows" in line for line in answer["uncertainty"])


def test_another_family_proves_nothing() -> None:
    answer = ask(500, sizes={**SIZES, "other": size("other", "y1.c")})
    assert answer["recommended"] == "a"  # although "other" would be far cheaper
    assert answer["unmeasured"] == ["other"]


def test_a_neighbour_proves_nothing_against_the_figure_of_the_size_itself() -> None:
    answer = ask(1500, points=[point("b", 2000), point("c", 1600), point("d", 9000)])
    assert next(c for c in answer["sizes"] if c["size"] == "c")["promised_nopm"] == 1600


@pytest.mark.parametrize(
    ("database", "working_set", "promised"),
    [
        (64, None, {"a": 1000, "b": 2000, "c": 4000, "d": 4000}),
        # 128 GB keep half their data on disk on "c", as 64 GB did on "b"; on "d" all is in memory
        (128, None, {"a": None, "b": 1000, "c": 2000, "d": 4000}),
        (256, None, {"a": None, "b": None, "c": 1000, "d": 2000}),
        # what counts is the working set
        (256, 64, {"a": 1000, "b": 2000, "c": 4000, "d": 4000}),
        (1024, None, dict.fromkeys("abcd")),
    ],
)
def test_a_larger_working_set_is_promised_what_was_shown_with_as_little_in_memory(
    database: int, working_set: int | None, promised: dict[str, int | None]
) -> None:
    answer = ask(1, database, working_set)
    found = {c["size"]: c["promised_nopm"] for c in [*answer["sizes"], *answer["not_enough"]]}
    assert len(found) >= 3
    assert {name: promised[name] for name in found} == found


def test_where_nothing_is_shown_the_figure_itself_is_named_as_an_extrapolation() -> None:
    answer = ask(3000, 256)
    assert (answer["recommended"], answer["evidence"]) == ("c", "extrapolated")
    (best,) = [c for c in answer["sizes"] if c["size"] == "c"]
    assert (best["nopm"], best["promised_nopm"]) == (4000, 1000)
    said = next(line for line in answer["uncertainty"] if line.startswith("c: 4,000 NOPM were measured on 64GB"))
    assert "256GB is 4.0 times that, and 75% of it does not fit in memory (0% there); shown for such a share: 1,000 NOPM, by a" in said


def test_beyond_the_largest_nothing_is_recommended_and_the_most_is_named() -> None:
    answer = ask(10_000)
    assert (answer["recommended"], answer["sizes"]) == (None, [])
    text = "\n".join(size_text(answer))
    assert "no size is known to do it; the most is 4,000 NOPM, by c" in text
    assert "benchmark.yml" not in text


@pytest.mark.parametrize(
    ("nopm", "database", "name", "expected", "of", "beyond"),
    [
        (1000, 64, "a", 300, "a", False),  # its own, at the rate it was measured with
        (500, 64, "a", 150, "a", False),
        (500, 64, "d", 25, "c", False),  # of the next smaller cache: c read and wrote 200 at 4000
        (500, 256, "d", 75, "b", False),  # half on disk, as b: 300 at 2000
        (500, 128, "a", 175, "a", True),  # seven eighths on disk, three quarters were seen: 150 * 7/6
    ],
)
def test_iops_come_from_what_a_new_order_took(nopm: float, database: int, name: str, expected: float, of: str, beyond: bool) -> None:
    answer = ask(nopm, database, sizes={name: SIZES[name]}, points=[{**p, "instance_type": f"x1.{p['size']}"} for p in POINTS])
    iops = answer["sizes"][0]["iops"]
    assert iops["expected"] == pytest.approx(expected)
    assert (iops["per_new_order_of"], iops["beyond_points"]) == (of, beyond)
    assert iops["provide"] % 500 == 0 and iops["provide"] >= 2 * iops["expected"]


def test_the_cost_is_that_of_the_measured_volumes_and_the_leaner_one_is_an_offer() -> None:
    best = ask(500)["sizes"][0]
    assert best["size"] == "a"
    # 730 h, two volumes of 100 GB and 2,000 IOPS; the leaner one has 500 IOPS each
    assert best["cost"]["usd_per_month"] == pytest.approx(73 + 20 + 400)
    assert best["cost_lean"]["usd_per_month"] == pytest.approx(73 + 20 + 100)
    assert best["usd_per_million_new_orders"] == pytest.approx(493 / 730 / (500 * 60) * 1e6)
    assert "193.00 USD with 500 IOPS on each volume; it was not measured so" in "\n".join(size_text(ask(500)))


def test_more_iops_than_measured_are_paid_for() -> None:
    answer = ask(1000, points=[point("b", 1000, iops_used=3000)])
    assert answer["sizes"][0]["iops"]["provide"] == 6000
    assert answer["sizes"][0]["cost"]["by_kind"]["iops"] == pytest.approx(1200)
    assert "more than the 4,000 that the instance sustains" in "\n".join(size_text(answer))


def with_volumes(name: str, **volumes: dict[str, Any]) -> dict[str, Any]:
    return {**size(name, f"x1.{name}"), "volumes": volumes}


def disk(kind: str, gib: int, iops: int | None = None, throughput: int | None = None) -> dict[str, Any]:
    return {"type": kind, "bytes": gib * GIB, "iops": iops, "throughput": throughput, "encrypted": None}


GP3_PRICES = {
    **PRICES,
    "volumes": {
        "gp2": {"gb_month": 0.1},
        "gp3": {"gb_month": 0.1, "iops_month": 0.01, "mbps_month": 0.1, "iops_included": 3000, "mbps_included": 125},
        "io1": {"gb_month": 0.1, "iops_month": 0.1},
    },
}


@pytest.mark.parametrize(
    ("volumes", "said"),
    [
        # the 3,000 IOPS of a at 1,000 NOPM
        ({"data": disk("gp2", 500)}, "d: data volume: gp2 of 500GB sustains 1,500 IOPS, not the 3,000 at your rate"),
        ({"data": disk("gp2", 2000), "wal": disk("gp2", 50)}, "d: wal volume: gp2 of 50GB sustains 150 IOPS"),
        ({"root": disk("gp2", 50)}, "d: root volume: gp2 of 80GB sustains 240 IOPS"),
        ({"data": disk("io1", 10, 100), "wal": disk("io1", 50, 100)}, "d: wal volume: io1 of 50GB sustains 2,500 IOPS"),
        ({"data": disk("io3", 100, 9000)}, "d: data volume: 'io3' is not one of io2, io1"),
        ({"data": disk("gp2", 2000, 9000)}, "d: data volume: iops is not a parameter of gp2"),
        ({"data": disk("gp2", 2000)}, None),
        ({"data": disk("gp3", 100)}, None),
    ],
)
def test_a_size_whose_volumes_do_not_deliver_is_not_shown(volumes: dict[str, Any], said: str | None) -> None:
    points = [point("c", 4000, iops_used=12_000, instance_type="x1.c")]
    answer = ask(1000, points=points, sizes={"d": with_volumes("d", **volumes)}, prices=GP3_PRICES)
    assert answer["recommended"] == (None if said else "d")
    assert [c["size"] for c in answer["unfit"]] == (["d"] if said else [])
    if said:
        assert answer["unfit"][0]["cannot"][0].startswith(said)
        assert answer["not_enough"] == answer["unmeasured"] == []
        assert "cannot do it as described" in "\n".join(size_text(answer))


def test_what_the_instance_does_not_sustain_is_not_shown() -> None:
    answer = ask(1000, points=[point("a", 1000, iops_used=3000)], sizes={"a": SIZES["a"]})
    assert answer["recommended"] is None
    assert answer["unfit"][0]["cannot"] == ["a: x1.a sustains 2,000 IOPS, not the 3,000 at your rate"]


def test_volumes_are_compared_where_the_io_of_the_neighbour_is_not_known() -> None:
    sizes = {"c": SIZES["c"], "d": with_volumes("d", data=disk("gp2", 500))}
    answer = ask(1000, points=[point("c", 4000)], sizes=sizes, prices=GP3_PRICES)
    assert answer["recommended"] == "c"
    assert answer["unfit"][0]["cannot"] == [
        "d: data volume: gp2 of 500GB sustains 1,500 IOPS, not the 2,000 that a volume of c has, whose I/O is not known"
    ]
    assert len(ask(1000, points=[point("c", 4000)], sizes={**sizes, "d": SIZES["d"]})["sizes"]) == 2


def test_the_iops_of_gp3_are_provided_and_priced() -> None:
    sizes = {"d": with_volumes("d", data=disk("gp3", 100), wal=disk("gp3", 100, 4000))}
    points = [point("c", 4000, iops_used=12_000, instance_type="x1.c")]
    best = ask(1500, points=points, sizes=sizes, prices=GP3_PRICES)["sizes"][0]
    assert best["iops"]["provide"] == 9000
    assert {role: v["iops"] for role, v in best["volumes"].items()} == {"data": 9000, "wal": 9000}
    assert best["cost"]["by_kind"]["iops"] == pytest.approx(2 * 6000 * 0.01)
    assert best["cost"]["by_kind"]["throughput"] == 0  # 9,000 blocks of 8 kB are 71 MiB/s
    little = ask(10, points=points, sizes=sizes, prices=GP3_PRICES)["sizes"][0]
    assert little["cost"]["by_kind"]["iops"] == pytest.approx(1000 * 0.01)  # the 4,000 of its own
    assert little["lean_iops"] == {"data": 3000, "wal": 3000}  # no fewer can be had


def test_the_throughput_that_these_iops_need_is_priced_and_never_more_than_they_allow() -> None:
    sizes = {"d": with_volumes("d", data=disk("gp3", 100))}
    points = [point("c", 4000, iops_used=40_000, instance_type="x1.c")]
    best = ask(1400, points=points, sizes=sizes, prices=GP3_PRICES)["sizes"][0]
    assert (best["iops"]["wanted"], best["iops"]["provide"]) == (28_000, 20_000)  # the instance takes 20,000
    assert best["volumes"]["data"]["throughput"] == 157
    assert best["cost"]["by_kind"]["throughput"] == pytest.approx(32 * 0.1)
    sizes = {"d": with_volumes("d", data=disk("gp3", 100, 8000, 2000))}
    lean = ask(10, points=points, sizes=sizes, prices=GP3_PRICES)["sizes"][0]
    assert lean["cost_lean"]["by_kind"]["throughput"] == pytest.approx((3000 / 4 - 125) * 0.1)


def test_no_more_is_provided_than_the_instance_takes_together() -> None:
    points = [point("c", 4000, iops_used=32_000, instance_type="x1.c")]
    answer = ask(1000, points=points, sizes={"d": SIZES["d"]})
    iops = answer["sizes"][0]["iops"]
    assert (round(iops["expected"]), iops["wanted"], iops["provide"]) == (8000, 16_000, 10_000)
    said = "d: twice the IOPS of your rate, 16,000 on each volume, are more than x1.d takes together (20,000): 10,000 on each are provided"
    assert said in answer["uncertainty"]
    # where one volume alone may need more than its share, it gets it, and what cannot be used is said
    more = ask(1900, points=points, sizes={"d": SIZES["d"]})
    assert more["sizes"][0]["iops"]["provide"] == 15_500
    assert any("31,000 IOPS provisioned, x1.d takes 20,000: 11,000 are paid for and cannot be used" in line for line in more["uncertainty"])


def test_a_database_larger_than_any_volume_is_said() -> None:
    answer = ask(100, 60 * 1024, 64)
    assert answer["recommended"] is None
    assert answer["unfit"][0]["cannot"] == [
        "a: data volume: 60TB on it, no fuller than 80%, make 75TB, and no volume of io2 is larger than 64TB"
    ]
    assert ask(100, 51 * 1024, 64)["recommended"] == "a"


def test_what_is_offered_passes_the_preflight() -> None:
    for nopm in (100, 1000, 3000):
        for database in (10, 64, 1000):
            for candidate in ask(nopm, database, 10, sizes={**SIZES, "b": with_volumes("b", data=disk("gp3", 4))})["sizes"]:
                problems: list[str] = []
                for role, volume in candidate["volumes"].items():
                    preflight.volume_check("", role, volume, [], problems)
                assert problems == []


def test_a_rate_goes_by_the_name_of_the_run_that_it_is_of() -> None:
    points = [point("b", 2000, iops_used=300, database_bytes=32 * GIB), point("c", 4000, iops_used=200)]
    iops = ask(1000, points=points, sizes={"b": SIZES["b"], "c": SIZES["c"], "d": SIZES["d"]})["sizes"][-1]["iops"]
    assert (iops["per_new_order"], iops["per_new_order_of"]) == (pytest.approx(9), "b")
    swapped = [{**points[0], "iops_used": 100}, {**points[1], "iops_used": 1000}]
    iops = ask(1000, points=swapped, sizes={"b": SIZES["b"], "c": SIZES["c"], "d": SIZES["d"]})["sizes"][-1]["iops"]
    assert (iops["per_new_order"], iops["per_new_order_of"]) == (pytest.approx(15), "c")


def test_the_data_volume_grows_with_the_database() -> None:
    best = ask(500, 90, 64)["sizes"][0]
    assert best["data_volume"] == {"role": "data", "bytes": 120 * GIB, "measured_bytes": 100 * GIB}
    assert best["cost"]["by_kind"]["storage"] == pytest.approx(22)


def test_without_prices_the_order_is_by_vcpu_and_nothing_is_called_cheapest() -> None:
    answer = ask(500, prices=None, region="ap-south-1")
    assert [c["size"] for c in answer["sizes"]] == ["a", "b", "c"]
    assert answer["sizes"][0]["cost"]["usd_per_month"] is None
    assert "not every price is known in ap-south-1" in answer["uncertainty"][0]
    assert "not known: no price for everything" in "\n".join(size_text(answer))


def test_a_small_headroom_is_within_the_spread_of_such_runs() -> None:
    assert any("a: 0% headroom is within what identical runs" in line for line in ask(1000)["uncertainty"])
    assert not any(line.startswith("a: 100% headroom") for line in ask(500)["uncertainty"])


# the user's own results ----------------------------------------------------------------------------------------------


def experiment(created: float = 1.0, **plan: Any) -> dict[str, Any]:
    variants = [
        {"name": "base", "size": "b", "dataset": {"bytes": 70 * GIB}},
        {"name": "big", "size": "b", "dataset": {"bytes": 70 * GIB}},
    ]
    bought = {"where": {"provider": "aws"}, "hardware": [{"name": "b", "instance_type": "x1.b"}]}
    return {
        "experiment_id": f"e{created}",
        "created": created,
        "plan": {"headline": "nopm", "scaling": [], "variants": variants, **bought, **plan},
    }


def trial(nopm: float | None, variant: str = "base", verdict: str = "valid", iops: float | None = 100.0) -> dict[str, Any]:
    disk = {"data": {"reads_per_s": iops, "writes_per_s": iops}, "wal": "same as data"}
    server = {"cores": 4, "memory_bytes": 31 * GIB}
    return {
        "variant": variant,
        "verdict": verdict,
        "headline": {"metric": "nopm", "value": nopm},
        "environment": {"server": server, "observation": {"disk": disk} if iops else None},
    }


def test_own_results_are_the_median_of_the_valid_trials_of_the_first_variant() -> None:
    trials = [trial(1500), trial(1700), trial(1800), trial(9000, "big"), trial(1.0, verdict="suspect"), trial(None)]
    (own,) = sizing.own_points([(experiment(), trials)])
    assert (own["size"], own["kind"], own["nopm"], own["n"], own["iops_used"]) == ("b", "own", 1700, 3, 200)
    assert own["cv"] == pytest.approx(0.0917, abs=1e-4)
    assert (own["vcpus"], own["database_bytes"]) == (4, 70 * GIB)


@pytest.mark.parametrize(
    ("document", "trials"),
    [
        (experiment(headline="tps"), [trial(1500)]),
        (experiment(scaling=[{"name": "warehouses"}]), [trial(1500)]),
        (experiment(), [trial(1500, verdict="invalid")]),
        (experiment(), []),
        (experiment(variants=[]), [trial(1500)]),
    ],
)
def test_results_that_show_nothing_are_no_points(document: dict[str, Any], trials: list[dict[str, Any]]) -> None:
    assert sizing.own_points([(document, trials)]) == []


def test_the_newest_own_result_replaces_older_and_published_ones() -> None:
    own = sizing.own_points([(experiment(2.0), [trial(1700)]), (experiment(1.0), [trial(99)])])
    assert own[0]["nopm"] == 1700
    answer = ask(1800, points=[*POINTS, *own])
    assert answer["recommended"] == "c"  # published said 2000 for b; on the user's own system it was 1700
    assert "b (1,700)" in "\n".join(size_text(answer))


@pytest.mark.parametrize("provider", ["local", "inventory", "existing"])
def test_results_of_an_own_host_are_no_figures_of_the_instance_that_the_size_names(provider: str) -> None:
    here = {"where": {"provider": provider}, "hardware": []}
    own = sizing.own_points([(experiment(2.0, **here), [trial(9000)])])
    answer = ask(1800, points=[*POINTS, *own])
    assert answer["sizes"] == ask(1800)["sizes"]  # as if there were none: b has its published 2,000
    (said,) = [line for line in answer["uncertainty"] if "e2.0" in line]
    place = {"local": "this machine", "inventory": "of the inventory", "existing": "target=existing"}[provider]
    assert said.startswith(
        f"b: your own 9,000 NOPM (e2.0) were measured on a host of your own ({place}, 4 vCPU, 31GB), not on the x1.b that the size is"
    )
    assert said in " ".join(" ".join(size_text(answer)).split())


def test_a_result_of_an_own_host_does_not_hide_an_older_one_of_the_instance() -> None:
    here = experiment(2.0, where={"provider": "local"}, hardware=[])
    own = sizing.own_points([(here, [trial(9000)]), (experiment(1.0), [trial(1700)])])
    assert [c["nopm"] for c in ask(1, points=[*POINTS, *own])["sizes"]][1] == 1700


def test_an_own_host_that_is_known_to_be_the_instance_counts_and_another_one_for_itself() -> None:
    here = experiment(where={"provider": "inventory"}, hardware=[])
    on = trial(3400)
    on["environment"]["server"] |= {"instance_type": "x1.b"}
    answer = ask(1, points=[*POINTS, *sizing.own_points([(here, [on])])])
    assert answer["sizes"][1]["measured"]["source"] == "e1.0"
    on["environment"]["server"] |= {"instance_type": "x1.c", "cores": 8, "memory_bytes": 64 * GIB}
    answer = ask(1000, points=[*POINTS[:2], *sizing.own_points([(here, [on])])])
    assert answer["sizes"][1]["nopm"] == 2000  # published of b
    assert next(c for c in answer["sizes"] if c["size"] == "c")["promised_by"]["size"] == "x1.c"
    assert any("c: never measured; promised is what x1.c shows, no more" in line for line in answer["uncertainty"])
    assert "3,400 shown for your case, by x1.c" in " ".join(size_text(answer))
    assert any(
        "were measured on x1.c, not on the x1.b that the size is: they are figures of that machine" in t for t in answer["uncertainty"]
    )


def test_the_size_of_an_own_machine_keeps_the_newest_of_its_hosts() -> None:
    variants = [{"name": "base", "size": "rack", "dataset": {"bytes": 64 * GIB}}]
    hosts = [experiment(k, variants=variants, where={"provider": place}, hardware=[]) for k, place in ((1.0, "local"), (2.0, "inventory"))]
    own = sizing.own_points([(hosts[1], [trial(200)]), (hosts[0], [trial(100)])])
    assert [p["nopm"] for p in own] == [100, 200]
    answer = ask(50, points=own, sizes={"rack": size("rack", None)})
    assert (answer["sizes"][0]["nopm"], answer["uncertainty"][-1][:4]) == (200, "NOPM")


def test_a_published_point_stays_with_its_machine_when_the_size_gets_another() -> None:
    points = [{**POINTS[1], "instance_type": "x1.b"}]
    answer = ask(1, points=points, sizes={"b": size("b", "x1.d")})
    assert (answer["sizes"][0]["measured"], answer["sizes"][0]["promised_by"]["size"]) == (None, "x1.b")
    assert ask(1, points=points, sizes={"b": size("b", "y1.c")})["unmeasured"] == ["b"]


def test_an_own_machine_without_a_price_can_be_the_answer() -> None:
    own = point("rack", 8000, kind="own", vcpus=48, memory_bytes=512 * GIB, n=5, cv=0.02)
    answer = ask(6000, sizes={**SIZES, "rack": size("rack", None)}, points=[*POINTS, own])
    assert answer["recommended"] == "rack"
    assert "rack: own machine, 48 vCPU, 512GB memory" in "\n".join(size_text(answer))
    assert "nothing is rented; what your own machine costs is not known here" in "\n".join(size_text(answer))
    assert answer["sizes"][0]["usd_per_million_new_orders"] is None
    assert "8,000 measured (your own, 5 runs, CV 2.0%, 64GB)" in "\n".join(size_text(answer))


# what is asked -------------------------------------------------------------------------------------------------------


def test_a_question_is_read() -> None:
    need, problems = sizing.read_need({"need_nopm": "200000", "database_size": "300GB", "working_set": "80GB", "region": "eu-west-1"})
    assert problems == []
    assert (need["nopm"], need["database_bytes"], need["working_set_bytes"]) == (200_000, 300 * GIB, 80 * GIB)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["need_nopm: not given, such as -e need_nopm=200000", "database_size: not given, such as -e database_size=300GB"]),
        ({"need_nopm": "0", "database_size": "1GB"}, ["need_nopm: '0' must be greater than 0"]),
        ({"need_nopm": "-5", "database_size": "1GB"}, ["need_nopm: '-5' must be greater than 0"]),
        ({"need_nopm": "much", "database_size": "1GB"}, ["need_nopm: 'much' is not a number, such as need_nopm=0.5"]),
        ({"need_nopm": 5, "database_size": 300}, ["database_size: '300': a size needs its unit"]),
        ({"need_nopm": 5, "database_size": "-300GB"}, ["database_size: '-300GB': a size cannot be negative"]),
        ({"need_nopm": 5, "database_size": "300gb"}, ["database_size: '300gb': unknown unit 'gb': write 300GB"]),
        ({"need_nopm": 5, "database_size": "0GB"}, ["database_size: 0GB is nothing"]),
        ({"need_nopm": 5, "database_size": "1GB", "working_set": "2GB"}, ["working_set: 2GB is more than the whole database"]),
        ({"need_nopm": "x", "database_size": "1", "working_set": "?"}, ["need_nopm:", "database_size:", "working_set:"]),
    ],
)
def test_everything_wrong_with_a_question_is_said_at_once(given: dict[str, Any], said: list[str]) -> None:
    _need, problems = sizing.read_need(given)
    assert len(problems) == len(said)
    assert all(problem.startswith(text) for problem, text in zip(problems, said, strict=True))


# the published sizes ---------------------------------------------------------------------------------------------------

FILES = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in [*(ROOT / "published").glob("*.yml"), ROOT / "roles/plan/defaults/main/sizes.yml"]
}
SHIPPED = {name: spec.read_size(name, entry)[0] for name, entry in FILES.pop("sizes")["plan_sizes"].items()}
PUBLISHED = {"small": 68_499, "medium": 141_369, "large": 270_483, "xl": 490_532}


def shipped(name: str) -> Any:
    return json.loads((ROOT / "roles/plan/files" / name).read_text(encoding="utf-8"))


def ask_published(nopm: float, region: str = "us-east-1", **more: str) -> dict[str, Any]:
    need, problems = sizing.read_need({"need_nopm": nopm, "database_size": "120GB", **more})
    assert problems == []
    return sizing.recommend(
        need,
        points=sizing.published_points(FILES),
        sizes=SHIPPED,
        instances=shipped("instances.json")["instances"],
        prices=shipped(f"prices/{region}.json"),
        region=region,
    )


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
@pytest.mark.parametrize(("name", "nopm"), PUBLISHED.items())
def test_a_published_point_returns_the_published_size(name: str, nopm: int, region: str) -> None:
    answer = ask_published(nopm, region)
    assert (answer["recommended"], answer["evidence"]) == (name, "shown")
    assert answer["sizes"][0]["promised_nopm"] == nopm
    assert answer["sizes"][0]["headroom"] == 0


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_between_the_published_points_nothing_is_promised_beyond_them(region: str) -> None:
    for nopm in range(1_000, 495_000, 3_500):
        answer = ask_published(nopm, region)
        least = next((name for name, shown in PUBLISHED.items() if shown >= nopm), None)
        assert answer["recommended"] == least
        for candidate in answer["sizes"]:
            assert nopm <= candidate["promised_nopm"] <= PUBLISHED[candidate["size"]]


def test_beyond_the_largest_published_size() -> None:
    assert ask_published(490_533)["recommended"] is None


def test_the_question_of_the_first_seed() -> None:
    hot = ask_published(200_000, database_size="300GB")
    assert (hot["recommended"], hot["evidence"]) == ("large", "extrapolated")
    assert hot["sizes"][0]["promised_nopm"] == PUBLISHED["small"]
    warm = ask_published(200_000, database_size="300GB", working_set="80GB")
    assert (warm["recommended"], warm["evidence"]) == ("large", "shown")
    assert [c["size"] for c in warm["sizes"]] == ["large", "xl"]
    large = warm["sizes"][0]
    assert large["headroom"] == pytest.approx(0.352, abs=0.001)
    assert (large["iops"]["used"], large["iops"]["provisioned_then"]) == (4500, 30_000)
    assert large["iops"]["expected"] == pytest.approx(4500 * 200_000 / 270_483)
    assert large["cost"]["by_kind"]["compute"] == pytest.approx(1.192 * 730)


def test_more_than_the_instance_takes_is_not_offered_for_the_first_seed_either() -> None:
    large, xl = ask_published(200_000, database_size="300GB")["sizes"]
    assert large["iops"]["wanted"] == 15_000
    assert {role: v["iops"] for role, v in large["volumes"].items()} == {"root": None, "data": 10_000, "wal": 10_000}
    assert "large: 20,000 IOPS provisioned, r5n.4xlarge takes 18,750: 1,250 are paid for and cannot be used" in large["remarks"]
    assert xl["iops"]["provide"] == xl["iops"]["wanted"] == 9500


def test_no_volume_holds_100_tb() -> None:
    answer = ask_published(200_000, database_size="100TB", working_set="80GB")
    assert (answer["recommended"], [c["size"] for c in answer["unfit"]]) == (None, ["large", "xl"])
    assert "no volume of io2 is larger than 64TB" in answer["unfit"][0]["cannot"][0]
    # the smaller ones cannot have it either: none of them is called the most
    assert "  no size is known to do it" in size_text(answer)
    assert not any(line.startswith(("medium", "small")) for line in answer["uncertainty"])


def test_the_published_points_name_their_machines() -> None:
    assert {p["size"]: p["instance_type"] for p in sizing.published_points(FILES)} == {n: SHIPPED[n]["instance_type"] for n in PUBLISHED}


def test_the_contradiction_inside_the_source_is_repeated_with_its_size() -> None:
    answer = ask_published(100_000)
    assert any(line.startswith("medium: TPM against NOPM") and "2.3898" in line for line in answer["uncertainty"])
