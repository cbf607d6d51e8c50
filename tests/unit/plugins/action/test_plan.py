# GNU General Public License v3.0 or later (see LICENSE)
"""The action plan: where inputs come from, what is refused, what is written, how an experiment is taken up again."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.template import trust_as_template
from support import actions
from support.plan_site import make_experiment, make_site

from ansible_collections.pgsizing.bench.plugins.action import plan
from ansible_collections.pgsizing.bench.plugins.plugin_utils import command_line
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, validate

SIZES = {"local": {"description": "This machine", "profile": "local"}}


class Controller:
    """A controller: what stands on its command line, in its inventory and in the variables of the role."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.extra: dict[str, Any] = {}
        self.inventory: list[str] = []
        self.groups: dict[str, list[str]] = {}
        self.vars: dict[str, Any] = {}
        self.machine: dict[str, Any] = {}
        self.folder = folder
        self.action: Any = None
        for module in (plan, command_line):
            if hasattr(module, "load_extra_vars"):
                monkeypatch.setattr(module, "load_extra_vars", lambda _loader: self.extra)
        monkeypatch.setattr(plan.context, "CLIARGS", {"inventory": self.inventory})
        monkeypatch.setattr(plan.sites, "site", self._site)

    def _site(self, **known: Any) -> Any:
        return make_site(self.machine, known["inventory"])

    def run(self, check: bool = False, **inputs: Any) -> dict[str, Any]:
        inputs = {"results_dir": str(self.folder / "results"), **inputs}
        self.action = actions.make_action(plan, check, inputs=inputs, sizes=SIZES, profiles={})
        return self.action.run(task_vars={**self.vars, "groups": {"all": ["localhost"], **self.groups}})

    def store(self, result: dict[str, Any]) -> Store:
        return Store(result["pgsizing_experiment"]["dir"])

    def refused(self, **inputs: Any) -> str:
        with pytest.raises(AnsibleActionFail) as caught:
            self.run(**inputs)
        assert not (self.folder / "results").exists()
        return str(caught.value)


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Controller:
    return Controller(monkeypatch, tmp_path)


# what is written -----------------------------------------------------------------------------------------------------------


def test_the_experiment_is_written_before_anything_changes(controller: Controller) -> None:
    result = controller.run(clients=2)
    store = controller.store(result)
    experiment = store.experiment
    validate(experiment, "experiment")
    assert experiment["plan"]["variants"][0]["parameters"]["clients"] == 2
    assert experiment["experiment_id"].endswith("Z-local-tprocc")
    assert {t["state"] for t in experiment["journal"]["trials"].values()} == {"planned"}
    assert experiment["environment"]["controller"]["cores"] == 4
    assert result["changed"] is True
    fact = result["pgsizing_experiment"]
    assert result["ansible_facts"] == {"pgsizing_experiment": fact}
    assert fact["trials"] == ["01-base-r1", "02-base-r2", "03-base-r3"]
    assert fact["deadline"] > experiment["created"]
    assert fact["clusters"][0]["datasets"]
    assert fact["controller"]["pid"] > 0
    assert actions.displayed(controller.action).startswith(f"PLAN {experiment['experiment_id']}")
    json.dumps(result, allow_nan=False)


def test_check_mode_prints_and_writes_nothing(controller: Controller) -> None:
    result = controller.run(check=True)
    assert result["changed"] is False
    assert "pgsizing_experiment" not in result
    assert result["plan"]["trials"]
    assert "PLAN " in actions.displayed(controller.action)
    assert not (controller.folder / "results").exists()


def test_a_reproduction_is_named_after_the_published_run(controller: Controller) -> None:
    result = controller.run(reproduce="pgbench-shared-buffers-2023")
    assert result["pgsizing_experiment"]["id"].endswith("-pgbench-shared-buffers-2023")


def test_a_folder_that_cannot_be_written_is_said(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="results_dir: "):
        controller.run(results_dir=str(tmp_path / "file"))


