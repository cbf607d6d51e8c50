# GNU General Public License v3.0 or later (see LICENSE)
"""The one table of findings: each code's fixed severity and threshold, and how findings decide a verdict.

A finding is a plain dict ``{"code", "severity", "message", "evidence"}``: a machine-readable remark on a plan or a
trial. The code fixes the severity; the message is one sentence for a DBA; the evidence holds the figures behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Severities from harmless to worst. Notes leave a trial valid; each other severity names its verdict.
SEVERITIES = ("note", "suspect", "invalid", "aborted", "failed")
VERDICTS = ("valid", "suspect", "invalid", "aborted", "failed")


class Rule(NamedTuple):
    """Severity of a code, the threshold its check uses (``None`` where there is none) and what it means."""

    severity: str
    threshold: float | None
    meaning: str


RULES: dict[str, Rule] = {
    # the run itself
    "no_result": Rule("failed", None, "the load generator printed no usable result"),
    "load_generator_failed": Rule("failed", None, "the load generator ended with an error before it measured"),
    "too_many_clients": Rule("failed", None, "the server refused connections of the load generator"),
    "wrong_scale": Rule("failed", None, "the data set has another scale factor than the plan asks for"),
    "dataset_failed": Rule("failed", None, "the data set could not be built or does not pass its check"),
    "server_unreachable": Rule("failed", None, "no connection to the server"),
    "setup_failed": Rule("failed", None, "a step before the measurement failed"),
    "clients_aborted": Rule("aborted", None, "one or more clients stopped before the end"),
    "run_aborted": Rule("aborted", None, "the load generator ended before its planned end"),
    "server_lost": Rule("aborted", None, "the server went away during the run"),
    "interrupted": Rule("aborted", None, "the run was interrupted"),
    "deadline_exceeded": Rule("aborted", None, "the run was ended at its deadline"),
    "zero_result": Rule("invalid", 0, "the headline figure is zero"),
    "failed_transactions": Rule("invalid", 1.0, "share of failed transactions over the limit, in percent"),
    "elapsed_short": Rule("invalid", 0.98, "the measured window is shorter than asked for (ratio)"),
    "masked": Rule("invalid", None, "Ansible put its mask in the place of a value, which is not known"),
    "data_inconsistent": Rule("invalid", None, "the data violate a consistency condition"),
    "settings_not_in_effect": Rule("invalid", None, "a setting that was asked for is not in effect"),
    "server_restarted": Rule("invalid", None, "the server restarted or changed version during the run"),
    "balance_exhausted": Rule("invalid", 0, "a burst balance of the volume or instance reached zero inside the window"),
    "client_starved": Rule("suspect", 0.85, "load generator or its host out of CPU: the figure is a lower bound"),
    "stall": Rule("suspect", 3.0, "rate under 10 % of the median for this many seconds or more"),
    "drift": Rule("suspect", 0.15, "the rate drifts over the measured window (relative change from first to last third)"),
    "throttled": Rule("suspect", 0.10, "CPU stolen by the hypervisor (mean share)"),
    "other_load": Rule("suspect", 0.15, "CPU of a host that other processes took than those of the trial (mean share)"),
    "rate_missed": Rule("suspect", 0.95, "the asked-for rate was not reached (ratio)"),
    "inconsistent": Rule("suspect", 0.02, "throughput, latency and clients contradict each other (relative, closed loop)"),
    "tpm_nopm_ratio": Rule("suspect", 0.02, "TPM/NOPM is far from 2.30 (relative)"),
    "window_longer": Rule("suspect", 0.02, "the window was longer than what the load generator divided by (relative)"),
    "nopm_unconfirmed": Rule("suspect", 0.01, "new orders counted beside the run differ from what the load generator says (relative)"),
    "clients_late": Rule("suspect", 0.02, "clients started when the window had begun (share of it that they missed)"),
    "monitor_failed": Rule("suspect", None, "the virtual user that measures failed after it had printed the result"),
    "ends_unknown": Rule("suspect", None, "nothing says of any virtual user how it ended"),
    "spread": Rule("suspect", 0.15, "the repeats of a variant disagree (coefficient of variation)"),
    "ramp_up_unfaithful": Rule("suspect", 120.0, "an unscaled reproduction whose ramp-up is shorter than this many seconds"),
    "bloat_differs": Rule("suspect", 0.2, "two variants did not start with alike shares of dead rows (relative)"),
    "trend": Rule("suspect", 0.02, "the repeats rise or fall in one direction: carry-over between trials (p of the rank test)"),
    "conditions_differ": Rule("suspect", None, "the repeats of a variant disagree in the facts that must agree for a comparison"),
    "overran": Rule("note", 1.1, "the run went on after its time (ratio): transactions that did not end, or a slow start"),
    "ramp_up_short": Rule("note", 120.0, "ramp-up shorter than this many seconds"),
    "short_window": Rule("note", 2.0, "burst figure, not sustained: the window spans fewer checkpoint cycles than this"),
    "unsteady_start": Rule("note", 0.25, "the first part of the window ran at another rate than the rest (relative)"),
    "checkpoints_frequent": Rule("note", 30.0, "WAL volume asked for checkpoints less than this many seconds apart (checkpoint_warning)"),
    "saw_tooth": Rule("note", 0.5, "the rate swings within the window: (max-min)/median of the rate per minute"),
    "driver_on_server": Rule("note", None, "load generator and server share one machine"),
    "closed_loop": Rule("note", None, "closed-loop run: latencies leave out the wait of requests that were never sent"),
    "schedule_lag": Rule("note", 0.5, "at a set rate, this share of the latency was waiting for a free client"),
    "skipped_transactions": Rule("note", 0.1, "share of transactions that were skipped for being late, in percent"),
    "latency_outlier": Rule("note", 100.0, "max/p99.9 latency above this: a stall hides from the percentiles"),
    "branch_contention": Rule("note", 1.0, "more clients than branch rows: row-lock contention, not capacity"),
    "warehouse_contention": Rule("note", 1.0, "more clients than warehouses: row-lock contention, not capacity"),
    "iops_burst": Rule("note", None, "more I/O than the instance's baseline: a burst figure, not sustained"),
    "iops_unusable": Rule("note", None, "provisioned IOPS above the instance's maximum: paid for, cannot be used"),
    "throughput_burst": Rule("note", None, "the volumes give more MiB/s than the instance's baseline: a burst, not sustained"),
    "throughput_unusable": Rule("note", None, "provisioned MiB/s above the instance's maximum: paid for, cannot be used"),
    "quota_reached": Rule("note", 0.1, "share of the time in which the CPU quota of a container held work back"),
    "clock_set": Rule("note", None, "the wall clock was set while a host was observed, or the host slept"),
    "memory_short": Rule("note", 64.0, "the server's host swapped more than this many MiB, or ended processes for want of memory"),
    "autovacuum_active": Rule("note", None, "autovacuum worked during the measured window"),
    "autovacuum_off": Rule("note", None, "autovacuum is off: not production-like"),
    "fsync_off": Rule("note", None, "fsync is off: not production-like"),
    "full_page_writes_off": Rule("note", None, "full_page_writes is off: not production-like"),
    "unlogged_tables": Rule("note", None, "the tables are unlogged: not production-like"),
    "assertions_on": Rule("note", None, "the server is a build with assertions: much slower than one for use"),
    "synchronous_commit_off": Rule("note", None, "synchronous_commit is off: a crash loses the last transactions"),
    "huge_pages_unused": Rule("note", None, "huge pages were asked for and are not in use"),
    "not_checked": Rule("note", None, "something could not be observed, so its rule was not applied"),
    "no_restart": Rule("note", None, "the server was not restarted and its caches are as they were"),
    "reset_rebuild": Rule("note", None, "the data set is built anew before each trial, for want of disk for a copy"),
    "no_reset": Rule("note", None, "the data set was not put back before the trial"),
    "ramp_up_unsteady": Rule("note", 0.10, "the rate still moved at the end of the ramp-up (relative, last two quarters)"),
    "not_vacuumed": Rule("note", 0.10, "dead rows of earlier runs were in the data set (share)"),
    "functions_mode": Rule("note", None, "HammerDB's functions do other work than its procedures: not comparable with them"),
    "profile_missing": Rule("note", None, "the load generator's time profile is missing or incomplete: no latencies"),
    "profile_doubled": Rule("note", None, "the time profile's summary counted each call twice and was corrected"),
    "profile_ramp_up": Rule("note", None, "latencies cover the ramp-up and the end of the run too"),
    "shutdown_overran": Rule("note", None, "virtual users had not ended when the load generator's script went on"),
    "cold_first_run": Rule("note", None, "the first repeat is the outlier and read more from disk than the others"),
    "cache_differs": Rule("note", 0.05, "two variants with shared_buffers of one size found other shares of their blocks in them"),
    "outlier": Rule("note", 4.0, "one repeat lies farther from the others than this many times their range"),
    "sampled_log": Rule("note", None, "percentiles come from a sample of the transactions"),
    "low_detail": Rule("note", None, "an imported result lacks fields of present versions"),
    "log_incomplete": Rule("note", None, "the per-transaction log does not hold as many lines as transactions"),
    "unparsed_output": Rule("note", None, "lines of the output were not understood; they are kept in raw"),
    "raw_left_on_driver": Rule("note", None, "a raw file was too large to be fetched and stays on the driver"),
    # settings
    "guc_renamed": Rule("note", None, "a setting was translated to the name this version uses"),
    "guc_removed": Rule("note", None, "a setting does not exist in this version and was dropped"),
    "guc_unitless": Rule("note", None, "a number without unit was read in the setting's base unit"),
    "guc_engine": Rule("note", None, "a setting of another engine was dropped from a profile"),
    "guc_auto_conf": Rule("note", None, "postgresql.auto.conf overrides a setting"),
    "guc_cleaned": Rule("note", None, "a value copied from a settings dump was read as not set"),
    "guc_reserved": Rule("note", None, "a setting that the toolkit or the server decides itself was dropped from a profile"),
    "guc_placeholder": Rule("note", None, "a dotted setting that no loaded library defines: accepted, without effect"),
    "locale_replaced": Rule("note", None, "a locale that the host lacks was replaced by C"),
    "memory_shared_buffers": Rule("note", 0.4, "shared_buffers takes more than this share of the memory"),
    "memory_effective_cache_size": Rule("note", 1.0, "effective_cache_size is larger than the memory"),
    "memory_cache_below_buffers": Rule("note", 1.0, "effective_cache_size is smaller than shared_buffers"),
    "memory_work_mem_clients": Rule("note", 1.0, "shared_buffers + work_mem x clients is larger than the memory"),
    "memory_work_mem_connections": Rule("note", 1.0, "shared_buffers + work_mem x max_connections is larger than the memory"),
    "memory_huge_pages": Rule("note", None, "huge pages are asked for but not enough are reserved"),
    "wal_disk": Rule("note", None, "the WAL that is kept does not fit beside the data set"),
    # plan and host
    "shape_only": Rule("note", None, "scaled run: compare its own variants with each other, never with the published figure"),
    "too_few_repeats": Rule("note", None, "fewer repeats than a significant difference needs"),
    "data_in_memory": Rule("note", None, "the data set fits in memory: what the disks read is not measured"),
    "foreign_postmaster": Rule("note", None, "a PostgreSQL server that is not ours runs on the host"),
    "callback_off": Rule("note", None, "the callback plugins are not enabled: no live line, no record of unreachable hosts"),
    "lock_taken_over": Rule("note", None, "the host lock of an experiment that ended without releasing it was taken over"),
    "host_restarted": Rule("note", None, "the host was restarted since it was prepared: mounts and kernel settings were made again"),
    "server_upgraded": Rule("note", None, "the installed binaries were newer than the running server, which was restarted"),
    "resumed": Rule("note", None, "the trial was collected after its controller was lost"),
    # sizes, prices, specifications
    "profile_left_out": Rule("note", None, "a row of a profile makes no sense on one node and is not set"),
    "profile_doubtful": Rule("note", None, "whether the published run had the values of the profile is not sure"),
    "spec_ignored": Rule("note", None, "a part of a specification file is not used"),
    "spec_default": Rule("note", None, "what a specification file leaves out has the default of its tool"),
    "volume_parameter": Rule("note", None, "a parameter that the volume type does not have was dropped"),
    "volume_limits": Rule("note", None, "the volume needs bounds that older volumes and some regions do not have"),
    "volume_burst": Rule("note", None, "the volume's rate is a burst: it ends with its credits"),
    "burstable_instance": Rule("note", None, "the instance works on CPU credits: a long run falls to its baseline"),
    "instance_store": Rule("note", None, "the instance has local disks that lose their data when it stops"),
    "price_old": Rule("note", 180, "the prices are older than this many days"),
    "price_unknown": Rule("note", None, "a price is not known, so the cost is a lower bound"),
    "other_workload": Rule("note", None, "the size was published for another workload than the one that is planned"),
}


def finding(code: str, message: str, **evidence: Any) -> dict[str, Any]:
    """Return the finding ``code`` with its fixed severity. ``KeyError`` for a code that the table does not hold."""
    return {"code": code, "severity": RULES[code].severity, "message": message, "evidence": evidence}


def term(metric: str) -> str:
    """Return a metric as the field spells it: ``NOPM`` for ``nopm``."""
    return metric.upper() if metric in ("nopm", "tpm") else metric


def worst(findings: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the finding that decides: the first of the worst severity, ``None`` when there are but notes."""
    found = max(findings, key=lambda f: SEVERITIES.index(f["severity"]), default=None)
    return found if found and found["severity"] != "note" else None


def verdict(findings: list[dict[str, Any]]) -> str:
    """Return the verdict that the worst of ``findings`` decides: one of ``VERDICTS``."""
    deciding = worst(findings)
    return VERDICTS[SEVERITIES.index(deciding["severity"])] if deciding else VERDICTS[0]


def masked(names: list[str]) -> list[dict[str, Any]]:
    """Return the finding on the fields that Ansible masked; none when there are none."""
    text = f"Ansible masked {', '.join(names)}: a secret is part of an ordinary value; choose a longer one"
    return [finding("masked", text, fields=names)] if names else []
