# GNU General Public License v3.0 or later (see LICENSE)
"""The profile of the size ``local``: settings for a benchmark of the machine at hand, by formula (``docs/gucs.md``).

Made for measuring: what a production server would have for this machine, nothing that trades safety for speed (fsync,
full_page_writes, synchronous_commit and autovacuum keep their defaults), and the log and statistics that explain a result.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, MIB, format_size, human_size

CONNECTIONS = 200


def local_profile(cores: int, memory_bytes: int, disk_free_bytes: int, major: int, storage: str = "ssd") -> list[dict[str, Any]]:
    """Return ``[{name, value, reason}]`` for a machine with ``cores`` logical CPUs; ``storage`` is ``ssd`` or ``hdd``.

    Values are texts with units, numbers or bools, for :func:`guc.resolve`. Only names that PostgreSQL ``major`` has.
    """
    memory = human_size(memory_bytes)
    buffers = _whole_mb(memory_bytes / 4, least=128 * MIB)
    wal = min(16 * GIB, _whole_mb(disk_free_bytes / 5, least=256 * MIB))
    workers = max(1, min(4, cores // 2))
    rows: list[tuple[str, Any, str]] = [
        ("shared_buffers", format_size(buffers), f"a quarter of {memory} of memory; the rest serves the page cache and the sessions"),
        (
            "effective_cache_size",
            format_size(_whole_mb(memory_bytes * 3 / 4, least=buffers)),
            f"three quarters of {memory}: what shared_buffers and the page cache hold together",
        ),
        (
            "work_mem",
            format_size(min(256 * MIB, _whole_mb(memory_bytes / 4 / CONNECTIONS, least=4 * MIB))),
            f"a quarter of {memory} over max_connections, 4MB to 256MB: all sessions may sort at once",
        ),
        (
            "maintenance_work_mem",
            format_size(min(GIB, _whole_mb(memory_bytes / 16, least=64 * MIB))),
            f"a sixteenth of {memory}, 64MB to 1GB: index builds, and each autovacuum worker may take it",
        ),
        ("max_connections", CONNECTIONS, "more clients than this machine can serve at once; each free slot costs little"),
        (
            "max_wal_size",
            format_size(wal),
            f"16GB, at most a fifth of the {human_size(disk_free_bytes)} free: checkpoints come by time, not by WAL volume",
        ),
        ("min_wal_size", format_size(wal // 4 // MIB * MIB), "a quarter of max_wal_size: segments are recycled, not made anew in each run"),
        ("checkpoint_timeout", "15min", "full-page writes are spread over 15 minutes, as on a production server; windows should be longer"),
        ("checkpoint_completion_target", 0.9, "checkpoint writes are spread (the default since 14)"),
        (
            "wal_compression",
            True,
            "full-page images compressed by pglz, which every version and build has; lz4 is cheaper where it is built in",
        ),
        ("max_worker_processes", max(8, cores), "one for each core, at least the default"),
        ("max_parallel_workers", cores, "no more parallel workers than cores"),
        ("max_parallel_workers_per_gather", workers, "half the cores, at most 4: one query does not take the machine"),
        ("max_parallel_maintenance_workers", workers, "half the cores, at most 4: index builds of the data set"),
        ("autovacuum_vacuum_cost_limit", 2000, "autovacuum keeps up with a benchmark's update rate instead of falling behind"),
    ]
    if storage == "ssd":
        rows.append(("random_page_cost", 1.1, "random reads of solid-state storage cost about as much as sequential ones"))
        if major < 18:
            rows.append(("effective_io_concurrency", 200, "solid-state storage serves many requests at once (18 has a fitting default)"))
    rows += [
        ("shared_preload_libraries", "pg_stat_statements", "which statements took the time"),
        ("track_io_timing", True, "time spent in reads and writes; costs two clock reads each"),
        ("log_checkpoints", True, "checkpoints explain dips of the rate"),
        ("log_autovacuum_min_duration", 0, "each run of autovacuum explains dips of the rate"),
        ("log_lock_waits", True, "waits for locks beyond deadlock_timeout"),
        ("log_temp_files", 0, "sorts that did not fit in work_mem"),
        ("lc_messages", "C", "the server log is read in English"),
    ]
    return [{"name": name, "value": value, "reason": reason} for name, value, reason in rows]


def _whole_mb(size: float, least: int) -> int:
    return max(least, int(size) // MIB * MIB)
