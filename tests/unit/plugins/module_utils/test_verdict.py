# GNU General Public License v3.0 or later (see LICENSE)
"""Each rule fires, stays silent, and says so when it could not be applied; ordinary noise stays valid."""

from __future__ import annotations

import copy
import math
import random
import re
from pathlib import Path

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of

MINUTE = 60.0


def progress(rates, interval=1.0):
    return [{"elapsed_s": (i + 1) * interval, "interval_s": interval, "tps": r, "latency_ms": None} for i, r in enumerate(rates)]


def ordinary(**changes):
    """A quiet 20-second TPC-B run of 10 clients on this machine, everything observed. Changes: ``"a.b.c": value``."""
    trial = {
        "workload": "pgbench",
        "parameters": {"clients": 10, "threads": 2, "duration": 20, "transactions": None, "scale": 10, "rate": None, "ramp_up": 5},
        "measurement": {
            "load_generator": {"name": "pgbench", "version": "15.18"},
            "conditions": {"clients": 10, "threads": 2, "duration_s": 20, "scale": 10, "scripts": [{"name": "tpcb-like", "weight": 1}]},
            "counts": {"processed": 78270, "planned": None, "failed": 0, "failed_pct": 0.0, "skipped": None},
            "steps": [{"name": "ramp_up", "elapsed_s": 5.1}, {"name": "measured", "elapsed_s": 20.05}],
            "metrics": {"tps": {"value": 3913.03, "unit": "1/s", "better": "higher"}},
            "latency": {
                "unit": "ms",
                "average": 2.529,
                "basis": None,
                "p99_9": 14.1,
                "max": 61.0,
                "n": 78270,
                "sampling": 1.0,
                "scripts": [],
            },
            "client": {"cpu_user_s": 1.1, "cpu_system_s": 3.9, "wall_s": 20.05, "max_rss_bytes": 10**7},
            "findings": [],
        },
        "progress": progress([3913 + 200 * math.sin(7 * i) for i in range(20)]),
        "observation": {
            "cpu": {"steal": 0.01, "busy_mean": 0.97, "cores": 2, "server": 0.83},
            "cost": {"cpu_s": 0.04, "wall_s": 20.0},
            "disk": {"data": {"iops_p99": 900.0}},
            "memory": {"swap_in_bytes": 0, "swap_out_bytes": 0, "oom_kills": 0},
            "huge_pages_in_use": False,
            "postgres": {
                "restarted": False,
                "version_before": "15.18",
                "version_after": "15.18",
                "start_time_before": 1.0,
                "start_time_after": 1.0,
                "wal_bytes": 4 * 10**8,
                "checkpoints_timed": 0,
                "checkpoints_requested": 0,
                "autovacuum_workers_max": 0,
                "autovacuum_seconds": 0.0,
            },
        },
        "driver_observation": None,
        "driver_on_server": True,
        "settings": {"fsync": True, "synchronous_commit": "on", "autovacuum": True, "huge_pages": "try"},
        "checkpoint_timeout_s": 300,
        "cores": 2,
        "reset": "template",
        "target": "managed",
    }
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = trial
        for name in parents:
            place = place[name]
        place[last] = value
    return trial


def codes(trial):
    return {f["code"] for f in verdict.judge(trial)}


def found(trial, code):
    matches = [f for f in verdict.judge(trial) if f["code"] == code]
    assert len(matches) == 1, f"{code} not found once in {codes(trial)}"
    return matches[0]


def not_checked(trial):
    return {rule for f in verdict.judge(trial) if f["code"] == "not_checked" for rule in f["evidence"]["rules"]}


def test_an_ordinary_run_is_valid_and_fully_checked():
    findings = verdict.judge(ordinary())
    assert verdict_of(findings) == "valid"
    assert [f["code"] for f in findings] == ["short_window", "closed_loop", "driver_on_server"]


def test_every_check_has_a_row_in_the_table():
    assert set(verdict.CHECKS) <= set(RULES)