def test_the_results_lie_where_the_user_stands(controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert controller.run(results_dir="mine")["pgsizing_experiment"]["dir"].startswith(f"{tmp_path}/mine/")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert controller.run(results_dir="~/mine")["pgsizing_experiment"]["dir"].startswith(f"{tmp_path}/home/mine/")


@pytest.mark.parametrize(("enabled", "noted"), [(list(plan.CALLBACKS), False), (["profile_tasks"], True), ([], True)])
def test_callbacks_that_are_off_are_a_note(
    enabled: list[str], noted: bool, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants.config, "get_config_value", lambda _name: enabled)
    codes = {f["code"] for f in controller.run(check=True)["plan"]["findings"]}
    assert ("callback_off" in codes) is noted


# where inputs come from ----------------------------------------------------------------------------------------------------


def test_the_command_line_wins_over_the_role(controller: Controller) -> None:
    controller.extra = {"clients": "8", "warehouses": "2", "our_ticket": "X-1"}
    parameters = controller.run(check=True, clients=2, duration=7)["plan"]["variants"][0]["parameters"]
    assert (parameters["clients"], parameters["warehouses"], parameters["duration"]) == (8, 2, 7)
    assert "our_ticket" in str(controller.action._display.v.call_args)


def test_an_empty_value_on_the_command_line_takes_the_roles_value_back(controller: Controller) -> None:
    controller.extra = {"profile": ""}
    assert controller.run(check=True, profile="none")["plan"]["variants"][0]["settings"][0]["origin"] == "profile local"


def test_foreign_variables_of_the_inventory_change_nothing(controller: Controller) -> None:
    """Short names count from the command line only: an ops repository has a size, a target and a seed of its own."""
    plain = controller.run(check=True)["plan"]
    controller.vars = {"size": "xxl", "target": "existing", "seed": "abc", "scale": 999, "clients": 999, "share_host": True}
    assert controller.run(check=True)["plan"] == plain


def test_values_of_the_command_line_may_be_templates(controller: Controller) -> None:
    controller.extra = {"clients": trust_as_template("{{ 2 * 8 }}"), "of_others": trust_as_template("{{ nosuch }}")}
    assert controller.run(check=True)["plan"]["variants"][0]["parameters"]["clients"] == 16


@pytest.mark.parametrize("name", ["postgres_bin_dirs", "postgres_keep", "postgres_os_user", "plan_own_sizes", "plan_clients", "trial_id"])
def test_variables_of_our_roles_are_no_near_misses(name: str, controller: Controller) -> None:
    controller.extra = {name: "x"}
    controller.run(check=True)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"sise": "xl"}, "sise: no such input; did you mean 'size'?"),
        ({"client": 4}, "client: no such input; did you mean 'clients'?"),
        ({"repeat": 4}, "repeat: no such input; did you mean 'repeats'?"),
        ({"sizes": ["a"]}, "sizes: no such input; did you mean 'size'?"),
        ({"plan_sise": "xl"}, "plan_sise: no such input; did you mean 'plan_size'?"),
        ({"site": "hq"}, """let through by -e '{"allow_vars": ["site"]}'"""),
    ],
)
def test_near_misses_are_refused(extra: dict[str, Any], said: str, controller: Controller) -> None:
    controller.extra = extra
    assert said in controller.refused()


@pytest.mark.parametrize("allowed", [["site"], "site", '["site"]', "[site, other]"])
def test_allow_vars_lets_a_name_through(allowed: Any, controller: Controller) -> None:
    controller.extra = {"site": "hq", "allow_vars": allowed}
    controller.run(check=True)
    controller.extra = {"site": "hq"}
    controller.run(check=True, allow_vars=allowed)


def test_every_reason_at_once(controller: Controller) -> None:
    controller.extra = {"sise": "xl", "clients": "many", "cache": "hot", "share_host": True}
    said = controller.refused(workload="pgbench", clint=3, repeats=0, storage_wipe=["/dev/sdb"], scripts=[{"file": "/nosuch.sql"}])
    for reason in (
        "nothing was changed; 7 reason(s)",
        "sise: no such input",
        "storage_wipe: counts only from the command line",
        "plan_parameters: clint: no such parameter; did you mean 'clients'?",
        "scripts: '/nosuch.sql' cannot be read",
        "repeats: 0 is too small",
        "cache: 'hot' is not one of",
        "clients: 'many' is not a whole number",
    ):
        assert reason in said, said


