# GNU General Public License v3.0 or later (see LICENSE)
"""From what a trial left behind to its trial.json."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.plan_site import make_experiment

from ansible_collections.pgsizing.bench.plugins.module_utils import report_tables
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench
from ansible_collections.pgsizing.bench.plugins.plugin_utils import trial_record
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, validate

CAPTURE = Path(__file__).parents[3] / "fixtures/pgbench/captures/pgbench15_run_T5_P1_r.txt"
STARTED = 1_790_000_100.0
TRIAL = "01-base-r1"
HOSTS = {
    "server": {"hostname": "db", "machine_id": "a1", "cpu_model": "Sample CPU", "cores": 4, "memory_bytes": 2**34, "kernel": "6.1"},
    "driver": {"hostname": "client", "machine_id": "b2", "cores": 8},
}
SETTINGS: dict[str, Any] = {
    "findings": [],
    "non_default": [{"name": "shared_buffers", "setting": "131072", "unit": "8kB", "text": "1GB", "source": "configuration file"}],
    "server_version": "15.14",
    "huge_pages_in_use": None,
}
COLUMNS = [("ts", "s"), ("interval_s", "s"), ("cpu_user", "fraction"), ("wal_bytes_per_s", "B/s")]


def make_store(tmp_path: Path, **given: Any) -> Store:
    return Store.create(tmp_path / "results", make_experiment(**{"repeats": 1, "duration": 5, "ramp_up": 0, "scale": 5, **given}))


def measurement(**job: Any) -> dict[str, Any]:
    """The measurement of a real pgbench output: what the workload action hands over."""
    text = CAPTURE.read_text()
    stdout, stderr = re.search(r"### stdout:\n(.*)### stderr:\n(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    usage = {"user_s": 0.4, "system_s": 0.3, "max_rss_bytes": 11_000_000}
    done = {"state": "finished", "rc": 0, "started": STARTED, "ended": STARTED + 5.1, "elapsed_s": 5.1, "rusage": usage, **job}
    step = {"name": "measured", "argv": ["pgbench"], "version": "15.18", "planned_s": 5.0, "job": done, "stdout": stdout, "stderr": stderr}
    parameters = pgbench.complete({"clients": 4, "threads": 2, "duration": 5, "ramp_up": 0, "scale": 5, "report_per_command": True})
    return {**pgbench.result(parameters, [step]), "raw": []}


def observation(folder: Path, seconds: int = 5, **more: Any) -> dict[str, Any]:
    """An observation with samples half a second off the full second."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    with open(folder / "raw/samples.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(name for name, _unit in COLUMNS)
        for second in range(-2, seconds + 4):  # before and after the window too
            writer.writerow([STARTED + second + 0.4, 1.0, 0.5, "" if second == 3 else 1000 + second])
    cpu = {"user": 0.5, "system": 0.1, "iowait": 0.1, "steal": 0.0, "idle": 0.3, "busy_mean": 0.6, "busy_max": 0.7, "cores": 4}
    columns = [{"name": name, "unit": unit} for name, unit in COLUMNS]
    return {"samples": "raw/samples.csv", "columns": columns, "cpu": cpu, "postgres": {"restarted": False}, "problems": [], **more}


def finish(store: Store, **more: Any) -> dict[str, Any]:
    given = {"hosts": HOSTS, "settings": SETTINGS, "observation": observation(store.trial_dir(TRIAL)), **more}
    return trial_record.finish(store, TRIAL, measurement(), **given)


def test_the_size_is_that_of_the_variant(tmp_path: Path) -> None:
    """An experiment of several sizes is called small+xl; each of its trials ran on one of them."""
    experiment = make_experiment(repeats=1, duration=5, ramp_up=0, scale=5)
    experiment["plan"]["size"] = "small+xl"
    experiment["plan"]["variants"][0]["size"] = "xl"
    assert finish(Store.create(tmp_path / "results", experiment))["size"] == "xl"