FIRES = [
    ("no_result", {"measurement.metrics": {"tps": {"value": None}}}),
    ("no_result", {"measurement.metrics": {}}),
    ("no_result", {"headline": "nopm"}),
    ("zero_result", {"measurement.metrics": {"tps": {"value": 0.0}}}),
    ("wrong_scale", {"measurement.conditions.scale": 1}),
    ("failed_transactions", {"measurement.counts": {"processed": 900, "failed": 100, "failed_pct": 10.0}}),
    ("failed_transactions", {"measurement.counts": {"processed": 900, "failed": 10, "failed_pct": None}}),
    ("elapsed_short", {"measurement.steps": [{"name": "measured", "elapsed_s": 15.0}]}),
    ("elapsed_short", {"measurement.steps": [], "progress": progress([4000.0] * 12)}),
    ("elapsed_short", {"measurement.counts": {"processed": 9000, "planned": 10000, "failed": 0}}),
    ("overran", {"measurement.steps": [{"name": "measured", "elapsed_s": 31.0}]}),
    ("inconsistent", {"measurement.metrics": {"tps": {"value": 4500.0}}}),  # more than 10 clients can do in 2.5 ms each
    ("inconsistent", {"measurement.metrics": {"tps": {"value": 2900.0}}}),
    ("inconsistent", {"measurement.latency.average": 0.2529}),
    ("rate_missed", {"parameters.rate": 5000}),
    (
        "rate_missed",
        {"measurement.steps": [{"name": "qr1000", "elapsed_s": 20, "metrics": {"inserts_per_s": {"value": 612, "target": 1000}}}]},
    ),
    ("schedule_lag", {"measurement.latency.lag": {"average": 2.0, "max": 40.0}}),
    ("skipped_transactions", {"measurement.counts.skipped": 4000}),
    ("unsteady_start", {"progress": progress([2000.0] * 20 + [4000.0, 3900.0] * 50)}),
    ("unsteady_start", {"progress": progress([4000 * (1 - 0.6 * math.exp(-i / 15)) for i in range(120)])}),  # a cache that fills
    ("unsteady_start", {"progress": progress([8000.0] * 60 + [5000.0, 5100.0] * 120)}),  # a burst that ends
    ("server_restarted", {"observation.postgres.restarted": True}),
    ("server_restarted", {"observation.postgres.start_time_after": 2.0}),
    ("server_restarted", {"observation.postgres.version_after": "15.20"}),
    ("stall", {"progress": progress([4000.0] * 10 + [0.0] * 3 + [4000.0] * 7)}),
    ("stall", {"progress": progress([4000.0] * 10 + [350.0] * 4 + [4000.0] * 6)}),
    ("stall", {"progress": progress([4000.0] * 5 + [0.0] * 15)}),  # even the median is zero
    ("stall", {"progress": progress([4000.0, 4100.0, 0.0, 4000.0], interval=5.0)}),
    ("drift", {"progress": progress([4000.0 - 80 * i for i in range(20)])}),
    ("drift", {"progress": progress([2000.0 + 10 * i for i in range(120)])}),
    ("drift", {"progress": progress([4000.0] * 2000 + [2500.0] * 1600)}),
    ("drift", {"progress": progress([300.0, 280.0, 310.0] * 17 + [2700.0] * 9)}),  # a plan that changed in mid-run
    ("drift", {"progress": progress([4000.0] * 40 + [1300.0] * 20)}),
    ("throttled", {"observation.cpu.steal": 0.2}),
    ("throttled", {"driver_observation": {"cpu": {"steal": 0.3, "busy_mean": 0.5}}}),
    ("other_load", {"observation.cpu.server": 0.68}),  # 0.96 - 0.68 - 0.125 of the load generator
    ("other_load", {"observation.cpu.server": 0.75, "driver_on_server": False}),  # 0.21 that no load generator explains
    ("other_load", {"driver_observation": {"cpu": {"busy_mean": 0.5, "steal": 0.0, "cores": 8}}, "driver_on_server": False}),
    (
        "client_starved",
        {
            "measurement.client": {"cpu_user_s": 15.0, "cpu_system_s": 24.0, "wall_s": 20.0},
            "observation.cpu.cores": 8,
            "observation.cpu.busy_mean": 0.7,
        },
    ),
    ("balance_exhausted", {"storage": {"balance_min": 0}}),
    ("iops_burst", {"storage": {"instance_baseline_iops": 600}}),
    ("iops_unusable", {"storage": {"provisioned_iops": 30000, "instance_max_iops": 18750}}),
    ("burstable_instance", {"instance_type": "t3.xlarge"}),
    ("quota_reached", {"observation.cpu.throttled": 0.4}),
    ("clock_set", {"observation.clock_steps": [{"at": 900.0, "by_s": -3600.0}]}),
    ("clock_set", {"driver_observation": {"clock_steps": [{"at": 900.0, "by_s": 7.5}]}}),
    ("memory_short", {"observation.memory": {"swap_in_bytes": 2**25, "swap_out_bytes": 2**26, "oom_kills": 0}}),
    ("memory_short", {"observation.memory": {"swap_in_bytes": 0, "swap_out_bytes": None, "oom_kills": 1}}),
    ("short_window", {}),
    ("checkpoints_frequent", {"observation.postgres.checkpoints_requested": 2}),
    ("saw_tooth", {"progress": progress([8000.0] * 120 + [3000.0] * 60 + [8000.0] * 120)}),
    ("ramp_up_short", {"parameters.ramp_up": 0, "parameters.warehouses": 100}),
    ("ramp_up_unfaithful", {"parameters.ramp_up": 60, "parameters.warehouses": 100, "reproduces": True}),
    ("branch_contention", {"measurement.conditions.clients": 11}),
    ("warehouse_contention", {"parameters.warehouses": 4}),
    ("latency_outlier", {"measurement.latency.max": 2000.0}),
    ("closed_loop", {}),
    ("sampled_log", {"measurement.latency.sampling": 0.01}),
    ("driver_on_server", {}),
    ("autovacuum_active", {"observation.postgres.autovacuum_workers_max": 2}),
    ("fsync_off", {"settings": {"fsync": False}}),
    ("full_page_writes_off", {"settings": {"full_page_writes": "off"}}),
    ("synchronous_commit_off", {"settings": {"synchronous_commit": "off"}}),
    ("autovacuum_off", {"settings": {"autovacuum": "off"}}),
    ("autovacuum_off", {"settings": {"track_counts": "off"}}),
    ("autovacuum_off", {"observation.postgres.autovacuum_off": ["order_line"]}),
    ("unlogged_tables", {"parameters.unlogged": True}),
    ("unlogged_tables", {"measurement.conditions.unlogged": True}),
    ("assertions_on", {"settings": {"debug_assertions": "on"}}),
    ("huge_pages_unused", {"settings": {"huge_pages": "on"}}),
    ("no_restart", {"target": "existing"}),
    ("no_reset", {"reset": "none"}),
]


@pytest.mark.parametrize(("code", "changes"), FIRES)
def test_fires(code, changes):
    assert found(ordinary(**changes), code)["severity"] == RULES[code].severity


def test_every_check_is_seen_to_fire():
    elsewhere = {"tpm_nopm_ratio"}  # HammerDB, below
    assert set(verdict.CHECKS) == {code for code, _ in FIRES} | elsewhere


SILENT = [
    ("no_result", {"measurement.findings": [finding("too_many_clients", "refused")], "measurement.metrics": {}}),
    ("wrong_scale", {"measurement.conditions": {"scale": 1, "scripts": [{"name": "mine.sql"}]}}),  # -f prints what -s said
    ("failed_transactions", {"measurement.counts": {"processed": 9990, "failed": 10, "failed_pct": 0.1}}),
    ("failed_transactions", {"measurement.counts": {"processed": 0, "failed": 0, "failed_pct": None}}),
    ("elapsed_short", {"measurement.steps": [{"name": "measured", "elapsed_s": 19.9}]}),
    ("elapsed_short", {"measurement.steps": [], "progress": progress([4000.0] * 19)}),  # the last line may be missing
    ("elapsed_short", {"measurement.counts": {"processed": 111, "planned": 400, "failed": 289}}),
    ("elapsed_short", {"measurement.findings": [finding("clients_aborted", "all gave up")], "measurement.steps": []}),
    ("overran", {"measurement.steps": [{"name": "measured", "elapsed_s": 24.0}]}),  # starting many clients takes seconds
    ("overran", {"measurement.steps": [{"name": "measured", "elapsed_s": 31.0}], "measurement.latency.initial_connection": 9500.0}),
    ("overran", {"measurement.steps": [{"name": "measured", "elapsed_s": 31.0}], "parameters.transactions": 1000}),
    ("inconsistent", {"measurement.conditions.rate": 100}),
    ("inconsistent", {"parameters.reconnect": True, "measurement.latency.average": 1.0}),
    ("inconsistent", {"measurement.latency.average": None}),
    ("rate_missed", {"parameters.rate": 4000}),
    # 190 of 200 expected by chance: start times are drawn
    ("rate_missed", {"parameters.rate": 10, "measurement.metrics": {"tps": {"value": 9.4}}}),
    ("schedule_lag", {"measurement.latency.lag": {"average": 0.3, "max": 40.0}}),
    ("schedule_lag", {"measurement.latency.lag": {"average": None, "max": None}}),
    ("skipped_transactions", {"measurement.counts.skipped": 10}),
    ("unsteady_start", {"progress": progress([2000.0] * 3 + [4000.0] * 57)}),  # of three seconds nothing can be said
    ("unsteady_start", {"progress": progress([4000.0, 3900.0] * 30)}),
    ("unsteady_start", {"progress": progress([4000.0] * 40 + [2900.0] * 20)}),  # later than the first third
    ("stall", {"progress": progress([4000.0] * 10 + [0.0] * 2 + [4000.0] * 8)}),
    ("stall", {"progress": progress([4000.0] * 10 + [600.0] * 5 + [4000.0] * 5)}),  # a checkpoint's dip
    ("stall", {"progress": progress([0.0] * 20)}),  # zero_result
    ("drift", {"progress": progress([4000.0, 3000.0] * 10)}),
    ("drift", {"progress": progress([4000.0] * 57 + [1300.0] * 3)}),  # a multiple, not for long
    ("drift", {"progress": progress([4000.0] * 1800 + [2500.0] * 300)}),  # a step shorter than two checkpoint cycles
    ("throttled", {"observation.cpu.steal": 0.05}),
    ("client_starved", {"observation.cpu.busy_mean": 1.0}),  # a closed loop fills the machine
    ("other_load", {}),
    ("other_load", {"observation.cpu.server": 0.68, "observation.cpu.steal": 0.1}),  # the hypervisor's: throttled
    # a load generator's job of twice the window, as HammerDB's: its CPU time may all have been used in the window
    ("other_load", {"observation.cpu.server": 0.70, "measurement.client": {"cpu_user_s": 5.0, "cpu_system_s": 0.0, "wall_s": 40.0}}),
    ("other_load", {"observation.cpu.server": 0.75, "driver_on_server": False, "one_kernel": True}),  # containers on one kernel
    ("other_load", {"driver_observation": {"cpu": {"busy_mean": 0.05, "steal": 0.0, "cores": 8}}, "driver_on_server": False}),
    ("balance_exhausted", {"storage": {"balance_min": 0.4}}),
    ("iops_burst", {"storage": {"instance_baseline_iops": 6000}}),
    ("iops_burst", {"storage": {"instance_baseline_iops": 600, "instance_max_iops": 600}}),  # it has its maximum always
    ("iops_unusable", {"storage": {"provisioned_iops": 3000, "instance_max_iops": 18750}}),
    ("burstable_instance", {"instance_type": "r5n.xlarge"}),
    ("quota_reached", {"observation.cpu.throttled": 0.05}),
    ("quota_reached", {"observation.cpu.throttled": None}),
    ("clock_set", {"observation.clock_steps": []}),
    ("memory_short", {"observation.memory": {"swap_in_bytes": 4096, "swap_out_bytes": 2**20, "oom_kills": 0}}),
    ("short_window", {"checkpoint_timeout_s": 10}),
    ("short_window", {"observation.postgres.checkpoints_requested": 3}),
    ("short_window", {"observation.postgres.wal_bytes": 10**5}),  # reads only
    ("checkpoints_frequent", {"observation.postgres.checkpoints_requested": 1}),
    ("checkpoints_frequent", {"observation.postgres.checkpoints_timed": 5}),
    (
        "checkpoints_frequent",
        {"observation.postgres.checkpoints_requested": 3, "measurement.steps": [{"name": "measured", "elapsed_s": 120.0}]},
    ),
    ("saw_tooth", {"progress": progress([8000.0] * 300)}),
    ("saw_tooth", {"progress": progress([8000.0] * 60 + [3000.0] * 60)}),  # two minutes make no cycle
    ("ramp_up_short", {"parameters.ramp_up": 0}),  # a rule of TPROC-C
    ("ramp_up_short", {"parameters.ramp_up": 120, "parameters.warehouses": 100}),
    ("branch_contention", {}),
    ("branch_contention", {"measurement.conditions": {"clients": 64, "scale": 1, "transaction_type": "<builtin: select only>"}}),
    ("warehouse_contention", {"parameters.warehouses": 10}),
    ("latency_outlier", {}),
    ("closed_loop", {"parameters.rate": 4000}),
    ("autovacuum_active", {}),
    ("autovacuum_off", {"observation.postgres.autovacuum_off": []}),
    ("synchronous_commit_off", {"settings": {"synchronous_commit": "local"}}),
    ("unlogged_tables", {"parameters.unlogged": False}),
    ("assertions_on", {"settings": {"debug_assertions": "off"}}),
    ("huge_pages_unused", {"settings": {"huge_pages": "on"}, "observation.huge_pages_in_use": True}),
    ("huge_pages_unused", {"settings": {"huge_pages": "try"}}),
]


@pytest.mark.parametrize(("code", "changes"), SILENT)
def test_stays_silent(code, changes):
    assert code not in codes(ordinary(**changes))


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"progress": []}, {"stall", "drift", "unsteady_start", "saw_tooth"}),
        ({"progress": progress([4000.0] * 5)}, {"drift", "unsteady_start"}),
        ({"progress": progress([4000.0] * 20, interval=10.0)}, {"stall"}),  # hides stalls of a few seconds
        ({"progress": progress([2.0] * 20)}, {"stall"}),
        (
            {"observation": None},
            {"server_restarted", "throttled", "client_starved", "other_load", "memory_short", "checkpoints_frequent", "autovacuum_active"},
        ),
        ({"observation.memory": None}, {"memory_short"}),
        ({"observation.postgres": None}, {"server_restarted", "checkpoints_frequent", "autovacuum_active"}),
        ({"measurement.client": None}, {"client_starved", "other_load"}),
        ({"observation.cpu.server": None}, {"other_load"}),
        ({"driver_on_server": False}, {"client_starved"}),
        (
            {"settings": None},
            {"fsync_off", "full_page_writes_off", "synchronous_commit_off", "autovacuum_off", "assertions_on", "huge_pages_unused"},
        ),
        ({"observation.cpu": {"steal": 0.0}}, {"client_starved", "other_load"}),
        ({"observation.cpu": {"steal": 0.0, "busy_mean": 0.9, "server": 0.8}}, {"other_load"}),  # of how many cores?
        ({"checkpoint_timeout_s": None}, {"short_window"}),
        ({"measurement.latency.max": None, "measurement.latency.p99_9": None}, {"latency_outlier"}),
        ({"settings": {"huge_pages": "on"}, "observation.huge_pages_in_use": None}, {"huge_pages_unused"}),
    ],
)
def test_what_was_not_observed_is_not_checked(changes, rules):
    assert not_checked(ordinary(**changes)) == rules


def test_an_action_used_alone_says_once_what_it_lacks():
    """The context of a play without observer: one note per missing thing, and nothing above a note."""
    trial = {k: v for k, v in ordinary().items() if k in ("parameters", "measurement", "progress")}
    findings = verdict.judge(trial)
    assert verdict_of(findings) == "valid"
    missing = [f["evidence"]["missing"] for f in findings if f["code"] == "not_checked"]
    assert len(missing) == len(set(missing))
    assert "an observation of the server" in missing


def test_an_empty_context_fails_nothing_but_the_result():
    assert verdict_of(verdict.judge({})) == "failed"
    assert "no_result" in codes({})


def test_what_the_measurement_says_is_not_said_twice():
    trial = ordinary(**{"measurement.findings": [finding("closed_loop", "said")]})
    assert "closed_loop" not in codes(trial)


def test_judging_changes_nothing():
    trial = ordinary()
    before = copy.deepcopy(trial)
    verdict.judge(trial)
    assert trial == before


# the cases -----------------------------------------------------------------------------------------------------------


def test_c001_and_c095_consistent_outputs():
    for clients, average, tps in ((80, 33.480, 2388.104512), (10, 75.438, 132.559344), (10, 47.632, 209.944478)):
        trial = ordinary(**{"measurement.metrics.tps.value": tps, "measurement.latency.average": average})
        trial["measurement"]["conditions"]["clients"] = clients
        assert "inconsistent" not in codes(trial)


def test_c005_failed_transactions_with_exit_status_0():
    counts = {"processed": 111, "planned": 400, "failed": 289, "failed_pct": 72.25}
    trial = ordinary(**{"measurement.counts": counts, "measurement.metrics.tps.value": 184.86197, "parameters.transactions": 50})
    trial["measurement"]["latency"] |= {"average": 12.009, "basis": "including failures"}
    trial["measurement"]["conditions"] |= {"clients": 8, "threads": 1}
    findings = verdict.judge(trial)
    assert verdict_of(findings) == "invalid"
    assert [f["code"] for f in findings if f["severity"] != "note"] == ["failed_transactions"]


def test_c007_too_many_clients_has_no_metrics_and_one_reason():
    trial = ordinary(**{"measurement.metrics": {}, "measurement.findings": [finding("too_many_clients", "refused at client 97")]})
    findings = verdict.judge(trial)
    assert verdict_of([*trial["measurement"]["findings"], *findings]) == "failed"
    assert "no_result" not in {f["code"] for f in findings}


def test_c008_an_aborted_run_without_figures_is_aborted_not_failed():
    changes = {
        "measurement.metrics": {},
        "measurement.counts": {"processed": 0, "failed": 0, "failed_pct": None},
        "measurement.findings": [finding("clients_aborted", "relation does not exist"), finding("run_aborted", "aborted")],
    }
    trial = ordinary(**changes)
    assert verdict_of([*trial["measurement"]["findings"], *verdict.judge(trial)]) == "aborted"


def test_c010_zero_over_a_wide_interval_is_a_stall():
    assert found(ordinary(progress=progress([2388.9, 0.0], interval=5.0)), "stall")["evidence"]["seconds"] == 5.0


def test_a_report_that_came_late_hides_a_stall():
    """pgbench's reporting thread was stopped too: no line for 6 s, then one that spreads the work over all of them."""
    samples = [*progress([4000.0] * 10), {"elapsed_s": 16.0, "interval_s": 6.0, "tps": 700.0}]
    samples += [{"elapsed_s": 17.0 + i, "interval_s": 1.0, "tps": 4000.0} for i in range(4)]
    assert found(ordinary(progress=samples), "stall")["evidence"]["at_s"] == 10.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_no_result(value):
    assert "no_result" in codes(ordinary(**{"measurement.metrics": {"tps": {"value": value}}, "measurement.findings": []}))


def test_c032_a_short_ramp_up_is_a_note_but_where_a_method_is_reproduced():
    own = ordinary(**{"parameters.ramp_up": 60, "parameters.warehouses": 100})
    assert "ramp_up_short" in codes(own) and "ramp_up_unfaithful" not in codes(own)
    assert "ramp_up_unfaithful" not in codes(ordinary(**{"parameters.ramp_up": 300, "parameters.warehouses": 100, "reproduces": True}))


@pytest.mark.parametrize("key", ["tps", "elapsed_s", "interval_s"])
def test_a_sample_without_a_number_spoils_no_rule(key):
    rows = progress([4000.0] * 20)
    rows[7] = {**rows[7], key: float("nan")}
    assert {"stall", "drift", "saw_tooth"}.isdisjoint(codes(ordinary(progress=rows)))


def test_c016_clients_over_branches():
    changes = {"scripts": None, "clients": 64, "scale": 1}
    trial = ordinary(**{"measurement.conditions": {}, "parameters": {**ordinary()["parameters"], **changes}})
    assert "branch-row contention, not capacity" in found(trial, "branch_contention")["message"]
    asked = ordinary(**{"parameters.scale": 1000, "measurement.conditions.scale": 1})
    assert found(asked, "wrong_scale")["evidence"] == {"asked": 1000, "found": 1}