def test_what_endangers_a_host_counts_from_the_command_line_only(controller: Controller) -> None:
    assert "share_host: counts only from the command line: -e share_host=..." in controller.refused(share_host=True)
    controller.extra = {"share_host": "true"}
    assert controller.run(check=True)["plan"]["share_host"] is True
    controller.extra = {"plan_share_host": True}  # on the command line too, by the name of the role
    assert controller.run(check=True, share_host=True)["plan"]["share_host"] is True


def test_a_users_inventory_without_our_group(controller: Controller) -> None:
    controller.groups = {"all": ["web1", "db1"], "primary": ["db1"], "ungrouped": []}
    assert controller.run(check=True)["plan"]["where"]["provider"] == "local"  # /etc/ansible/hosts, or ours: nothing was given
    controller.inventory.append("ops/hosts.yml")
    assert "has no host in group pgsizing_server; its groups are: primary" in controller.refused()
    controller.inventory[:] = [str(plan.sites.ROOT / "inventories/local")]
    assert controller.run(check=True)["plan"]["where"]["provider"] == "local"


# scripts -------------------------------------------------------------------------------------------------------------------


def test_script_files_become_part_of_the_plan(controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.sql").write_text("SELECT 42;\n")
    monkeypatch.chdir(tmp_path)  # a path on the command line is relative to where the user stands
    controller.extra = {"scripts": '[{"file": "mine.sql", "weight": 3}]'}
    parameters = controller.run(check=True, workload="pgbench")["plan"]["variants"][0]["parameters"]
    assert parameters["scripts"] == [{"weight": 3, "sql": "SELECT 42;\n", "name": "mine.sql"}]
    controller.extra = {"variants": {"a": {}, "b": {"scripts": [{"file": "mine.sql"}]}}}
    variants = controller.run(check=True, workload="pgbench")["plan"]["variants"]
    assert variants[1]["parameters"]["scripts"][0]["sql"] == "SELECT 42;\n"


def test_scripts_that_are_no_list(controller: Controller) -> None:
    assert "scripts[0]: 'mine.sql' is not a mapping" in controller.refused(workload="pgbench", scripts=["mine.sql"])


# secrets -------------------------------------------------------------------------------------------------------------------


def test_C073_a_password_is_nowhere(controller: Controller) -> None:
    controller.extra = {"login_password": "s3cr3t-passphrase", "login_host": "db1", "target": "existing"}
    result = controller.run()
    store = controller.store(result)
    texts = [json.dumps(result), str(controller.action._display.mock_calls), *(p.read_text() for p in store.directory.rglob("*.json"))]
    assert not [text for text in texts if "s3cr3t" in text]
    assert store.experiment["plan"]["inputs"]["login_password"] == "given, not recorded"


def test_C073_a_password_file_is_used_as_it_is(controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passfile = tmp_path / "my.pgpass"
    monkeypatch.chdir(tmp_path)
    controller.extra = {"login_passfile": "my.pgpass", "login_host": "db1", "target": "existing"}
    assert f"login_passfile: there is no file {passfile}" in controller.refused()
    passfile.write_text("*:*:*:*:s3cr3t-passphrase\n")
    passfile.chmod(0o644)
    assert "can be read by others, so libpq ignores it; chmod 600" in controller.refused()
    passfile.chmod(0o600)
    assert controller.run()["pgsizing_experiment"]["login"]["passfile"] == str(passfile)


def test_C073_a_connection_string_is_refused_and_not_shown(controller: Controller) -> None:
    controller.extra = {"login_db": "postgresql://bench:s3cr3t@db1/app", "login_host": "db1", "target": "existing"}
    said = controller.refused()
    assert "login_db: this is a connection string" in said
    assert "s3cr3t" not in said


def test_C074_a_weak_password_is_warned_of(controller: Controller) -> None:
    controller.extra = {"login_password": "postgres", "login_host": "db1", "target": "existing"}
    controller.run(check=True)
    assert "short, a number or a common word" in controller.action._display.warning.call_args.args[0]


@pytest.mark.parametrize(("argument", "warned"), [("login_password=s3cr3t-passphrase", True), ("@secrets.yml", False)])
def test_a_password_on_the_command_line_is_warned_of(argument: str, warned: bool, controller: Controller) -> None:
    plan.context.CLIARGS["extra_vars"] = (argument,)
    controller.extra = {"login_password": "s3cr3t-passphrase", "login_host": "db1", "target": "existing"}
    controller.run(check=True)
    assert ("every user of this machine" in str(controller.action._display.warning.call_args)) is warned


# resume --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ended(controller: Controller) -> Store:
    """An experiment of which the first trial was measured and the second interrupted."""
    store = Store.create(controller.folder / "results", make_experiment())
    store.trial_state("01-base-r1", "finished", verdict="valid")
    store.trial_state("02-base-r2", "running")
    store.end("interrupted", "SIGINT")
    return store


@pytest.mark.parametrize("by", ["id", "path", "latest"])
def test_resume_runs_what_is_not_finished(by: str, controller: Controller, ended: Store) -> None:
    name = {"id": ended.directory.name, "path": f"{ended.directory}/", "latest": "latest"}[by]
    controller.extra = {"resume": name, "clients": "64"}
    result = controller.run()
    fact = result["pgsizing_experiment"]
    assert fact["trials"] == ["02-base-r2", "03-base-r3"]
    assert fact["id"] == Path(fact["dir"]).name == ended.directory.name
    assert result["plan"] == ended.experiment["plan"]  # nothing is planned again
    assert ended.experiment["journal"]["end"] is None
    assert fact["deadline"] == result["plan"]["deadline_s"] + ended.experiment["journal"]["resumed"][-1]
    said = actions.displayed(controller.action)
    assert f"resume {ended.directory.name}: 1 trial(s) done, 2 to go" in said
    assert "ignored, the plan stands: clients" in said


def test_resume_in_check_mode_changes_nothing(controller: Controller, ended: Store) -> None:
    before = ended.experiment
    assert controller.run(check=True, resume=ended.directory.name)["changed"] is False
    assert ended.experiment == before


def test_resume_of_an_unknown_id_lists_the_last_ones(controller: Controller, ended: Store) -> None:
    controller.extra = {"resume": "20200101T000000Z-nosuch"}
    with pytest.raises(AnsibleActionFail) as caught:
        controller.run()
    assert str(caught.value).endswith(
        f"no experiment '20200101T000000Z-nosuch' in {controller.folder}/results; the last are: {ended.directory.name}"
    )


def test_resume_without_any_results(controller: Controller) -> None:
    assert "the last are: none" in controller.refused(resume="x")


def test_resume_of_an_experiment_that_runs_is_refused(controller: Controller, ended: Store) -> None:
    with open(ended.directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(AnsibleActionFail, match="is running: its ansible-playbook has not ended"):
            controller.run(resume=ended.directory.name)
    assert ended.experiment["journal"]["end"]["state"] == "interrupted"


def test_a_password_is_no_ignored_input_of_a_resume(controller: Controller, ended: Store) -> None:
    controller.extra = {"resume": ended.directory.name, "login_password": "s3cr3t-passphrase"}
    controller.run()
    assert "ignored" not in actions.displayed(controller.action)


def test_a_typo_beside_resume_is_refused(controller: Controller, ended: Store) -> None:
    controller.extra = {"resume": ended.directory.name, "requier": "valid"}
    with pytest.raises(AnsibleActionFail, match="requier: no such input; did you mean 'require'"):
        controller.run()


def checked(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook in check mode as a user would."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "benchmark.yml", "--check", *words],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "ANSIBLE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("limit", ["db1", "all:!localhost"])
def test_a_limit_without_localhost_is_refused(limit: str, tmp_path: Path) -> None:
    """Every play would be skipped, with exit status 0 and nothing measured."""
    (tmp_path / "hosts.yml").write_text("pgsizing_server: {hosts: {db1: {ansible_connection: local}}}\n")
    done = checked(tmp_path, "-i", str(tmp_path / "hosts.yml"), "--limit", limit)
    assert done.returncode != 0
    assert "leaves out localhost, which plans, records and reports" in " ".join((done.stdout + done.stderr).split())


def test_C073_a_password_is_not_shown_at_any_verbosity(tmp_path: Path) -> None:
    """The whole way: command line, role, argument spec, action, callbacks. On a machine that is never connected to."""
    inputs = {"target": "existing", "login_host": "db1.invalid", "login_password": "s3cr3t-passphrase", "plan_login_password": "s3cr3t-too"}
    (tmp_path / "inputs.json").write_text(json.dumps(inputs))
    done = checked(tmp_path, "-vvvv", "-e", f"@{tmp_path}/inputs.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "target=existing: db1.invalid" in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr
