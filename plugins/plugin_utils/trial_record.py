# GNU General Public License v3.0 or later (see LICENSE)
"""From what a trial left behind to its ``trial.json``: verdict, series, environment, comparison key."""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding, masked
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json, dump_json, without_masks
from ansible_collections.pgsizing.bench.plugins.plugin_utils.raw import write_table
from ansible_collections.pgsizing.bench.plugins.plugin_utils.site import instances
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import TRIAL_SCHEMA, Store, read_json, write_atomic

#: ``boot_val`` of checkpoint_timeout on every version; what is read back holds non-default settings only.
DEFAULT_CHECKPOINT_TIMEOUT_S = 300
#: In the folder of a trial: what is known when its clock starts.
START_FILE = "start.json"
#: What an observation holds of the host on which the observer ran.
HOST_SEEN = ("cpu", "memory", "disk", "network", "huge_pages_in_use", "samples", "clock_steps")


def find(items: list[dict[str, Any]], key: str, value: Any) -> dict[str, Any]:
    """Return the item whose ``key`` is ``value``; ``KeyError`` when there is none."""
    for item in items:
        if item[key] == value:
            return item
    raise KeyError(value)


def start(store: Store, trial_id: str, hosts: dict[str, Any], settings: dict[str, Any]) -> None:
    """Keep what is known when the clock starts, for a trial that another process may have to finish."""
    write_atomic(store.trial_dir(trial_id) / START_FILE, dump_json({"hosts": hosts, "settings": settings}))