@pytest.mark.parametrize(
    ("tpm", "nopm", "fires"),
    [(157548, 68499, False), (337846, 141369, True), (622485, 270483, False), (1128086, 490532, False), (0, 1000, True), (-7, -12, False)],
)
def test_c020_tpm_nopm(tpm, nopm, fires):
    trial = ordinary(**{"measurement.metrics": {"nopm": {"value": nopm}, "tpm": {"value": tpm}}, "parameters.duration": 1800})
    trial["measurement"]["load_generator"] = {"name": "hammerdb"}
    assert ("tpm_nopm_ratio" in codes(trial)) == fires
    trial["measurement"]["load_generator"]["database"] = "MariaDB"
    assert "tpm_nopm_ratio" not in codes(trial)
    trial["measurement"]["load_generator"] = {"name": "pgbench"}  # another mix
    assert "tpm_nopm_ratio" not in codes(trial)


def test_c020_a_short_run_may_differ_by_chance():
    trial = ordinary(**{"measurement.metrics": {"nopm": {"value": 400}, "tpm": {"value": 960}}, "parameters.duration": 60})
    trial["measurement"]["load_generator"] = {"name": "hammerdb"}
    assert "tpm_nopm_ratio" not in codes(trial)


def test_c028_zero_nopm_with_a_result_line():
    trial = ordinary(**{"measurement.metrics": {"nopm": {"value": 0}, "tpm": {"value": 18400}}})
    zero = found(trial, "zero_result")
    assert zero["severity"] == "invalid"
    assert "wrong database" in zero["message"]
    assert zero["evidence"]["other_metrics"] == {"tpm": 18400}


def test_c032_no_ramp_up():
    trial = ordinary(**{"parameters.ramp_up": 0, "parameters.warehouses": 100})
    assert found(trial, "ramp_up_short")["severity"] == "note"


def test_c082_run_shorter_than_the_checkpoint_cycle():
    rates = [r + 40 * math.sin(i) for r in (8100, 8000, 7900, 7900, 7800) for i in range(60)]
    changes = {"checkpoint_timeout_s": 900, "parameters.duration": 300, "measurement.steps": [{"name": "measured", "elapsed_s": 300.2}]}
    trial = ordinary(progress=progress(rates), **changes)
    short = found(trial, "short_window")
    assert "burst figure, not sustained" in short["message"]
    assert "measure 1800 s or more" in short["message"]
    assert short["evidence"]["checkpoints_timed"] == 0
    assert verdict_of(verdict.judge(trial)) == "valid"


def test_c082_saw_tooth_of_an_hour():
    rates = [8000 - 5000 * ((i % 900) / 900) for i in range(3600)]
    trial = ordinary(progress=progress(rates), checkpoint_timeout_s=900)
    trial["parameters"]["duration"], trial["measurement"]["steps"] = 3600, [{"name": "measured", "elapsed_s": 3600.1}]
    tooth = found(trial, "saw_tooth")
    assert tooth["evidence"]["minimum"] < 3500
    assert tooth["evidence"]["maximum"] > 7500
    assert codes(trial).isdisjoint({"drift", "stall", "short_window"})


def test_c082_thirty_minutes_span_two_cycles_of_fifteen():
    trial = ordinary(checkpoint_timeout_s=900, **{"measurement.steps": [{"name": "measured", "elapsed_s": 1800.3}]})
    assert "short_window" not in codes(trial)


def test_c083_autovacuum_on_and_off():
    trial = ordinary(**{"observation.postgres.autovacuum_workers_max": 2, "observation.postgres.autovacuum_seconds": 12.0})
    assert "up to 2 worker(s) for 12 s" in found(trial, "autovacuum_active")["message"]
    work = [{"what": "vacuum public.order_line", "seconds": 9.0}, {"what": "create_index public.x", "seconds": 4.0}]
    trial["observation"]["postgres"]["maintenance"] = work
    active = found(trial, "autovacuum_active")
    assert active["message"].endswith("for 12 s: vacuum public.order_line")
    assert active["evidence"]["maintenance"] == work[:1]
    assert "not production-like" in found(ordinary(**{"settings.autovacuum": False}), "autovacuum_off")["message"]


def remote(client_cores, threads, server_busy, driver_busy):
    return ordinary(
        **{
            "driver_on_server": False,
            "observation.cpu": {"busy_mean": server_busy, "steal": 0.0, "cores": 8, "server": server_busy},
            "driver_observation": None if driver_busy is None else {"cpu": {"busy_mean": driver_busy, "steal": 0.0, "cores": 8}},
            "measurement.client": {"cpu_user_s": 20.0 * client_cores, "cpu_system_s": 0.0, "wall_s": 20.0},
            "measurement.conditions.threads": threads,
        }
    )


@pytest.mark.parametrize(
    ("client_cores", "threads", "server_busy", "driver_busy", "fires"),
    [
        (0.99, 1, 0.48, 0.30, True),  # one thread full, three of four CPUs idle
        (0.99, 1, 0.48, None, True),
        (3.9, 8, 0.48, 0.97, True),  # the host is full
        (0.99, 1, 0.95, 0.30, False),  # so is the server
        (1.6, 8, 0.48, 0.40, False),
        (0.5, 1, 0.48, 0.20, False),
    ],
)
def test_c085_client_bound(client_cores, threads, server_busy, driver_busy, fires):
    assert ("client_starved" in codes(remote(client_cores, threads, server_busy, driver_busy))) == fires


