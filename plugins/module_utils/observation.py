# GNU General Public License v3.0 or later (see LICENSE)
"""What a sampler reads on a host and from a server, and how samples become a series and a summary.

A *sample* is a dict of counters as they stood at one moment, as the sampler of the module observe writes them::

    {t, m,                       wall clock (epoch) and monotonic clock, s
     cpu: [user, nice, system, idle, iowait, irq, softirq, steal],    clock ticks since boot, all cores
     quota: [periods, throttled] | null,    of the CPU quota of a container: those that passed, those in which it held work back
     running, load1,             runnable processes, load average over 1 min
     mem: {available, dirty, writeback, cached},                      bytes
     vm: {swap_in, swap_out, oom_kills},                              bytes, bytes, count
     disk: {data: [...], wal: [...]},                                 see DISK; without "wal" it is the same device
     net: [received, transmitted],                                    bytes
     server_cpu: 1230 | null,    clock ticks used by all processes of the server since its start; null where they are not seen
     pg: {...} | null}           the row of server_query()

Everything here is pure; docs/observation.md describes the columns and where each comes from.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

#: Bytes of a sector in /proc/diskstats, whatever the device's own sector size.
SECTOR = 512

#: Seconds by which two clocks may differ from one sample to the next; slewing, half a millisecond a second, stays far below.
CLOCK_STEP_S = 1.0

#: Positions in /proc/diskstats, after the device name, of what a disk sample holds.
DISK = {"reads": 0, "read_sectors": 2, "read_ms": 3, "writes": 4, "write_sectors": 6, "write_ms": 7, "busy_ms": 9}

MEMORY = {"MemAvailable": "available", "Dirty": "dirty", "Writeback": "writeback", "Cached": "cached"}

_DISK_COLUMNS = [
    ("reads_per_s", "1/s"),
    ("writes_per_s", "1/s"),
    ("read_bytes_per_s", "B/s"),
    ("write_bytes_per_s", "B/s"),
    ("read_await_ms", "ms"),
    ("write_await_ms", "ms"),
    ("await_ms", "ms"),
    ("utilisation", "fraction"),
]

#: Columns of the series, in order, with their units. A row describes the interval that ends at ``ts``.
COLUMNS: list[tuple[str, str]] = [
    ("ts", "s"),
    ("interval_s", "s"),
    ("cpu_user", "fraction"),
    ("cpu_system", "fraction"),
    ("cpu_iowait", "fraction"),
    ("cpu_steal", "fraction"),
    ("cpu_idle", "fraction"),
    ("cpu_server", "fraction"),
    ("run_queue", "processes"),
    ("load1", "processes"),
    ("memory_available_bytes", "B"),
    ("memory_dirty_bytes", "B"),
    ("memory_writeback_bytes", "B"),
    ("memory_cached_bytes", "B"),
    ("swap_in_bytes_per_s", "B/s"),
    ("swap_out_bytes_per_s", "B/s"),
    *((f"data_{name}", unit) for name, unit in _DISK_COLUMNS),
    *((f"wal_{name}", unit) for name, unit in _DISK_COLUMNS),
    ("network_receive_bytes_per_s", "B/s"),
    ("network_transmit_bytes_per_s", "B/s"),
    ("commits_per_s", "1/s"),
    ("rollbacks_per_s", "1/s"),
    ("blocks_read_per_s", "1/s"),
    ("blocks_hit_per_s", "1/s"),
    ("temp_bytes_per_s", "B/s"),
    ("deadlocks", "count"),
    ("wal_bytes_per_s", "B/s"),
    ("wal_fpi_per_s", "1/s"),
    ("wal_records_per_s", "1/s"),
    ("checkpoints", "count"),
    ("checkpoint_running", "0/1"),
    ("buffers_checkpoint_per_s", "1/s"),
    ("buffers_backend_per_s", "1/s"),
    ("autovacuum_workers", "processes"),
    ("active_backends", "processes"),
    ("backends", "processes"),
]

#: Counters of the server whose growth a series column shows, per second or as a count.
_SERVER_RATES = {
    "commits_per_s": "xact_commit",
    "rollbacks_per_s": "xact_rollback",
    "blocks_read_per_s": "blks_read",
    "blocks_hit_per_s": "blks_hit",
    "temp_bytes_per_s": "temp_bytes",
    "wal_bytes_per_s": "wal_bytes",
    "wal_fpi_per_s": "wal_fpi",
    "wal_records_per_s": "wal_records",
    "buffers_checkpoint_per_s": "buffers_checkpoint",
    "buffers_backend_per_s": "buffers_backend",
}

#: Counters of the server whose growth over the window is in the summary.
SERVER_TOTALS = (
    "xact_commit",
    "xact_rollback",
    "blks_read",
    "blks_hit",
    "temp_bytes",
    "deadlocks",
    "wal_bytes",
    "wal_fpi",
    "wal_records",
    "checkpoints_timed",
    "checkpoints_requested",
    "checkpoint_write_ms",
    "checkpoint_sync_ms",
    "buffers_checkpoint",
    "buffers_clean",
    "buffers_backend",
)


# /proc


def parse_stat(text: str) -> dict[str, Any]:
    """Read /proc/stat: ``{cpu, running}``. What guests use is part of user and nice there."""
    return {
        "cpu": [int(field) for field in text[: text.index("\n")].split()[1:9]],
        "running": int(text.partition("\nprocs_running ")[2].partition("\n")[0]),
    }


def parse_quota(text: str) -> list[int] | None:
    """Read periods of the CPU quota and those that were throttled in cpu.stat of a control group; ``None`` without a quota."""
    found = dict(re.findall(r"^(nr_periods|nr_throttled) (\d+)$", text, re.MULTILINE))
    return [int(found["nr_periods"]), int(found["nr_throttled"])] if len(found) == 2 and found["nr_periods"] != "0" else None


def parse_meminfo(text: str) -> dict[str, int]:
    """Read the figures of ``MEMORY`` in /proc/meminfo, in bytes."""
    return {ours: int(text.partition(f"{name}:")[2].split(None, 1)[0]) * 1024 for name, ours in MEMORY.items()}


def parse_vmstat(text: str, page: int) -> dict[str, int]:
    """Read bytes swapped in and out, and kills for want of memory, in /proc/vmstat (pages of ``page`` bytes)."""

    def counter(name: str) -> int:
        return int(text.partition(f"\n{name} ")[2].partition("\n")[0] or 0)

    return {"swap_in": counter("pswpin") * page, "swap_out": counter("pswpout") * page, "oom_kills": counter("oom_kill")}


def parse_loadavg(text: str) -> float:
    """Read the load average of the last minute in /proc/loadavg."""
    return float(text.split(None, 1)[0])


def parse_diskstats(text: str, device: str) -> list[int] | None:
    """Read the counters of ``DISK`` for a device in /proc/diskstats; ``None`` when it is not there."""
    fields = text.partition(f" {device} ")[2].partition("\n")[0].split()
    return [int(fields[position]) for position in DISK.values()] if fields else None


def parse_net(text: str, interfaces: list[str]) -> list[int]:
    """Read bytes received and transmitted by all these interfaces together in /proc/net/dev."""
    received = transmitted = 0
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if name.strip() in interfaces:
            fields = rest.split()
            received += int(fields[0])
            transmitted += int(fields[8])
    return [received, transmitted]


def parse_mountinfo(text: str) -> list[dict[str, str]]:
    """Read /proc/self/mountinfo: ``[{number, mountpoint, options, fstype, source, super_options}]``, in mount order."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (fstype, source, super_options) = before.split(), after.split(" ", 2)
        mounts.append(
            {
                "number": fields[2],
                "mountpoint": re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), fields[4]),
                "options": fields[5],
                "fstype": fstype,
                "source": source,
                "super_options": super_options,
            }
        )
    return mounts


