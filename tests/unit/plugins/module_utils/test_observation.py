# GNU General Public License v3.0 or later (see LICENSE)
"""Reading /proc, and from counters to series and summary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import observation as pure

STAT = """\
cpu  118438 12 54658 224205 2871 3 624 225 7 0
cpu0 59000 6 27000 112000 1400 1 300 100 3 0
intr 12345 0 0
ctxt 99
procs_running 7
procs_blocked 0
"""
MEMINFO = """\
MemTotal:       24684096 kB
MemFree:        23743000 kB
MemAvailable:   23824128 kB
Buffers:           10000 kB
Cached:          1446804 kB
SwapCached:            0 kB
Dirty:            368192 kB
Writeback:            16 kB
WritebackTmp:          0 kB
"""
VMSTAT = "nr_free_pages 5952\nnr_dirty 21\npswpin 3\npswpout 20\npgmajfault 7\noom_kill 1\n"
DISKSTATS = """\
 259       0 nvme1n1 34507 10482 2670178 8598 21551 75125 4280632 15924 2 7188 25224 7756 29 502576 588 3078 112
 259       1 nvme1n1p1 1 0 8 1 2 0 16 2 0 3 3
 254       0 vda 7 0 70 5 8 0 80 6 0 9 11
"""
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 874872168  1000    0    0    0     0          0         0 874872168    1000    0    0    0     0       0          0
  eth0: 1500       10    0    0    0     0          0         0 2500       20    0    0    0     0       0          0
  eth1:500 10 0 0 0 0 0 0 700 20 0 0 0 0 0 0
"""
MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:21 / /proc rw - proc proc rw
30 22 259:1 / /srv/pg\040data rw,noatime shared:9 - xfs /dev/nvme1n1p1 rw,attr2
31 22 0:40 / /srv rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
32 22 0:41 / /srv rw - tmpfs tmpfs rw
"""


def test_proc_stat() -> None:
    assert pure.parse_stat(STAT) == {"cpu": [118438, 12, 54658, 224205, 2871, 3, 624, 225], "running": 7}


def test_proc_meminfo() -> None:
    expected = {"available": 23824128, "dirty": 368192, "writeback": 16, "cached": 1446804}
    assert pure.parse_meminfo(MEMINFO) == {name: kb * 1024 for name, kb in expected.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(VMSTAT, {"swap_in": 12288, "swap_out": 81920, "oom_kills": 1}), ("nr_free_pages 1\n", {"swap_in": 0, "swap_out": 0, "oom_kills": 0})],
)
def test_proc_vmstat(text: str, expected: dict[str, int]) -> None:
    assert pure.parse_vmstat(text, 4096) == expected


def test_proc_loadavg() -> None:
    assert pure.parse_loadavg("1.62 0.80 0.35 5/91 7243\n") == 1.62


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("nvme1n1", [34507, 2670178, 8598, 21551, 4280632, 15924, 7188]),
        ("nvme1n1p1", [1, 8, 1, 2, 16, 2, 3]),
        ("vda", [7, 70, 5, 8, 80, 6, 9]),
        ("vd", None),
    ],
)
def test_proc_diskstats(device: str, expected: list[int] | None) -> None:
    assert pure.parse_diskstats(DISKSTATS, device) == expected


@pytest.mark.parametrize(("names", "expected"), [(["eth0"], [1500, 2500]), (["eth0", "eth1"], [2000, 3200]), ([], [0, 0])])
def test_proc_net_dev(names: list[str], expected: list[int]) -> None:
    assert pure.parse_net(NET, names) == expected


@pytest.mark.parametrize(
    ("path", "number", "fstype"),
    [
        ("/var/lib/pgsizing", "254:0", "ext4"),
        ("/srv/pg data/15", "259:1", "xfs"),
        ("/srv/pg data", "259:1", "xfs"),
        ("/srv/pg", "0:41", "tmpfs"),  # the later of two on the same mount point
        ("/srvother", "254:0", "ext4"),
        ("/", "254:0", "ext4"),
    ],
)
def test_the_mount_a_path_lies_in(path: str, number: str, fstype: str) -> None:
    mount = pure.mount_of(path, pure.parse_mountinfo(MOUNTS))
    assert (mount["number"], mount["fstype"]) == (number, fstype)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu\n\nprocessor\t: 1\nmodel name\t: other\n", "AMD EPYC"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "Neoverse-V1"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xfff\n", "ARM implementer 0x41 part 0xfff"),
        ("", None),
    ],
)
def test_the_model_of_the_processor(text: str, model: str | None) -> None:
    assert pure.parse_cpuinfo(text) == model


@pytest.mark.parametrize(
    ("version", "has", "has_not"),
    [
        (130023, ["pg_current_wal_lsn()", "pg_stat_bgwriter", "checkpoints_req"], ["pg_stat_wal ", "pg_stat_progress_copy"]),
        (140000, ["pg_stat_wal ", "pg_stat_progress_copy", "checkpoints_req"], ["pg_stat_checkpointer", "pg_current_wal_lsn"]),
        (160014, ["buffers_backend", "checkpoints_req"], ["pg_stat_io", "pg_stat_checkpointer"]),
        (170010, ["pg_stat_checkpointer", "pg_stat_io", "sum(coalesce(writes"], ["checkpoints_req ", "write_bytes"]),
        (180004, ["pg_stat_checkpointer", "write_bytes"], ["checkpoints_req ", "coalesce(writes"]),
    ],
)
def test_the_query_fits_the_version(version: int, has: list[str], has_not: list[str]) -> None:
    query = pure.server_query(version)
    assert [part for part in has if part not in query] == []
    assert [part for part in has_not if part in query] == []
    assert "pid <> pg_backend_pid()" in query


def server(**changes: Any) -> dict[str, Any]:
    counters: dict[str, Any] = dict.fromkeys(pure.SERVER_TOTALS, 0)
    other = {"checkpoint_lsn": 1, "checkpoint_running": 0, "autovacuum_workers": 0, "active_backends": 0, "backends": 1}
    return {**counters, **other, "waits": None, "progress": None, **changes}


def sample(second: float, **changes: Any) -> dict[str, Any]:
    """A sample of a machine with 2 cores that has idled since its boot."""
    return {
        "t": 1000.0 + second,
        "m": second,
        "cpu": [0, 0, 0, int(second * 200), 0, 0, 0, 0],
        "running": 1,
        "load1": 0.5,
        "mem": {"available": 1000, "dirty": 10, "writeback": 0, "cached": 5},
        "vm": {"swap_in": 0, "swap_out": 0, "oom_kills": 0},
        "disk": {"data": [0, 0, 0, 0, 0, 0, 0]},
        "net": [0, 0],
        "server_cpu": None,
        "pg": None,
        **changes,
    }


def test_a_row_of_the_series() -> None:
    before = sample(10, cpu=[0] * 8, server_cpu=40, pg=server(wal_bytes=100, xact_commit=5, checkpoints_timed=1))
    after = sample(
        12,
        cpu=[100, 20, 60, 120, 40, 20, 20, 20],
        server_cpu=140,
        vm={"swap_in": 0, "swap_out": 8192, "oom_kills": 0},
        disk={"data": [4, 80, 2, 6, 160, 18, 500]},
        net=[2000, 4000],
        pg=server(
            wal_bytes=1100, xact_commit=25, checkpoints_timed=1, checkpoints_requested=2, deadlocks=1, checkpoint_running=1, backends=9
        ),
    )
    row = pure.rates(before, after)
    assert list(row) == [name for name, _ in pure.COLUMNS]
    assert (row["ts"], row["interval_s"]) == (1012.0, 2)
    assert [row[f"cpu_{name}"] for name in ("user", "system", "iowait", "steal", "idle", "server")] == [0.3, 0.25, 0.1, 0.05, 0.3, 0.25]
    assert (row["data_reads_per_s"], row["data_writes_per_s"]) == (2, 3)
    assert (row["data_read_bytes_per_s"], row["data_write_bytes_per_s"]) == (40 * 512, 80 * 512)
    assert (row["data_read_await_ms"], row["data_write_await_ms"], row["data_await_ms"]) == (0.5, 3, 2)
    assert row["data_utilisation"] == 0.25
    assert row["wal_reads_per_s"] is None
    assert (row["network_receive_bytes_per_s"], row["network_transmit_bytes_per_s"], row["swap_out_bytes_per_s"]) == (1000, 2000, 4096)
    assert (row["commits_per_s"], row["wal_bytes_per_s"], row["checkpoints"], row["deadlocks"]) == (10, 500, 2, 1)
    assert (row["checkpoint_running"], row["backends"]) == (1, 9)


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("Amazon EC2", "r5n.4xlarge", "r5n.4xlarge"),
        ("Amazon EC2", "u-6tb1.metal", "u-6tb1.metal"),
        ("Xen", "HVM domU", None),
        ("Amazon EC2", None, None),
        ("QEMU", "pc-i440fx-7.2", None),
        (None, None, None),
    ],
)
def test_the_instance_type_is_what_the_firmware_says(vendor: str | None, product: str | None, expected: str | None) -> None:
    assert pure.instance_type(vendor, product) == expected


def test_what_was_not_seen_is_none_and_not_zero() -> None:
    row = pure.rates(sample(0), sample(1))
    missing = [name for name, value in row.items() if value is None]
    assert {"data_await_ms", "commits_per_s", "wal_bytes_per_s", "checkpoints", "active_backends", "wal_utilisation"} <= set(missing)
    assert row["data_reads_per_s"] == 0


@pytest.mark.parametrize(("old", "new", "grown"), [(1, 5, 4), (5, 5, 0), (5, 1, None), (None, 1, None), (1, None, None)])
def test_growth_of_a_counter(old: float | None, new: float | None, grown: float | None) -> None:
    assert pure.growth(old, new) == grown


def test_iowait_that_runs_backwards_counts_as_none() -> None:
    shares = pure.cpu_shares([0, 0, 0, 0, 50, 0, 0, 0], [100, 0, 0, 100, 40, 0, 0, 0])
    assert (shares["user"], shares["idle"], shares["iowait"], shares["busy"]) == (0.5, 0.5, 0.0, 0.5)


SAMPLES = [sample(second) for second in range(10)]


@pytest.mark.parametrize(
    ("start", "end", "inside", "around"),
    [
        (1002.0, 1006.0, (2, 6), (2, 7)),
        (1002.2, 1006.4, (2, 6), (2, 7)),
        (1002.5, 1006.8, (3, 7), (2, 7)),
        (1002.3, 1002.9, (2, 3), (2, 3)),  # no two samples inside: those around
        (900.0, 2000.0, (0, 9), (0, 9)),
    ],
)
def test_the_samples_of_a_window(start: float, end: float, inside: tuple[int, int], around: tuple[int, int]) -> None:
    found = pure.in_window(SAMPLES, start, end, 1.0)
    assert [(samples[0]["m"], samples[-1]["m"]) for samples in found] == [inside, around]


def test_a_closing_sample_right_after_another_replaces_it() -> None:
    assert [found["m"] for found in pure.tidy([*SAMPLES[:4], sample(3.1)], 1.0)] == [0, 1, 2, 3.1]
    assert pure.tidy(SAMPLES, 1.0) == SAMPLES
    assert pure.tidy([sample(0), sample(0.1)], 1.0) == [sample(0), sample(0.1)]


def test_means_are_over_the_time_and_not_over_the_rows() -> None:
    samples = [
        sample(0, cpu=[0] * 8, server_cpu=100, disk={"data": [0] * 7}),
        sample(
            1,
            cpu=[200, 0, 0, 0, 0, 0, 0, 0],
            running=5,
            disk={"data": [100, 0, 100, 0, 0, 0, 1000]},
            mem={**SAMPLES[0]["mem"], "dirty": 99},
        ),
        sample(
            4,
            cpu=[200, 0, 0, 600, 0, 0, 0, 0],
            server_cpu=260,
            disk={"data": [100, 0, 100, 0, 0, 0, 1000]},
            mem={**SAMPLES[0]["mem"], "available": 7},
        ),
    ]
    summary = pure.summarise(samples, samples, cores=2)
    assert (summary["n"], summary["cpu"]["server"]) == (2, 0.2)
    assert (summary["cpu"]["busy_mean"], summary["cpu"]["busy_max"], summary["cpu"]["run_queue_mean"], summary["cpu"]["cores"]) == (
        0.25,
        1.0,
        3,
        2,
    )
    disk = summary["disk"]["data"]
    assert (disk["reads_per_s"], disk["iops_p99"], disk["utilisation_mean"], disk["utilisation_max"]) == (25, 100, 0.25, 1.0)
    assert (disk["read_await_ms"], disk["write_await_ms"]) == (1.0, None)
    assert (summary["memory"]["available_min_bytes"], summary["memory"]["dirty_max_bytes"]) == (7, 99)
    assert summary["postgres"] is None
    assert list(summary["disk"]) == ["data"]


def test_c088_the_99th_percentile_of_requests_a_second() -> None:
    reads = [0]
    for second in range(200):
        reads.append(reads[-1] + (900 if second < 3 else 100))  # 3 of 200 seconds in a burst: more than 1 %
    samples = [sample(i, disk={"data": [count, 0, 0, 0, 0, 0, 0]}) for i, count in enumerate(reads)]
    disk = pure.summarise(samples, samples, cores=2)["disk"]["data"]
    assert (disk["iops_p99"], disk["reads_per_s"]) == (900, 112)


def test_totals_of_the_server_reach_to_the_sample_after_the_window() -> None:
    samples = [
        sample(0, pg=server(xact_commit=100, wal_bytes=10)),
        sample(1, pg=server(xact_commit=150, wal_bytes=20, active_backends=4, backends=5, waits={"CPU": 3, "LWLock:WALWrite": 1})),
        sample(2, pg=server(xact_commit=200, wal_bytes=30, active_backends=2, backends=4, waits={"LWLock:WALWrite": 2})),
        sample(3, pg=server(xact_commit=260, wal_bytes=45)),
    ]
    postgres = pure.summarise(samples[:3], samples, cores=2)["postgres"]
    assert (postgres["xact_commit"], postgres["wal_bytes"]) == (160, 35)
    assert (postgres["active_backends_mean"], postgres["backends_max"]) == (3, 5)
    assert postgres["wait_events"] == [
        {"type": "CPU", "event": None, "share": 0.5},
        {"type": "LWLock", "event": "WALWrite", "share": 0.5},
    ]


def test_c082_checkpoints_are_counted_as_started_and_as_completed() -> None:
    samples = [
        sample(0, pg=server()),
        sample(1, pg=server(checkpoints_timed=1, checkpoint_running=1)),
        sample(2, pg=server(checkpoints_timed=1, checkpoint_running=1, buffers_checkpoint=50, checkpoint_write_ms=900.5)),
        sample(3, pg=server(checkpoints_timed=1, checkpoint_lsn=77, buffers_checkpoint=50, checkpoint_write_ms=900.5)),
        sample(4, pg=server(checkpoints_timed=1, checkpoints_requested=1, checkpoint_lsn=77, checkpoint_running=1)),
    ]
    postgres = pure.summarise(samples, samples, cores=2)["postgres"]
    assert (postgres["checkpoints_timed"], postgres["checkpoints_requested"], postgres["checkpoints_completed"]) == (1, 1, 1)
    assert postgres["checkpoint_running_share"] == 0.6
    assert [pure.rates(old, new)["checkpoints"] for old, new in pure.in_pairs(samples)] == [1, 0, 0, 1]


def test_c083_autovacuum_in_the_window_is_recorded() -> None:
    step = {"command": "vacuum", "relation": "order_line"}
    samples = [
        sample(0, pg=server()),
        sample(1, pg=server(autovacuum_workers=2, progress=[step, {"command": "analyze", "relation": "stock"}])),
        sample(3, pg=server(autovacuum_workers=1, progress=[step])),
        sample(4, pg=server()),
    ]
    postgres = pure.summarise(samples, samples, cores=2)["postgres"]
    assert (postgres["autovacuum_workers_max"], postgres["autovacuum_seconds"]) == (2, 3)
    assert postgres["maintenance"] == [{"what": "vacuum order_line", "seconds": 3}, {"what": "analyze stock", "seconds": 1}]
    before = [{"table": "public.order_line", "live": 100, "dead": 5, "autovacuums": 1, "autoanalyzes": 0}]
    after = [{"table": "public.order_line", "live": 100, "dead": 9, "autovacuums": 3, "autoanalyzes": 0}]
    assert pure.table_changes(before, after) == {
        "live_tuples_before": 100,
        "dead_tuples_before": 5,
        "dead_tuples_after": 9,
        "autovacuums": [{"table": "public.order_line", "vacuums": 2, "analyzes": 0}],
    }
    assert pure.table_changes(None, None)["dead_tuples_before"] is None


def test_a_server_that_is_lost_leaves_what_was_seen_of_it() -> None:
    samples = [sample(0, pg=server()), sample(1, pg=server(xact_commit=9)), sample(2), sample(3)]
    summary = pure.summarise(samples, samples, cores=2)
    assert (summary["n"], summary["postgres"]["xact_commit"]) == (3, 9)
    assert pure.summarise([sample(0), sample(1)], [], cores=2)["postgres"] is None


def test_counters_that_were_reset_in_the_window_are_none() -> None:
    samples = [sample(0, pg=server(xact_commit=500, wal_bytes=1)), sample(1, pg=server(xact_commit=3, wal_bytes=2))]
    postgres = pure.summarise(samples, samples, cores=2)["postgres"]
    assert (postgres["xact_commit"], postgres["wal_bytes"]) == (None, 1)


@pytest.mark.parametrize("samples", [[], [sample(0)]])
def test_fewer_than_two_samples_say_nothing(samples: list[dict[str, Any]]) -> None:
    assert pure.summarise(samples, samples, cores=2) == {
        "n": 0,
        "cpu": None,
        "memory": None,
        "disk": None,
        "network": None,
        "postgres": None,
    }


def test_wait_shares_are_ordered() -> None:
    shares = pure.wait_shares(Counter({"IO:DataFileRead": 1, "CPU": 3}))
    assert [(wait["type"], wait["event"], wait["share"]) for wait in shares] == [("CPU", None, 0.75), ("IO", "DataFileRead", 0.25)]


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("usage_usec 5\nnr_periods 120\nnr_throttled 30\nthrottled_usec 900\n", [120, 30]),
        ("nr_periods 120\nnr_throttled 0\nthrottled_time 0\n", [120, 0]),
        ("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", None),  # no quota is set
        ("usage_usec 5\nuser_usec 4\n", None),
        ("", None),
    ],
)
def test_the_cpu_quota_of_a_container(text: str, quota: list[int] | None) -> None:
    assert pure.parse_quota(text) == quota


def test_the_share_of_periods_that_were_throttled() -> None:
    assert pure.throttled_share([100, 10], [300, 60]) == 0.25
    assert pure.throttled_share([100, 10], [100, 10]) is None
    assert pure.throttled_share(None, [300, 60]) is None
    samples = [sample(0, quota=[100, 10]), sample(1, quota=[110, 15])]
    assert pure.summarise(samples, samples, 2)["cpu"]["throttled"] == 0.5
    assert pure.summarise([sample(0), sample(1)], [], 2)["cpu"]["throttled"] is None


def test_a_clock_that_was_set_is_seen_and_one_that_is_slewed_is_not() -> None:
    set_back = [sample(0), sample(1), {**sample(2), "t": 1002.0 - 3600}, {**sample(3), "t": 1003.0 - 3600}]
    assert pure.clock_steps(set_back) == [{"at": 1002.0 - 3600, "by_s": -3600.0}]
    slept = [sample(0), {**sample(1), "t": 1031.0}]
    assert pure.clock_steps(slept) == [{"at": 1031.0, "by_s": 30.0}]
    assert pure.clock_steps([{**sample(i), "t": 1000 + i * 1.0005} for i in range(100)]) == []
    assert pure.clock_steps([sample(0), sample(9)]) == []  # the sampler was late, the clocks agree


def test_the_longest_gap() -> None:
    assert pure.longest_gap([sample(0), sample(1), sample(4.5)]) == 3.5
    assert pure.longest_gap([sample(0)]) == 0