def test_c085_without_samples_it_is_not_checked():
    assert "client_starved" in not_checked(remote(1.6, 8, 0.48, None))


@pytest.mark.parametrize(
    ("client_cores", "threads", "cores", "busy", "fires"),
    [
        (0.5, 2, 2, 1.0, False),  # a full machine is what a closed loop is for
        (0.6, 1, 2, 1.0, False),
        (0.99, 1, 2, 1.0, True),  # one thread holds a CPU of its own, the server needs no more than the other
        (0.99, 1, 16, 0.4, True),
        (0.99, 1, 16, 0.99, False),  # so is the server's part
    ],
)
def test_c085_on_one_machine_only_a_full_thread_is_evidence(client_cores, threads, cores, busy, fires):
    client = {"cpu_user_s": 20.0 * client_cores, "cpu_system_s": 0.0, "wall_s": 20.0}
    trial = ordinary(**{"measurement.client": client, "observation.cpu": {"busy_mean": busy, "steal": 0.0, "cores": cores, "server": busy}})
    trial["measurement"]["conditions"]["threads"] = threads
    assert ("client_starved" in codes(trial)) == fires


def burstable():
    rng = random.Random(86)
    rates = [(6100 if minute < 22 else 2450) * (1 + 0.02 * rng.gauss(0, 1)) for minute in range(60)]
    steal = [0.0 if minute < 22 else 0.58 for minute in range(60)]
    trial = ordinary(
        progress=progress(rates, MINUTE),
        series=[{"elapsed_s": MINUTE * (i + 1), "tps": r, "cpu_steal": s} for i, (r, s) in enumerate(zip(rates, steal, strict=True))],
    )
    trial["observation"]["cpu"]["steal"] = sum(steal) / 60
    trial["parameters"]["duration"], trial["measurement"]["steps"] = 3600, [{"name": "measured", "elapsed_s": 3600.1}]
    return trial


def test_c086_out_of_credits():
    throttled = found(burstable(), "throttled")
    assert "throttled at minute 22" in throttled["message"]
    assert throttled["evidence"]["ratio"] == pytest.approx(0.40, abs=0.01)
    assert found(burstable(), "drift")["evidence"]["at_s"] == 22 * MINUTE


def test_c086_a_late_step_counts_though_its_mean_is_small():
    trial = burstable()
    for i, row in enumerate(trial["series"]):
        row["cpu_steal"] = 0.0 if i < 56 else 0.58
    trial["observation"]["cpu"]["steal"] = 4 * 0.58 / 60
    assert found(trial, "throttled")["evidence"]["at_s"] == 56 * MINUTE


def test_c086_the_baseline_of_the_instance_explains_the_ratio():
    throttled = found(burstable() | {"instance_type": "t3.xlarge"}, "throttled")
    assert "(t3.xlarge has 40 % of each vCPU without CPU credits)" in throttled["message"]
    assert throttled["evidence"]["baseline"] == pytest.approx(throttled["evidence"]["ratio"], abs=0.01)
    assert "credits" not in found(burstable() | {"instance_type": "r5n.xlarge"}, "throttled")["message"]


def test_c086_without_a_series_the_mean_still_tells():
    assert "37 % of the server's CPU" in found(burstable() | {"series": None}, "throttled")["message"]


def test_c088_provisioned_iops():
    storage = {"provisioned_iops": 40000, "instance_max_iops": 30000, "instance_baseline_iops": 18750}
    trial = ordinary(storage=storage, **{"observation.disk": {"data": {"iops_p99": 25000.0}}})
    assert "paid for, cannot be used" in found(trial, "iops_unusable")["message"]
    assert found(trial, "iops_burst")["severity"] == "note"
    assert verdict_of(verdict.judge(trial)) == "valid"


def test_c089_closed_loop_hides_a_stall():
    trial = ordinary(progress=progress([100.0] * 30 + [0.0] * 10 + [100.0] * 20))
    trial["measurement"]["conditions"] |= {"clients": 1, "threads": 1, "duration_s": 60}
    trial["measurement"]["latency"] |= {"average": 12.0, "p99_9": 10.0, "max": 10000.0, "n": 5001}
    trial["measurement"]["metrics"]["tps"]["value"] = 83.35
    assert found(trial, "stall")["evidence"] == {"seconds": 10.0, "at_s": 30.0, "usual_rate": 100.0}
    assert found(trial, "latency_outlier")["evidence"]["ratio"] == 1000
    assert "throughput test" in found(trial, "closed_loop")["message"]


def test_c092_rate_not_sustained():
    steps = [
        {"name": "qr1000", "elapsed_s": 20, "metrics": {"inserts_per_s": {"value": 612, "target": 1000}, "queries_per_s": {"value": 9800}}}
    ]
    missed = found(ordinary(**{"measurement.steps": steps}), "rate_missed")
    assert missed["severity"] == "suspect"
    assert "(61 %)" in missed["message"]