def mount_of(path: str, mounts: list[dict[str, str]]) -> dict[str, str]:
    """Return the mount a real path lies in: the one mounted last among those with the longest matching mount point."""
    inside = [mount for mount in mounts if f"{path}/".startswith(mount["mountpoint"].rstrip("/") + "/")]
    return max(reversed(inside), key=lambda mount: len(mount["mountpoint"]))


def parse_cpuinfo(text: str) -> str | None:
    """Return the model of the processor in /proc/cpuinfo; on ARM, which has no name there, implementer and part."""
    fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.+)$", text.partition("\n\n")[0], re.MULTILINE))
    if "model name" in fields:
        return fields["model name"]
    if "CPU part" in fields:
        names = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2"}
        part = fields["CPU part"]
        return names.get(part, f"ARM implementer {fields.get('CPU implementer')} part {part}")
    return None


def instance_type(sys_vendor: str | None, product_name: str | None) -> str | None:
    """Return the EC2 instance type that the firmware of a Nitro or metal instance names as its product; ``None`` elsewhere."""
    return product_name if sys_vendor == "Amazon EC2" and re.fullmatch(r"[\w-]+\.[\w-]+", product_name or "") else None


# The server


def server_query(version: int) -> str:
    """Return the query of one sample for a server version (``server_version_num``, 13 to 18): one row, one JSON text.

    Its keys: those of ``SERVER_TOTALS`` (``null`` where the version has none), ``checkpoint_lsn``, ``backends``,
    ``active_backends``, ``autovacuum_workers``, ``checkpoint_running``, ``waits`` (event to count of active client
    backends, ``CPU`` for those that do not wait) and ``progress`` (``[{command, relation}]``). Our own backend is left out.
    """
    major = version // 10000
    wal = "w.wal_bytes, w.wal_fpi, w.wal_records"
    tables = ["pg_stat_database d", "pg_stat_bgwriter b"]
    if major >= 14:
        tables.append("pg_stat_wal w")
    else:
        position = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END"
        wal = f"{position} - '0/0' AS wal_bytes, NULL AS wal_fpi, NULL AS wal_records"
    if major >= 17:
        tables.append("pg_stat_checkpointer c")
        written = (
            "(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) / current_setting('block_size')::bigint"
            if major >= 18
            else "coalesce(writes, 0) + coalesce(extends, 0)"
        )
        checkpoints = (
            "c.num_timed AS checkpoints_timed, c.num_requested AS checkpoints_requested, c.write_time AS checkpoint_write_ms, "
            "c.sync_time AS checkpoint_sync_ms, c.buffers_written AS buffers_checkpoint, b.buffers_clean, "
            f"(SELECT sum({written}) FROM pg_stat_io WHERE object = 'relation' "
            "AND backend_type NOT IN ('checkpointer', 'background writer'))::bigint AS buffers_backend"
        )
    else:
        checkpoints = (
            "b.checkpoints_timed, b.checkpoints_req AS checkpoints_requested, b.checkpoint_write_time AS checkpoint_write_ms, "
            "b.checkpoint_sync_time AS checkpoint_sync_ms, b.buffers_checkpoint, b.buffers_clean, b.buffers_backend"
        )
    commands = ["vacuum", "analyze", "create_index", "cluster", *(["copy"] if major >= 14 else [])]
    progress = " UNION ALL ".join(
        f"SELECT '{command}' AS command, relid::regclass::text AS relation FROM pg_stat_progress_{command} "
        "WHERE datname = current_database()"
        for command in commands
    )
    return (
        "WITH activity AS MATERIALIZED (SELECT backend_type, state, wait_event_type, wait_event FROM pg_stat_get_activity(NULL) "
        "WHERE pid <> pg_backend_pid()), "
        "waiting AS (SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') AS event, count(*) AS n FROM activity "
        "WHERE backend_type = 'client backend' AND state = 'active' GROUP BY 1), "
        "counted AS (SELECT count(*) FILTER (WHERE backend_type = 'client backend') AS backends, "
        "count(*) FILTER (WHERE backend_type = 'client backend' AND state = 'active') AS active_backends, "
        "count(*) FILTER (WHERE backend_type = 'autovacuum worker') AS autovacuum_workers, "
        "max((wait_event IS DISTINCT FROM 'CheckpointerMain')::int) FILTER (WHERE backend_type = 'checkpointer') AS checkpoint_running "
        "FROM activity) "
        "SELECT row_to_json(s)::text FROM (SELECT d.xact_commit, d.xact_rollback, d.blks_read, d.blks_hit, d.temp_bytes, d.deadlocks, "
        f"{wal}, {checkpoints}, (SELECT checkpoint_lsn - '0/0' FROM pg_control_checkpoint()) AS checkpoint_lsn, counted.*, "
        "(SELECT json_object_agg(event, n) FROM waiting) AS waits, "
        f"(SELECT json_agg(p) FROM ({progress}) p) AS progress "
        f"FROM {', '.join(tables)}, counted WHERE d.datname = current_database()) s"
    )