def test_the_figures_are_those_of_the_program(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    trial = finish(store, timing={"reset_s": 1.5, "total_s": 9.0})
    assert trial["headline"] == {"metric": "tps", "value": 502.811548, "unit": "1/s", "better": "higher"}
    assert trial["metrics"]["tps"]["value"] == 502.811548
    assert trial["latency"]["average"] == 7.931
    assert trial["counts"]["processed"] == 2504
    assert trial["client"]["cpu_user_s"] == 0.4
    assert (trial["variant"], trial["repeat"], trial["position"], trial["workload"]) == ("base", 1, 1, "pgbench")
    assert trial["load_generator"]["version"] == "15.18"
    assert trial["timing"] == {"reset_s": 1.5, "total_s": 9.0}
    written = json.loads((store.trial_dir(TRIAL) / "trial.json").read_text(), parse_constant=pytest.fail)
    assert written == trial
    validate(written, "trial")
    assert store.experiment["journal"]["trials"][TRIAL]["verdict"] == trial["verdict"]


def test_the_series_joins_rate_and_samples_by_the_second(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    trial = finish(store)
    names = [c["name"] for c in trial["series"]["columns"]]
    assert names == ["elapsed_s", "tps", "latency_ms", "latency_stddev_ms", "failed", "cpu_user", "wal_bytes_per_s"]
    assert all(c["unit"] for c in trial["series"]["columns"])
    with open(store.trial_dir(TRIAL) / trial["series"]["path"], newline="") as stream:
        rows = {int(row["elapsed_s"]): row for row in csv.DictReader(stream)}
    assert list(rows) == [0, 1, 2, 3, 4, 5]
    assert (rows[3]["tps"], rows[3]["latency_ms"], rows[3]["cpu_user"], rows[3]["wal_bytes_per_s"]) == ("306.2", "12.928", "0.5", "")
    assert (rows[0]["tps"], rows[0]["wal_bytes_per_s"]) == ("", "1000")
    rates = sorted(float(row["tps"]) for row in rows.values() if row["tps"])
    assert trial["series"]["rate"] == {
        **{"name": "tps", "unit": "1/s", "n": 5, "interval_s": 1.0},
        **{"min": rates[0], "median": rates[2], "max": rates[-1]},
    }


def test_without_an_observer_there_is_the_rate_alone(tmp_path: Path) -> None:
    trial = finish(make_store(tmp_path), observation=None)
    assert [c["name"] for c in trial["series"]["columns"]][-1] == "failed"
    assert "not_checked" in {f["code"] for f in trial["findings"]}


def test_samples_that_were_lost_are_no_reason_to_fail(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    seen = observation(store.trial_dir(TRIAL))
    (store.trial_dir(TRIAL) / "raw/samples.csv").unlink()
    assert finish(store, observation=seen)["series"]["path"] == "series.csv"


def test_what_the_observer_could_not_see_is_told(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    seen = observation(store.trial_dir(TRIAL), problems=["server log: permission denied"])
    found = finish(store, observation=seen)["findings"]
    assert any(f["code"] == "not_checked" and "permission denied" in f["message"] for f in found)


def test_findings_of_all_sources_once_and_the_worst_decides(tmp_path: Path) -> None:
    unset = finding("settings_not_in_effect", "work_mem is 4MB, asked was 8MB")
    trial = finish(make_store(tmp_path), settings={**SETTINGS, "findings": [unset, unset]}, findings=[finding("resumed", "collected")])
    assert trial["verdict"] == "invalid"
    listed = [f["code"] for f in trial["findings"]]
    assert listed.count("settings_not_in_effect") == 1
    assert {"resumed", "closed_loop", "driver_on_server"} <= set(listed)


def test_a_trial_without_measurement_has_failed_and_is_judged_on_nothing_else(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    trial = trial_record.finish(store, TRIAL, None)
    assert trial["verdict"] == "failed"
    assert [f["code"] for f in trial["findings"]] == ["no_result"]
    assert trial["headline"] == {"metric": "tps", "value": None, "unit": None, "better": "higher"}
    assert trial["series"] is None
    assert store.experiment["journal"]["trials"][TRIAL]["message"] == "the trial left no measurement"


def test_the_reason_of_a_failure_stands_alone(tmp_path: Path) -> None:
    trial = trial_record.finish(make_store(tmp_path), TRIAL, {"findings": []}, findings=[finding("setup_failed", "Restart: no space left")])
    assert [(f["code"], f["severity"]) for f in trial["findings"]] == [("setup_failed", "failed")]


def test_an_interrupted_trial_can_be_run_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    part = measurement(rc=-15, stopped="request")
    part["findings"].append(finding("interrupted", "interrupted by signal 2"))
    trial = trial_record.finish(store, TRIAL, part, state="interrupted")
    assert trial["verdict"] == "aborted"
    assert store.experiment["journal"]["trials"][TRIAL]["state"] == "interrupted"
    assert store.trials()[0]["metrics"]["tps"]["value"] == 502.811548  # what there is, is kept


# environment and comparison ------------------------------------------------------------------------------------------------


def test_C080_server_and_driver_are_told_apart(tmp_path: Path) -> None:
    environment = finish(make_store(tmp_path))["environment"]
    assert (environment["server"]["machine_id"], environment["driver"]["machine_id"]) == ("a1", "b2")
    assert environment["postgres"] == {"version": "15.14", "non_default_settings": SETTINGS["non_default"], "initdb": {}}
    assert environment["seed"] == 20
    assert environment["collection"] == {"version": "0.1.0", "git_commit": None}


@pytest.mark.parametrize(
    ("server", "driver", "shared"),
    [
        ({"machine_id": "a1", "boot_id": "b1"}, {"machine_id": "a1", "boot_id": "b1"}, True),
        ({"machine_id": "a1", "boot_id": "b1"}, {"machine_id": "a1", "boot_id": "b2"}, False),  # copies of an image
        ({"machine_id": "a1", "boot_id": "b1"}, {"machine_id": "a2", "boot_id": "b1"}, False),  # containers, which stand for hosts
        ({"machine_id": None, "boot_id": None}, {"machine_id": None, "boot_id": None}, False),
    ],
)
def test_C080_two_names_of_one_machine(tmp_path: Path, server: dict[str, Any], driver: dict[str, Any], shared: bool) -> None:
    experiment = make_experiment(repeats=1, duration=5, ramp_up=0, scale=5)
    experiment["plan"]["where"]["driver_on_server"] = False
    trial = finish(Store.create(tmp_path / "results", experiment), hosts={"server": server, "driver": driver})
    assert ("driver_on_server" in {f["code"] for f in trial["findings"]}) is shared
    assert trial["comparison_key"]["driver_on_server"] is shared


@pytest.mark.parametrize(("boot", "fires"), [("b1", False), ("b2", True)])
def test_containers_on_one_kernel_see_each_others_work(tmp_path: Path, boot: str, fires: bool) -> None:
    """68 % busy, 50 % by the server: where both count the same CPUs, 3.5 points of the rest are the load generator's."""
    experiment = make_experiment(repeats=1, duration=5, ramp_up=0, scale=5)
    experiment["plan"]["where"]["driver_on_server"] = False
    store = Store.create(tmp_path / "results", experiment)
    seen = observation(store.trial_dir(TRIAL))
    seen["cpu"] |= {"busy_mean": 0.68, "server": 0.5}
    hosts = {"server": {"machine_id": "a1", "boot_id": "b1"}, "driver": {"machine_id": "a2", "boot_id": boot}}
    assert ("other_load" in {f["code"] for f in finish(store, hosts=hosts, observation=seen)["findings"]}) is fires


@pytest.mark.parametrize(
    ("instance_type", "model", "storage", "fires"),
    [
        ("r5n.xlarge", "Amazon Elastic Block Store", {"instance_baseline_iops": 6000, "instance_max_iops": 18750}, True),
        ("r5n.8xlarge", "Amazon Elastic Block Store", {"instance_baseline_iops": 30000, "instance_max_iops": 30000}, False),
        ("zz9.large", "Amazon Elastic Block Store", {"instance_baseline_iops": None, "instance_max_iops": None}, False),
        ("m6gd.large", "Amazon EC2 NVMe Instance Storage", None, False),
        (None, None, None, False),
    ],
)
def test_C088_own_hosts_on_ec2_are_held_against_what_their_instance_sustains(
    tmp_path: Path, instance_type: str | None, model: str | None, storage: dict[str, Any] | None, fires: bool
) -> None:
    store = make_store(tmp_path)
    hosts = {"server": {**HOSTS["server"], "instance_type": instance_type, "filesystems": {"data": {"model": model}}}}
    seen = observation(store.trial_dir(TRIAL), disk={"data": {"iops_p99": 9000.0, "reads_per_s": 4000.0, "writes_per_s": 1000.0}})
    trial = finish(store, hosts=hosts, observation=seen)
    assert trial["environment"]["storage"] == storage
    assert ("iops_burst" in {f["code"] for f in trial["findings"]}) is fires
    facts = dict(report_tables.facts(trial))
    sustains = "; the instance sustains 6,000; the instance takes at most 18,750" if fires else ""
    assert facts["IOPS of the data disk"].startswith("5,000 on average, 99 % of the time up to 9,000")
    assert facts["IOPS of the data disk"].endswith(sustains)


def test_of_an_existing_server_elsewhere_nothing_is_said_that_was_seen_here(tmp_path: Path) -> None:
    trial = finish(make_store(tmp_path, target="existing", login_host="db1"))
    environment = trial["environment"]
    assert environment["server"] is None
    assert environment["driver"]["hostname"] == "client"
    assert "cpu" not in environment["observation"]
    assert environment["observation"]["postgres"] == {"restarted": False}
    assert environment["driver_observation"]["cpu"]["cores"] == 4
    assert "cpu_user" not in [c["name"] for c in trial["series"]["columns"]]
    assert trial["comparison_key"]["driver_on_server"] is False
    assert trial["comparison_key"]["machine"]["cores"] is None
    assert trial["comparison_key"]["restart"] is False
    assert "driver_on_server" not in {f["code"] for f in trial["findings"]}


def test_the_comparison_key_of_two_repeats_is_the_same_and_changes_with_what_counts(tmp_path: Path) -> None:
    key = finish(make_store(tmp_path / "a"))["comparison_key"]
    assert key == finish(make_store(tmp_path / "b"))["comparison_key"]
    other = {**SETTINGS, "non_default": [{**SETTINGS["non_default"][0], "setting": "262144"}]}
    assert finish(make_store(tmp_path / "c"), settings=other)["comparison_key"] != key
    assert finish(make_store(tmp_path / "d", cache="warm"))["comparison_key"] == {**key, "cache": "warm"}
    reset = finish(make_store(tmp_path / "e", reset="none"))["comparison_key"]
    assert reset == {**key, "reset": "none"}


def test_C083_autovacuum_is_in_the_key_and_unknown_when_it_was_not_read(tmp_path: Path) -> None:
    off = {
        **SETTINGS,
        "non_default": [{"name": "autovacuum", "setting": "off", "unit": None, "text": "off", "source": "configuration file"}],
    }
    assert finish(make_store(tmp_path / "a"), settings=off)["comparison_key"]["autovacuum"] == "off"
    assert finish(make_store(tmp_path / "b"))["comparison_key"]["autovacuum"] == "on"
    unread = finish(make_store(tmp_path / "c"), settings={})["comparison_key"]
    assert (unread["autovacuum"], unread["settings"], unread["server_version"]) == (None, None, None)


def test_C082_the_window_is_compared_with_the_checkpoint_timeout_in_effect(tmp_path: Path) -> None:
    """The default of 300 s where nothing else was read; five seconds span no two cycles of it."""
    found = {f["code"]: f for f in finish(make_store(tmp_path))["findings"]}
    assert found["short_window"]["severity"] == "note"


@pytest.mark.parametrize(("told", "seen", "key"), [(True, False, True), (None, True, True), (None, None, None)])
def test_huge_pages_by_the_servers_word_else_by_what_was_seen(told: Any, seen: Any, key: Any, tmp_path: Path) -> None:
    store = make_store(tmp_path)
    observed = observation(store.trial_dir(TRIAL), huge_pages_in_use=seen)
    trial = finish(store, settings={**SETTINGS, "huge_pages_in_use": told}, observation=observed)
    assert trial["comparison_key"]["huge_pages"] is key


def test_C073_no_secret_in_the_artifacts(tmp_path: Path) -> None:
    store = make_store(tmp_path, target="existing", login_host="db1", login_password="hunter2!")
    finish(store)
    assert not [p for p in store.directory.rglob("*") if p.is_file() and b"hunter2!" in p.read_bytes()]


def test_find() -> None:
    assert trial_record.find([{"id": 1}, {"id": 2, "x": 3}], "id", 2) == {"id": 2, "x": 3}
    with pytest.raises(KeyError):
        trial_record.find([{"id": 1}], "id", 9)


def test_rates_of_a_workloads_own_stand_in_the_series(tmp_path: Path) -> None:
    left = measurement()
    left["progress_columns"] = [{"name": "nopm", "unit": "1/min"}]
    left["progress"] = [{**sample, "nopm": 100 * sample["elapsed_s"]} for sample in left["progress"][:2]] + left["progress"][2:]
    store = make_store(tmp_path)
    trial = trial_record.finish(store, TRIAL, left)
    assert trial["series"]["columns"][-1] == {"name": "nopm", "unit": "1/min"}
    with open(store.trial_dir(TRIAL) / trial["series"]["path"], newline="") as stream:
        assert [row["nopm"] for row in csv.DictReader(stream)] == ["100.0", "200.0", "", "", ""]


def test_a_trial_that_was_collected_has_what_was_known_at_its_start_unless_it_knows_better(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    trial_record.start(store, TRIAL, HOSTS, SETTINGS)
    assert finish(store, hosts=None, settings=None)["environment"]["server"] == HOSTS["server"]
    later = finish(store, hosts={"server": {"cores": 2}}, settings={**SETTINGS, "server_version": "15.15"})
    assert later["environment"]["server"] == {"cores": 2}
    assert later["environment"]["postgres"]["version"] == "15.15"


def test_C074_a_masked_field_is_a_finding_not_a_figure(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    left = measurement()
    left["metrics"] = {"tps": {"value": "********", "unit": "1/s", "better": "higher"}}
    setting = {"name": "checkpoint_timeout", "setting": "********", "unit": "s", "text": "5min", "source": "configuration file"}
    settings = {**SETTINGS, "non_default": [*SETTINGS["non_default"], setting]}
    trial = trial_record.finish(store, TRIAL, left, hosts={"server": {"hostname": "db-********"}}, settings=settings)
    assert trial["headline"]["value"] is None
    assert trial["environment"]["server"] == {"hostname": None}
    (found,) = (f for f in trial["findings"] if f["code"] == "masked")
    assert found["evidence"]["fields"] == [
        "trial.measurement.metrics.tps.value",
        "trial.hosts.server.hostname",
        "trial.settings.non_default[1].setting",
    ]
    assert trial["verdict"] == "failed"  # no headline, no result
    assert "********" not in (store.trial_dir(TRIAL) / "trial.json").read_text()