def test_select_only_leaves_time_between_transactions():
    """Measured: each pgbench thread serves its clients in turn, which its latencies leave out."""
    for clients, threads, average, tps in (
        (10, 2, 0.192, 42989.3),
        (10, 1, 0.202, 40461.1),
        (1, 1, 0.119, 8382.1),
        (40, 2, 0.707, 43541.1),
    ):
        trial = ordinary(**{"measurement.metrics.tps.value": tps, "measurement.latency.average": average})
        trial["measurement"]["conditions"] |= {"clients": clients, "threads": threads}
        assert "inconsistent" not in codes(trial), (clients, threads)


# noise ---------------------------------------------------------------------------------------------------------------


def with_memory(rng, n, memory, spread):
    value = rng.gauss(0, 1)
    for _ in range(n):
        yield max(1.0, 3000 * (1 + spread * value))
        value = memory * value + math.sqrt(1 - memory**2) * rng.gauss(0, 1)


def neighbours(rng, n, dwell, depth):
    """Another machine's work comes and goes: the rate steps between two levels."""
    low = rng.random() < 0.35
    for _ in range(n):
        yield 3000 * (depth if low else 1) * (1 + 0.05 * rng.gauss(0, 1))
        low ^= rng.random() < 1 / dwell


def checkpoints(rng, n, period, length):
    start = rng.random() * period
    for i in range(n):
        yield 3000 * (0.4 if (i + start) % period < length else 1) * (1 + 0.1 * rng.gauss(0, 1))


def warming(rng, n):
    for i in range(n):
        yield 3000 * (0.4 if i < 2 else 1) * (1 + 0.1 * rng.gauss(0, 1))


NOISE = {
    "white": lambda rng, n: with_memory(rng, n, 0.0, 0.25),
    "memory": lambda rng, n: with_memory(rng, n, 0.6, 0.15),
    "neighbours 7 s": lambda rng, n: neighbours(rng, n, 7, 0.65),
    "neighbours 20 s": lambda rng, n: neighbours(rng, n, 20, 0.65),
    "checkpoints 30 s": lambda rng, n: checkpoints(rng, n, 30, 6),
    "checkpoints 300 s": lambda rng, n: checkpoints(rng, n, 300, 60),
    "warming": warming,
}


@pytest.mark.parametrize("seconds", [20, 60, 300])
@pytest.mark.parametrize("kind", NOISE)
def test_ordinary_noise_stays_valid(kind, seconds):
    """Of 200 runs on a noisy machine at most 3 may be doubted."""
    rng = random.Random(f"{kind} {seconds}")
    doubted = 0
    for _ in range(200):
        trial = ordinary(progress=progress(list(NOISE[kind](rng, seconds))))
        doubted += any(verdict.CHECKS[rule](trial) for rule in ("stall", "drift"))
    assert doubted <= 3


@pytest.mark.parametrize(("seconds", "least"), [(20, 0.55), (60, 0.9), (300, 1.0)])
def test_a_real_drift_is_seen(seconds, least):
    """Falling by a third from first to last third, with 10 % noise."""
    rng = random.Random(seconds)
    seen = 0
    for _ in range(100):
        rates = [3000 * (1 - 0.4 * i / (seconds - 1)) * (1 + 0.1 * rng.gauss(0, 1)) for i in range(seconds)]
        seen += verdict.CHECKS["drift"](ordinary(progress=progress(rates))) is not None
    assert seen / 100 >= least


#: Three runs of 20 s of ``pgbench -c 10 -j 2`` at scale 10 on a shared machine with 2 cores, each after a restart.
MEASURED = """
3290.6 3692.0 3509.6 3653.8 3683.8 3136.2 2297.7 2128.5 2374.9 2462.0 2345.6 2510.8 3822.4 3513.3 3742.7 3804.9 3986.9 3823.1 3889.1 3688.7
3050.3 3931.2 3660.1 4219.0 4017.6 4195.6 3041.1 3181.4 3305.4 3342.1 3938.1 3984.8 3969.1 3773.7 3424.1 3207.3 3537.7 3747.8 3672.1 4100.2
3895.8 4312.4 3758.3 3632.3 2908.5 3963.1 4221.5 4214.8 4327.5 3969.4 3807.0 3811.0 3749.8 4270.3 4192.9 3932.6 3444.0 3698.5 3941.7 4247.1
"""


@pytest.mark.parametrize(
    ("line", "tps", "average"), list(zip(MEASURED.split("\n")[1:4], (3266.6, 3663.3, 3913.0), (3.033, 2.702, 2.529), strict=True))
)
def test_measured_runs_are_valid(line, tps, average):
    changes = {"measurement.metrics.tps.value": tps, "measurement.latency.average": average}
    findings = verdict.judge(ordinary(progress=progress([float(r) for r in line.split()]), **changes))
    assert verdict_of(findings) == "valid"


# the documentation ---------------------------------------------------------------------------------------------------


def test_the_documentation_lists_every_rule_as_the_table_has_it():
    text = (Path(__file__).parents[4] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    rows = {m[1]: (m[2], m[3]) for m in re.finditer(r"^\| `(\w+)` \| (\w+) \| ([^|]*?) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)}
    assert rows == {code: (rule.severity, "-" if rule.threshold is None else f"{rule.threshold:g}") for code, rule in RULES.items()}