def snapshot_query(version: int) -> str:
    """Return the query asked once before and once after: one JSON text with what identifies the server and its tables.

    ``{version, version_num, start_time, backend_pid, huge_pages_status, statements, autovacuum_off: [table], tables: [{table, live,
    dead, autovacuums, autoanalyzes}]}``, where ``statements`` is the schema of pg_stat_statements or ``null``.
    """
    status = "current_setting('huge_pages_status')" if version >= 170000 else "NULL"
    return (
        "SELECT row_to_json(s)::text FROM (SELECT current_setting('server_version') AS version, "
        "current_setting('server_version_num')::int AS version_num, "
        "extract(epoch FROM pg_postmaster_start_time())::float8 AS start_time, pg_backend_pid() AS backend_pid, "
        f"{status} AS huge_pages_status, "
        "(SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'pg_stat_statements') AS statements, "
        "(SELECT json_agg(c.oid::regclass::text) FROM pg_class c, unnest(c.reloptions) o "
        "WHERE o ~* '^autovacuum_enabled=(f|off|n|0)') AS autovacuum_off, "
        "(SELECT json_agg(t) FROM (SELECT schemaname || '.' || relname AS table, n_live_tup AS live, n_dead_tup AS dead, "
        "autovacuum_count AS autovacuums, autoanalyze_count AS autoanalyzes FROM pg_stat_user_tables "
        "ORDER BY n_live_tup DESC LIMIT 1000) t) AS tables) s"
    )


