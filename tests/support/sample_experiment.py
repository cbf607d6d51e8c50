# GNU General Public License v3.0 or later (see LICENSE)
"""A made-up experiment folder in the shapes of the artifacts, for tests of readers. No figure in it was ever measured.

``make()`` draws every number from a seeded generator; names, hosts and findings say "sample".
"""

from __future__ import annotations

import csv
import hashlib
import math
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding, verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import dump_json

EPOCH = 1_790_000_000.0  # a moment in 2026: the clock of the made-up run
EXPERIMENT_ID = "20260921T141320Z-sample-test-data"
MIB = 2**20
#: Mean rate of each variant; any further name runs like the base.
RATES = {"base": 812.0, "big": 1064.0, "slow": 640.0}

SERIES_COLUMNS = [
    {"name": "elapsed_s", "unit": "s"},
    {"name": "tps", "unit": "1/s"},
    {"name": "latency_ms", "unit": "ms"},
    {"name": "latency_stddev_ms", "unit": "ms"},
    {"name": "failed", "unit": "transactions"},
    {"name": "cpu_user", "unit": "fraction"},
    {"name": "cpu_system", "unit": "fraction"},
    {"name": "cpu_iowait", "unit": "fraction"},
    {"name": "cpu_steal", "unit": "fraction"},
    {"name": "cpu_idle", "unit": "fraction"},
    {"name": "memory_available_bytes", "unit": "B"},
    {"name": "data_reads_per_s", "unit": "1/s"},
    {"name": "data_writes_per_s", "unit": "1/s"},
    {"name": "data_read_bytes_per_s", "unit": "B/s"},
    {"name": "data_write_bytes_per_s", "unit": "B/s"},
    {"name": "data_write_await_ms", "unit": "ms"},
    {"name": "data_utilisation", "unit": "fraction"},
    {"name": "wal_bytes_per_s", "unit": "B/s"},
    {"name": "wal_fpi_per_s", "unit": "1/s"},
    {"name": "checkpoints", "unit": "count"},
    {"name": "checkpoint_running", "unit": "0/1"},
    {"name": "autovacuum_workers", "unit": "count"},
    {"name": "active_backends", "unit": "count"},
]


def make(
    parent: Path,
    *,
    variants: Sequence[str] = ("base", "big"),
    repeats: int = 3,
    seconds: int = 120,
    troubles: Mapping[str, str] | None = None,
    published: bool = True,
) -> Path:
    """Write ``parent/<EXPERIMENT_ID>`` and return it.

    ``troubles`` maps a trial id to ``suspect``, ``invalid``, ``aborted``, ``failed`` or ``missing`` (planned, never run);
    by default the second trial is suspect (a stall) and the last one aborted. ``published`` adds a scaled published run.
    """
    directory = parent / EXPERIMENT_ID
    plan = _plan(variants, repeats, seconds, published)
    if troubles is None:
        troubles = {plan["trials"][1]["id"]: "suspect", plan["trials"][-1]["id"]: "aborted"} if len(plan["trials"]) > 2 else {}
    journal: dict[str, Any] = {"trials": {}, "stages": {}, "end": {"state": "finished", "at": EPOCH + 1500, "cause": None}}
    for number, row in enumerate(plan["trials"]):
        trouble = troubles.get(row["id"])
        if trouble == "missing":
            entry: dict[str, Any] = {"state": "planned", "attempt": 1}
        else:
            trial = _trial(directory, plan, row, number, seconds, trouble)
            path = directory / "trials" / row["id"] / "trial.json"
            path.write_text(dump_json(trial), encoding="utf-8")
            message = next((f["message"] for f in trial["findings"] if f["severity"] != "note"), None)
            started = EPOCH + 60 + number * (seconds + 20)
            entry = {
                "state": "finished",
                "attempt": 1,
                "verdict": trial["verdict"],
                "headline": trial["headline"],
                "started": started,
                "ended": started + seconds + 15,
                "path": str(path.relative_to(directory)),
                "message": message,
            }
        journal["trials"][row["id"]] = entry
    directory.mkdir(parents=True, exist_ok=True)
    experiment = {
        "schema": "pgsizing/experiment/1",
        "experiment_id": EXPERIMENT_ID,
        "created": EPOCH,
        "collection": {"version": "0.1.0", "git_commit": "0000000000000000000000000000000000000000"},
        "plan": plan,
        "environment": {"controller": {"hostname": "sample-controller", "python": "3.11.2", "ansible_core": "2.19.14"}},
        "journal": journal,
    }
    (directory / "experiment.json").write_text(dump_json(experiment), encoding="utf-8")
    return directory


def _setting(
    name: str, text: str, unit: str | None, value: float, size: int | None, origin: str, reason: str | None, **more: Any
) -> dict[str, Any]:
    context = "postmaster" if name in ("shared_buffers", "max_connections", "wal_buffers") else "sighup"
    row = {"name": name, "raw": text, "text": text, "unit": unit, "value": value, "bytes": size, "context": context}
    return {**row, "origin": origin, "reason": reason, "replaces": None, **more}


def _settings(variant: str, base: bool) -> list[dict[str, Any]]:
    shared = {"big": 1024, "slow": 64}.get(variant, 128)
    origin = "profile local" if base else f"variant {variant}"
    return [
        _setting("checkpoint_timeout", "1min", "s", 60, None, "gucs", None),
        _setting("effective_cache_size", "16GB", "8kB", 2097152, 16384 * MIB, "profile local", "3/4 of 24 GB memory"),
        _setting("max_connections", "100", None, 100, None, "profile local", "default"),
        _setting("max_wal_size", "2GB", "MB", 2048, 2048 * MIB, "profile local", "a tenth of the free disk, at most 16 GB"),
        _setting("shared_buffers", f"{shared}MB", "8kB", shared * 128, shared * MIB, origin, None, replaces=None if base else "128MB"),
        _setting("wal_compression", "on", None, 1, None, "profile local", "saves WAL at little CPU"),
    ]


def _plan(names: Sequence[str], repeats: int, seconds: int, published: bool) -> dict[str, Any]:
    parameters = {"scale": 50, "clients": 10, "threads": 2, "duration": seconds, "transactions": None, "protocol": "simple", "rate": None}
    variants = [
        {
            "name": name,
            "base": number == 0,
            "differs": {} if number == 0 else {"gucs": {"shared_buffers": _settings(name, False)[4]["text"]}},
            "parameters": parameters,
            "cache": "as_is",
            "postgres": {"version": "15", "initdb": {"data_checksums": True}},
            "settings": _settings(name, number == 0),
            "dataset": {"fingerprint": "5a3b1e", "parameters": {"scale": 50}, "bytes": 790 * MIB},
        }
        for number, name in enumerate(names)
    ]
    order: list[tuple[str, int]] = []
    for repeat in range(1, repeats + 1):
        order += [(n, repeat) for n in (names if repeat % 2 else list(reversed(names)))]
    trials = [{"id": f"{k:02d}-{n}-r{r}", "variant": n, "repeat": r, "position": k} for k, (n, r) in enumerate(order, 1)]
    parts = [
        {"what": "prepare server", "seconds": 20.0, "bytes": 0},
        {"what": "build 1 data set(s)", "seconds": 15.0, "bytes": 790 * MIB},
        {"what": "reset before each trial (template)", "seconds": 6.3 * len(trials), "bytes": 790 * MIB},
        {"what": "restart, settle and collect", "seconds": 10.0 * len(trials), "bytes": 2048 * MIB},
        {"what": f"{len(trials)} measured windows with ramp-up", "seconds": float(seconds * len(trials)), "bytes": 0},
    ]
    return {
        "inputs": {"reproduce": "sample-published", "data_scale": 0.2}
        if published
        else {"variants": {n: {} for n in names}, "repeats": repeats},
        "reproduce": "sample-published" if published else None,
        "where": {"provider": "local", "server": ["localhost"], "driver": ["localhost"], "reason": "size local: this machine"},
        "size": "local",
        "workload": "pgbench",
        "load_generator": "pgbench",
        "headline": "tps",
        "deadline_s": 9000.0,
        "target": "managed",
        "engine": "postgres",
        "variants": variants,
        "repeats": repeats,
        "cache": "as_is",
        "reset": "template",
        "trials": trials,
        "scaling": [{"name": "scale", "from": 250, "to": 50}] if published else [],
        "comparisons": {"count": len(names) - 1, "alpha": 0.05, "repeats_needed": 4},
        "published": _published() if published else None,
        "deviations": [
            {"what": "server version", "published": "PostgreSQL 15.1", "here": "PostgreSQL 15.14"},
            {"what": "connection", "published": "TCP with TLS 1.3", "here": "Unix socket, no TLS"},
            {"what": "scale (scaled)", "published": 250, "here": 50},
        ]
        if published
        else [],
        "findings": [
            finding(
                "too_few_repeats",
                f"{repeats} repeats cannot show a difference at alpha 0.05 for 1 comparison(s); 4 can",
                repeats=repeats,
                needed=4,
            )
        ],
        "estimate": {"seconds": sum(p["seconds"] for p in parts), "disk_bytes": sum(p["bytes"] for p in parts), "parts": parts},
    }


def _published() -> dict[str, Any]:
    return {
        "id": "sample-published",
        "title": "A made-up published study (sample test data)",
        "source": "https://example.org/sample?a=1&b=2",
        "conditions": {"server_version": "PostgreSQL 15.1", "connection": "TCP with TLS 1.3"},
        "figures": [
            {"variant": "base", "metric": "tps", "value": 402.5, "unit": "1/s"},
            {"variant": "big", "metric": "tps", "value": 551.25, "unit": "1/s"},
            {"variant": "base", "metric": "latency_average", "value": 24.8, "unit": "ms"},
            {"variant": "big", "metric": "latency_average", "value": 18.1, "unit": "ms"},
        ],
        "contradictions": [{"what": "shared_buffers", "says": "2 GB in its prose, 1 GB in its file", "taken": "1 GB"}],
    }


def _series(rng: random.Random, rate: float, seconds: int, trouble: str | None) -> list[dict[str, Any]]:
    """One row a second: warm-up, a checkpoint every minute that costs rate and writes, a stall when suspect."""
    rows = []
    for second in range(1, seconds + 1):
        checkpoint = second % 60 >= 38 and second > 30
        level = rate * (1 - 0.25 * math.exp(-second / 8)) * (0.86 if checkpoint else 1.03)
        if trouble == "suspect" and seconds // 2 <= second < seconds // 2 + 5:
            level *= 0.03
        tps = max(0.5, rng.gauss(level, level * 0.035))
        share = tps / rate
        user, system, iowait = 0.46 * share + rng.gauss(0, 0.01), 0.22 * share, (0.14 if checkpoint else 0.06) + rng.random() * 0.03
        rows.append(
            {
                "elapsed_s": second,
                "tps": round(tps, 1),
                "latency_ms": round(10_000 / tps, 3),
                "latency_stddev_ms": round(3_400 / tps, 3),
                "failed": 0,
                "cpu_user": round(max(0.0, user), 4),
                "cpu_system": round(system, 4),
                "cpu_iowait": round(iowait, 4),
                "cpu_steal": 0.0,
                "cpu_idle": round(max(0.0, 1 - user - system - iowait), 4),
                "memory_available_bytes": 21 * 2**30 - second * MIB,
                "data_reads_per_s": round(90 * share * rng.uniform(0.8, 1.2), 1),
                "data_writes_per_s": round(tps * (1.9 if checkpoint else 1.1), 1),
                "data_read_bytes_per_s": round(0.8 * MIB * share * rng.uniform(0.8, 1.2)),
                "data_write_bytes_per_s": round(tps * 8192 * (5.5 if checkpoint else 2.1)),
                "data_write_await_ms": round(rng.uniform(0.4, 0.9) * (2 if checkpoint else 1), 3),
                "data_utilisation": round(min(1.0, (0.82 if checkpoint else 0.47) * share + rng.uniform(0, 0.06)), 4),
                "wal_bytes_per_s": round(tps * 2200 * (2.6 if second % 60 in range(38, 50) else 1.0)),
                "wal_fpi_per_s": round(tps * (1.4 if second % 60 in range(38, 50) else 0.1), 1),
                "checkpoints": int(second % 60 == 38 and second > 30),
                "checkpoint_running": int(checkpoint),
                "autovacuum_workers": int(second % 45 > 40),
                "active_backends": 10,
            }
        )
    return rows


def _trial(
    directory: Path, plan: Mapping[str, Any], row: Mapping[str, Any], number: int, seconds: int, trouble: str | None
) -> dict[str, Any]:
    rng = random.Random(f"{row['id']} sample")
    folder = directory / "trials" / row["id"]
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    variant = next(v for v in plan["variants"] if v["name"] == row["variant"])
    measured_s = max(5, seconds // 3) if trouble == "aborted" else seconds
    rate = RATES.get(row["variant"], RATES["base"]) * rng.gauss(1, 0.02)
    rows = [] if trouble == "failed" else _series(rng, rate, measured_s, trouble)
    tps = sum(r["tps"] for r in rows) / len(rows) if rows else None
    findings = [finding("closed_loop", "closed-loop run: latencies leave out the wait of requests that were never sent", clients=10)]
    if trouble == "suspect":
        findings.append(finding("stall", "the rate fell under 10 % of its median for 5 s (sample)", seconds=5.0, from_s=seconds // 2))
    if trouble == "invalid":
        findings.append(finding("failed_transactions", "31.2 % of the transactions failed, the limit is 1 % (sample)", failed_pct=31.2))
    if trouble == "aborted":
        findings.append(
            finding("run_aborted", f"pgbench ended after {measured_s} of {seconds} s (sample)", elapsed_s=measured_s, planned_s=seconds)
        )
    if trouble == "failed":
        findings.append(finding("server_unreachable", "no connection: password authentication failed <sample & co>", host="sample-db"))
    raw = _raw(folder, row, tps)
    if rows:
        with open(folder / "series.csv", "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, [c["name"] for c in SERIES_COLUMNS])
            writer.writeheader()
            writer.writerows(rows)
    average = 10_000 / tps if tps else None
    metrics = {"tps": {"value": tps, "unit": "1/s", "better": "higher"}}
    if average:
        metrics["latency_average"] = {"value": average, "unit": "ms", "better": "lower"}
        metrics["load_seconds"] = {"value": 12.4 + rng.random(), "unit": "s", "better": "lower"}
    processed = round(tps * measured_s) if tps else 0
    return {
        "schema": "pgsizing/trial/1",
        "experiment_id": EXPERIMENT_ID,
        "trial_id": row["id"],
        "variant": row["variant"],
        "repeat": row["repeat"],
        "position": row["position"],
        "size": "local",
        "workload": "pgbench",
        "load_generator": {"name": "pgbench", "version": "15.14", "server_version": "15.14", "generation": "15"},
        "headline": {"metric": "tps", "value": tps, "unit": "1/s", "better": "higher"},
        "verdict": verdict(findings),
        "findings": findings,
        "counts": {"processed": processed, "planned": None, "failed": 0, "failed_pct": 0.0, "skipped": None, "late": None},
        "conditions": {**variant["parameters"], "seed": 42, "duration_s": seconds},
        "client": {
            "cpu_user_s": 0.031 * processed / 100,
            "cpu_system_s": 0.042 * processed / 100,
            "wall_s": measured_s + 0.1,
            "max_rss_bytes": 11_534_336,
        },
        "series": {"path": "series.csv", "columns": SERIES_COLUMNS} if rows else None,
        "metrics": metrics if rows else {},
        "latency": _latency(average, rng, processed),
        "steps": [
            {
                "name": "measured",
                "state": "finished",
                "started": EPOCH,
                "ended": EPOCH + measured_s,
                "elapsed_s": measured_s,
                "rc": 0,
                "metrics": {},
                "argv": ["pgbench"],
            }
        ],
        "comparison_key": {"workload": "pgbench", "scale": 50},
        "deviations": [],
        "environment": _environment(variant, bool(rows), seconds),
        "cost": None,
        "timing": {
            "reset_s": 6.1,
            "restart_s": 2.2,
            "settle_s": 3.0,
            "measure_s": measured_s + 1.1,
            "collect_s": 2.6,
            "measured_s": measured_s,
            "total_s": measured_s + 15.0,
        },
        "raw": raw,
    }


def _raw(folder: Path, row: Mapping[str, Any], tps: float | None) -> list[dict[str, Any]]:
    text = f"sample test data, not a pgbench output\ntrial {row['id']}\ntps = {tps}\n"
    (folder / "raw" / "pgbench.out").write_text(text, encoding="utf-8")
    return [{"path": "raw/pgbench.out", "bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}]


def _latency(average: float | None, rng: random.Random, n: int) -> dict[str, Any]:
    empty: dict[str, Any] = {"unit": "ms", "basis": None, "source": "log", "sampling": 1.0, "scripts": [], "statements": []}
    keys = ("min", "p50", "p90", "p95", "p99", "p99_9", "max", "average", "stddev")
    if average is None:
        return {**empty, **dict.fromkeys(keys), "n": None}
    shape = (0.18, 0.92, 1.45, 1.71, 2.6, 6.1, 23.5, 1.0, 0.45)
    values = {k: round(average * s * rng.uniform(0.96, 1.04), 3) for k, s in zip(keys, shape, strict=True)}
    statements = [
        {"latency_ms": round(average * share, 3), "failures": 0, "retries": None, "text": text, "script": "<builtin: TPC-B (sort of)>"}
        for share, text in (
            (0.03, "BEGIN;"),
            (0.3, "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;"),
            (0.4, "END;"),
        )
    ]
    return {**empty, **values, "n": n, "statements": statements}


def _environment(variant: Mapping[str, Any], observed: bool, seconds: int) -> dict[str, Any]:
    host = {
        "hostname": "sample-db",
        "cpu_model": "Sample CPU <made up> & co @ 2.60GHz",
        "cores": 2,
        "sockets": 1,
        "numa_nodes": 1,
        "memory_bytes": 24 * 2**30,
        "swap_bytes": 0,
        "kernel": "6.1.0-sample",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "architecture": "x86_64",
        "virtualization": "kvm",
        "thp": "madvise",
        "huge_pages": {"total": 0, "free": 0, "reserved": 0, "size_bytes": 2 * MIB},
        "governor": None,
        "sysctl": {"vm.swappiness": "60", "vm.dirty_ratio": "20"},
        "filesystems": {
            "data": {
                "device": "vda1",
                "fstype": "ext4",
                "options": "rw,relatime",
                "mountpoint": "/",
                "free_bytes": 60 * 2**30,
                "total_bytes": 80 * 2**30,
            },
            "wal": {
                "device": "vda1",
                "fstype": "ext4",
                "options": "rw,relatime",
                "mountpoint": "/",
                "free_bytes": 60 * 2**30,
                "total_bytes": 80 * 2**30,
            },
        },
    }
    observation = {
        "started": EPOCH,
        "ended": EPOCH + seconds,
        "n": seconds,
        "interval_s": 1.0,
        "cost": {"cpu_s": 1.1, "wall_s": seconds, "core_fraction": 0.009, "server_backend_cpu_s": 0.2},
        "cpu": {
            "user": 0.46,
            "system": 0.21,
            "iowait": 0.09,
            "steal": 0.0,
            "idle": 0.24,
            "busy_mean": 0.67,
            "busy_max": 0.81,
            "server": 0.55,
            "cores": 2,
            "run_queue_mean": 3.1,
        },
        "postgres": {
            "version": "15.14",
            "restarted": False,
            "checkpoints_timed": 2,
            "checkpoints_requested": 0,
            "wal_bytes": 310 * MIB,
            "wait_events": [
                {"type": "LWLock", "event": "WALWrite", "share": 0.31},
                {"type": "Lock", "event": "transactionid", "share": 0.12},
            ],
        },
        "problems": [],
    }
    settings = [
        {"name": s["name"], "setting": str(s["value"]), "unit": s["unit"], "text": s["text"], "source": "configuration file"}
        for s in variant["settings"]
    ]
    return {
        "server": host,
        "driver": host,
        "postgres": {"version": "15.14", "non_default_settings": settings, "initdb": variant["postgres"]["initdb"]},
        "observation": observation if observed else None,
    }


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