def finish(
    store: Store,
    trial_id: str,
    measurement: dict[str, Any] | None,
    *,
    observation: dict[str, Any] | None = None,
    driver_observation: dict[str, Any] | None = None,
    hosts: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    findings: list[dict[str, Any]] | None = None,
    timing: dict[str, Any] | None = None,
    raw: list[dict[str, Any]] | None = None,
    state: str = "finished",
) -> dict[str, Any]:
    """Judge the trial, write its series and ``trial.json``, close its journal entry; return the trial."""
    experiment = store.experiment
    plan = experiment["plan"]
    planned = find(plan["trials"], "id", trial_id)
    variant = find(plan["variants"], "name", planned["variant"])
    measurement = measurement or {"findings": [] if findings else [finding("no_result", "the trial left no measurement")]}
    started = read_json(file) if (file := store.trial_dir(trial_id) / START_FILE).is_file() else {}
    hosts, settings = hosts or started.get("hosts"), settings or started.get("settings") or {}
    given = {"measurement": measurement, "observation": observation, "driver_observation": driver_observation}
    given, hidden = without_masks({**given, "hosts": hosts, "settings": settings}, "trial")
    measurement, observation, driver_observation, hosts, settings = given.values()
    if plan["target"] == "existing" and not plan["where"]["driver_on_server"]:
        # The observer ran on the driver: of the server's host nothing is known but what the server itself told.
        hosts, driver_observation = {"driver": (hosts or {}).get("driver")}, observation
        observation = {k: v for k, v in observation.items() if k not in HOST_SEEN} if observation else None
    shared = plan["where"]["driver_on_server"] or _one_machine(hosts or {})
    live = {s["name"]: s["setting"] for s in settings["non_default"] if s["setting"] is not None} if "non_default" in settings else None
    storage = _storage((hosts or {}).get("server") or {})
    series, rows = _series(store, trial_id, plan["headline"], measurement, observation)
    context = {
        "headline": plan["headline"],
        "series": rows,
        "parameters": {**variant["parameters"], "workload": plan["workload"]},
        "measurement": measurement,
        "progress": measurement.get("progress"),
        "observation": observation,
        "driver_observation": driver_observation,
        "driver_on_server": shared,
        "one_kernel": _one_machine(hosts or {}, ("boot_id",)),
        "settings": live,
        "checkpoint_timeout_s": float(live.get("checkpoint_timeout", DEFAULT_CHECKPOINT_TIMEOUT_S)) if live is not None else None,
        **{key: ((hosts or {}).get("server") or {}).get(key) for key in ("cores", "instance_type")},
        "storage": storage,
        "reset": plan["reset"],
        "target": plan["target"],
        "reproduces": bool(plan["reproduce"]) and not plan["scaling"],
    }
    # A trial that never measured is not judged on what it did not do.
    measured = bool(measurement.get("metrics"))
    judged = verdict.judge(context) if measured else []
    unseen = [finding("not_checked", f"observation: {problem}") for problem in (observation or {}).get("problems", [])]
    everything = [*measurement["findings"], *unseen, *masked(hidden), *(findings or []), *settings.get("findings", []), *judged]
    unique = list({(f["code"], f["message"]): f for f in everything}.values())
    headline = (measurement.get("metrics") or {}).get(plan["headline"]) or {"value": None, "unit": None, "better": "higher"}
    trial = {
        "schema": TRIAL_SCHEMA,
        "experiment_id": experiment["experiment_id"],
        "trial_id": trial_id,
        "variant": planned["variant"],
        "repeat": planned["repeat"],
        "position": planned["position"],
        "size": variant["size"],
        "workload": plan["workload"],
        "load_generator": measurement.get("load_generator") or {"name": plan["load_generator"], "version": None},
        "headline": {"metric": plan["headline"], **headline},
        "verdict": verdict_of(unique),
        "findings": unique,
        "counts": measurement.get("counts") or {},
        "conditions": measurement.get("conditions") or {},
        "client": measurement.get("client"),
        "series": series,
        "metrics": measurement.get("metrics") or {},
        "latency": measurement.get("latency"),
        "steps": measurement.get("steps") or [],
        "comparison_key": _comparison_key(plan, variant, measurement, hosts or {}, settings, observation),
        "deviations": plan["deviations"],
        "environment": {
            "server": (hosts or {}).get("server"),
            "driver": (hosts or {}).get("driver"),
            "storage": storage,
            "postgres": {
                "version": settings.get("server_version"),
                "non_default_settings": settings.get("non_default", []),
                "initdb": variant["postgres"]["initdb"],
            },
            "observation": observation,
            "driver_observation": driver_observation,
            "seed": variant["parameters"].get("seed"),
            "collection": experiment["collection"],
        },
        "cost": None,
        "timing": timing or {},
        "raw": [*(measurement.get("raw") or []), *(raw or [])],
    }
    store.write_trial(trial)
    if state != "finished":
        store.trial_state(trial_id, state, verdict=trial["verdict"])
    return trial


def _comparison_key(
    plan: dict[str, Any],
    variant: dict[str, Any],
    measurement: dict[str, Any],
    hosts: dict[str, Any],
    settings: dict[str, Any],
    observation: dict[str, Any] | None,
) -> dict[str, Any]:
    """The facts that must agree before two results may be compared, apart from what the variant itself names."""
    server = hosts.get("server") or {}
    generator = measurement.get("load_generator") or {}
    read = "non_default" in settings
    non_default = {s["name"]: s["setting"] for s in settings.get("non_default", [])}
    return {
        "workload": plan["workload"],
        "load_generator": [generator.get("name"), generator.get("version")],
        "parameters": variant["parameters"],
        "dataset": variant["dataset"]["fingerprint"],
        "cache": variant["cache"],
        "reset": plan["reset"],
        "restart": plan["target"] == "managed",
        "engine": plan["engine"],
        "server_version": settings.get("server_version"),
        "initdb": variant["postgres"]["initdb"],
        "settings": hashlib.sha256(canonical_json(non_default).encode()).hexdigest()[:16] if read else None,
        "autovacuum": non_default.get("autovacuum", "on") if read else None,
        "huge_pages": _huge_pages(settings, observation),
        "machine": {k: server.get(k) for k in ("cpu_model", "cores", "memory_bytes", "architecture", "kernel")},
        "driver_on_server": plan["where"]["driver_on_server"] or _one_machine(hosts),
    }


def _one_machine(hosts: dict[str, Any], keys: Sequence[str] = ("machine_id", "boot_id")) -> bool:
    """Whether server and driver are two names of one machine. Copies of an image share the machine id, containers of a host the boot."""
    server, driver = hosts.get("server") or {}, hosts.get("driver") or {}
    return all(server.get(key) and server.get(key) == driver.get(key) for key in keys)


def _storage(server: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an EC2 instance takes of EBS volumes, where its data lie on one; ``None`` elsewhere."""
    data = (server.get("filesystems") or {}).get("data") or {}
    if "Elastic Block Store" not in str(data.get("model")):
        return None
    ebs = (instances().get(server.get("instance_type") or "") or {}).get("ebs") or {}
    return {"instance_baseline_iops": ebs.get("baseline_iops"), "instance_max_iops": ebs.get("maximum_iops")}


def _huge_pages(settings: dict[str, Any], observation: dict[str, Any] | None) -> bool | None:
    """Whether the server has huge pages: by its own word (17 and later), else by what the observer saw of its memory."""
    told = settings.get("huge_pages_in_use")
    return (observation or {}).get("huge_pages_in_use") if told is None else told


def _series(
    store: Store, trial_id: str, headline: str, measurement: dict[str, Any], observation: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Join the load generator's rate and the observer's samples by the second into ``series.csv``; return it and its rows."""
    folder = store.trial_dir(trial_id)
    measured = next((s for s in measurement.get("steps") or [] if s["name"] == "measured"), None)
    if measured is None or not measured.get("started"):
        return None, []
    start, end = measured["started"], measured.get("ended") or time.time()
    rows: dict[int, dict[str, Any]] = {}
    for sample in measurement.get("progress") or []:
        second = round(sample["elapsed_s"])
        rows.setdefault(second, {}).update(
            tps=sample["tps"], latency_ms=sample["latency_ms"], latency_stddev_ms=sample["stddev_ms"], failed=sample["failed"]
        )
        rows[second].update({c["name"]: sample.get(c["name"]) for c in measurement.get("progress_columns") or []})
    columns = [
        {"name": "elapsed_s", "unit": "s"},
        {"name": "tps", "unit": "1/s"},
        {"name": "latency_ms", "unit": "ms"},
        {"name": "latency_stddev_ms", "unit": "ms"},
        {"name": "failed", "unit": "transactions"},
        *(measurement.get("progress_columns") or []),
    ]
    if observation and observation.get("samples"):
        known = [c for c in observation["columns"] if c["name"] not in ("ts", "interval_s")]
        columns += known
        for sample in _read_table(folder / observation["samples"]):
            at = float(sample["ts"])
            if start <= at <= end + 1:
                rows.setdefault(round(at - start), {}).update({c["name"]: sample.get(c["name"]) for c in known})
    if not rows:
        return None, []
    names = [c["name"] for c in columns]
    table = [{name: ({"elapsed_s": second} | rows[second]).get(name) for name in names} for second in sorted(rows)]
    rate = headline if headline in {c["name"] for c in columns} else "tps"
    known_rates = [float(value) for row in table if (value := row[rate]) is not None]
    series = {
        "path": write_table(folder / "series.csv", table, folder)["path"],
        "columns": columns,
        "rate": _rate(next(c for c in columns if c["name"] == rate), known_rates, measurement.get("progress") or []),
    }
    return series, table


def _rate(column: dict[str, str], values: Sequence[float], progress: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """What the mean hides: the lowest, the middle and the highest interval of the load generator's progress."""
    if not values:
        return None
    length = median([p["interval_s"] for p in progress if p.get("interval_s")] or [1.0])
    figures = {"min": min(values), "median": median(values), "max": max(values)}
    return {**column, "n": len(values), "interval_s": round(length, 1), **figures}


def _read_table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