# From samples to figures


def rates(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the row of ``COLUMNS`` for the interval between two samples; ``None`` for what cannot be told."""
    seconds = after["m"] - before["m"]
    row: dict[str, Any] = dict.fromkeys(name for name, _ in COLUMNS)
    row.update(
        ts=after["t"],
        interval_s=seconds,
        run_queue=after["running"],
        load1=after["load1"],
        **{f"memory_{name}_bytes": value for name, value in after["mem"].items()},
        swap_in_bytes_per_s=_per_second(before["vm"]["swap_in"], after["vm"]["swap_in"], seconds),
        swap_out_bytes_per_s=_per_second(before["vm"]["swap_out"], after["vm"]["swap_out"], seconds),
        network_receive_bytes_per_s=_per_second(before["net"][0], after["net"][0], seconds),
        network_transmit_bytes_per_s=_per_second(before["net"][1], after["net"][1], seconds),
    )
    row.update({f"cpu_{name}": value for name, value in cpu_shares(before["cpu"], after["cpu"]).items() if name != "busy"})
    row["cpu_server"] = server_share(before, after)
    for role, counters in after["disk"].items():
        if before["disk"].get(role):
            row.update({f"{role}_{name}": value for name, value in disk_rates(before["disk"][role], counters, seconds).items()})
    new = after["pg"]
    if new:
        row.update({name: new[name] for name in ("checkpoint_running", "autovacuum_workers", "active_backends", "backends")})
    if new and before["pg"]:
        old = before["pg"]
        row.update({column: _per_second(old[name], new[name], seconds) for column, name in _SERVER_RATES.items()})
        row["deadlocks"] = growth(old["deadlocks"], new["deadlocks"])
        row["checkpoints"] = growth(
            old["checkpoints_timed"] + old["checkpoints_requested"], new["checkpoints_timed"] + new["checkpoints_requested"]
        )
    return row


def in_pairs(items: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each item with the one before it (itertools.pairwise, which Python 3.9 lacks)."""
    return [(items[i - 1], items[i]) for i in range(1, len(items))]


def growth(old: float | None, new: float | None) -> float | None:
    """Return by how much a counter grew; ``None`` when one is missing or it was reset in between."""
    return None if old is None or new is None or new < old else new - old


def server_share(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Return the share of all cores' time that the server's processes used between two samples; ``None`` when not seen."""
    used = growth(before["server_cpu"], after["server_cpu"])
    return None if used is None else used / max(1, sum(after["cpu"]) - sum(before["cpu"]))


def throttled_share(old: list[int] | None, new: list[int] | None) -> float | None:
    """Return the share of the periods of a CPU quota in which it held work back; ``None`` without a quota."""
    periods = new[0] - old[0] if old and new else 0
    return (new[1] - old[1]) / periods if old and new and periods > 0 else None


def _per_second(old: float | None, new: float | None, seconds: float) -> float | None:
    grown = growth(old, new)
    return None if grown is None else grown / seconds


def cpu_shares(old: list[int], new: list[int]) -> dict[str, float]:
    """Return ``{user, system, iowait, steal, idle, busy}`` as fractions of all cores; ``busy`` is neither idle nor iowait."""
    # iowait may run backwards (documented in proc(5)); a few ticks, read as none
    user, nice, system, idle, iowait, irq, softirq, steal = (max(0, new[i] - old[i]) for i in range(8))
    total = (user + nice + system + idle + iowait + irq + softirq + steal) or 1
    shares = {"user": user + nice, "system": system + irq + softirq, "iowait": iowait, "steal": steal, "idle": idle}
    shares["busy"] = total - idle - iowait
    return {name: ticks / total for name, ticks in shares.items()}


def disk_rates(old: list[int], new: list[int], seconds: float) -> dict[str, float | None]:
    """Return the disk columns of the series for one interval. An await without requests is ``None``."""
    grown = {name: max(0, new[i] - old[i]) for i, name in enumerate(DISK)}
    requests = grown["reads"] + grown["writes"]
    return {
        "reads_per_s": grown["reads"] / seconds,
        "writes_per_s": grown["writes"] / seconds,
        "read_bytes_per_s": grown["read_sectors"] * SECTOR / seconds,
        "write_bytes_per_s": grown["write_sectors"] * SECTOR / seconds,
        "read_await_ms": grown["read_ms"] / grown["reads"] if grown["reads"] else None,
        "write_await_ms": grown["write_ms"] / grown["writes"] if grown["writes"] else None,
        "await_ms": (grown["read_ms"] + grown["write_ms"]) / requests if requests else None,
        "utilisation": min(1.0, grown["busy_ms"] / 1000 / seconds),
    }


def tidy(samples: list[dict[str, Any]], interval: float) -> list[dict[str, Any]]:
    """Leave out the last but one sample when the closing one came right after it: rates over a moment are noise."""
    if len(samples) > 2 and samples[-1]["m"] - samples[-2]["m"] < interval / 2:
        return samples[:-2] + samples[-1:]
    return samples


def in_window(
    samples: list[dict[str, Any]], start: float, end: float, interval: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the samples inside a window (epoch seconds), and those around it.

    *Inside* is what lies in the window, give or take a quarter of an interval, so that rates hold nothing of before and after.
    *Around* goes on to the first sample after the window, for totals: a server's processes report their counters up to a
    second late, but at the latest when they end.
    """
    slack = interval / 4
    inside = [sample for sample in samples if start - slack <= sample["t"] <= end + slack]
    first = max((i for i, sample in enumerate(samples) if sample["t"] <= start), default=0)
    last = min((i for i, sample in enumerate(samples) if sample["t"] > end), default=len(samples) - 1)
    around = samples[first : last + 1]
    return (inside if len(inside) > 1 else around), around


def summarise(samples: list[dict[str, Any]], around: list[dict[str, Any]], cores: int) -> dict[str, Any]:
    """Return ``{n, cpu, memory, disk, network, postgres}`` over the samples (shapes: docs/observation.md).

    ``around`` are the samples for the totals of the server. Means are growth of counters over the whole time, not means of
    rates. Two samples at least; with fewer, all is ``None``.
    """
    if len(samples) < 2:
        return {"n": 0, "cpu": None, "memory": None, "disk": None, "network": None, "postgres": None}
    first, last = samples[0], samples[-1]
    seconds = last["m"] - first["m"]
    pairs = in_pairs(samples)
    busy = [cpu_shares(before["cpu"], after["cpu"])["busy"] for before, after in pairs]
    shares = cpu_shares(first["cpu"], last["cpu"])
    return {
        "n": len(pairs),
        "cpu": {
            **{name: shares[name] for name in ("user", "system", "iowait", "steal", "idle")},
            "busy_mean": shares["busy"],
            "busy_max": max(busy),
            "server": server_share(first, last),
            "throttled": throttled_share(first.get("quota"), last.get("quota")),
            "cores": cores,
            "run_queue_mean": sum(after["running"] for _, after in pairs) / len(pairs),
        },
        "memory": {
            "available_min_bytes": min(sample["mem"]["available"] for sample in samples),
            "dirty_max_bytes": max(sample["mem"]["dirty"] for sample in samples),
            "swap_in_bytes": last["vm"]["swap_in"] - first["vm"]["swap_in"],
            "swap_out_bytes": last["vm"]["swap_out"] - first["vm"]["swap_out"],
            "oom_kills": last["vm"]["oom_kills"] - first["vm"]["oom_kills"],
        },
        "disk": {role: summarise_disk(pairs, role) for role in last["disk"] if first["disk"].get(role) and last["disk"][role]},
        "network": {
            "receive_bytes_per_s": _per_second(first["net"][0], last["net"][0], seconds),
            "transmit_bytes_per_s": _per_second(first["net"][1], last["net"][1], seconds),
        },
        "postgres": summarise_server(samples, around),
    }


def summarise_disk(pairs: list[tuple[dict[str, Any], dict[str, Any]]], role: str) -> dict[str, Any]:
    """Return means over the time of all pairs, with the largest utilisation and the 99th percentile of requests a second."""
    first, last = pairs[0][0], pairs[-1][1]
    rows = [disk_rates(before["disk"][role], after["disk"][role], after["m"] - before["m"]) for before, after in pairs]
    iops = sorted((row["reads_per_s"] or 0) + (row["writes_per_s"] or 0) for row in rows)
    mean = disk_rates(first["disk"][role], last["disk"][role], last["m"] - first["m"])
    return {
        **{name: mean[name] for name, _ in _DISK_COLUMNS if name not in ("await_ms", "utilisation")},
        "utilisation_mean": mean["utilisation"],
        "utilisation_max": max(row["utilisation"] or 0 for row in rows),
        "iops_p99": iops[math.ceil(0.99 * len(iops)) - 1],
    }


def summarise_server(samples: list[dict[str, Any]], around: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what the samples say in which the server answered, ``None`` when those are fewer than two."""
    answered = [sample for sample in samples if sample["pg"]]
    if len(answered) < 2:
        return None
    rows = [sample["pg"] for sample in answered]
    counted = [sample["pg"] for sample in around if sample["pg"]]
    old, new = counted[0], counted[-1]
    waits: Counter[str] = Counter()
    maintained: dict[str, float] = {}
    autovacuum_seconds = 0.0
    for before, after in in_pairs(answered):
        seconds = after["m"] - before["m"]
        waits.update(after["pg"]["waits"] or {})
        autovacuum_seconds += seconds if after["pg"]["autovacuum_workers"] else 0
        for step in after["pg"]["progress"] or []:
            what = f"{step['command']} {step['relation']}"
            maintained[what] = maintained.get(what, 0.0) + seconds
    running = [row["checkpoint_running"] for row in rows if row["checkpoint_running"] is not None]
    return {
        **{name: growth(old[name], new[name]) for name in SERVER_TOTALS},
        "checkpoints_completed": sum(1 for before, after in in_pairs(counted) if before["checkpoint_lsn"] != after["checkpoint_lsn"]),
        "checkpoint_running_share": sum(running) / len(running) if running else None,
        "autovacuum_workers_max": max(row["autovacuum_workers"] for row in rows),
        "autovacuum_seconds": autovacuum_seconds,
        "maintenance": [{"what": what, "seconds": maintained[what]} for what in sorted(maintained, key=maintained.__getitem__)[:-21:-1]],
        "wait_events": wait_shares(waits),
        "active_backends_mean": sum(row["active_backends"] for row in rows[1:]) / (len(rows) - 1),
        "backends_max": max(row["backends"] for row in rows),
    }


def wait_shares(waits: Counter[str], limit: int = 20) -> list[dict[str, Any]]:
    """Return ``[{type, event, share}]``, the largest first: the share of active client backends seen with that wait event."""
    total = sum(waits.values())
    shares = []
    for name, count in waits.most_common(limit):
        kind, _, event = name.partition(":")
        shares.append({"type": kind, "event": event or None, "share": count / total})
    return shares


def table_changes(before: list[dict[str, Any]] | None, after: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Compare the tables of two snapshots: ``{dead_tuples_before, dead_tuples_after, live_tuples_before, autovacuums}``.

    ``autovacuums`` lists ``{table, vacuums, analyzes}`` of tables that autovacuum finished meanwhile.
    """
    old = {table["table"]: table for table in before or []}
    worked = []
    for table in after or []:
        known = old.get(table["table"], {"autovacuums": 0, "autoanalyzes": 0})
        vacuums, analyzes = table["autovacuums"] - known["autovacuums"], table["autoanalyzes"] - known["autoanalyzes"]
        if vacuums > 0 or analyzes > 0:
            worked.append({"table": table["table"], "vacuums": vacuums, "analyzes": analyzes})
    return {
        "live_tuples_before": None if before is None else sum(table["live"] for table in before),
        "dead_tuples_before": None if before is None else sum(table["dead"] for table in before),
        "dead_tuples_after": None if after is None else sum(table["dead"] for table in after),
        "autovacuums": worked,
    }


def longest_gap(samples: list[dict[str, Any]]) -> float:
    """Return the longest time between two samples in seconds, 0 with fewer than two."""
    return max((after["m"] - before["m"] for before, after in in_pairs(samples)), default=0.0)


def clock_steps(samples: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return where the wall clock was set: ``{at, by_s}`` in its own new time, steps of more than ``CLOCK_STEP_S`` between two samples.

    A machine that slept is one too: the clock that does not jump stood still then.
    """
    steps = [{"at": after["t"], "by_s": (after["t"] - before["t"]) - (after["m"] - before["m"])} for before, after in in_pairs(samples)]
    return [step for step in steps if abs(step["by_s"]) > CLOCK_STEP_S]
