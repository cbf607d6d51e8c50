# GNU General Public License v3.0 or later (see LICENSE)
"""Sizing on paper, by the commands a user types: no credentials, no network, nothing is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.e2e import Place

SIZE, EXPLAIN = "playbooks/size.yml", "playbooks/explain.yml"
OWN_SIZE = {
    "plan_own_sizes": {
        "mine": {
            "instance_type": "r6i.2xlarge",
            "volumes": {"root": {"type": "gp3", "size": "20GB"}, "data": {"type": "gp3", "size": "200GB", "iops": 6000}},
            "profile": "lean",
        }
    }
}
OWN_PROFILE = {"plan_own_profiles": {"lean": {"shared_buffers": "16GB"}}}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("small", ["r5n.xlarge: 4 vCPU (2 cores), 32GB memory", "max_wal_size = 50GB", "2.509 USD an hour"]),
        ("medium", ["r5n.2xlarge: 8 vCPU (4 cores), 64GB memory", "max_wal_size = 100GB", "2.807 USD an hour"]),
        ("large", ["r5n.4xlarge: 16 vCPU (8 cores), 128GB memory", "max_wal_size = 200GB", "3.403 USD an hour"]),
        ("xl", ["r5n.8xlarge: 32 vCPU (16 cores), 256GB memory", "max_wal_size = 400GB", "8.156 USD an hour", "30,000 are paid for"]),
    ],
)
def test_a_size_is_planned_in_check_mode(fresh: Place, size: str, said: list[str]) -> None:
    run = fresh.run(f"size={size}", "--check")
    always = ["estimate about", "of disk", "budget_usd = 50", "from profile as_intended", "findings", "trials 3"]
    assert [text for text in (*said, *always) if text not in run.words] == [], run.output
    assert "WARNING" not in run.output
    assert fresh.snapshot() == {}


def test_without_check_mode_it_is_refused_after_the_plan_was_shown(fresh: Place) -> None:
    run = fresh.run("size=small", rc=None)
    assert run.output.index("PLAN ") < run.output.index("fatal: ")
    assert "provisioning on AWS is not part of this version" in run.words
    assert fresh.snapshot() == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["size=xl", "budget_usd=0.5"], "budget: the estimate of"),
        (["size=xl", "region=ap-south-1"], "cost: no price is known for everything in ap-south-1"),
        (["size=xxl"], "size: 'xxl' is not one of local, small, medium, large, xl"),
        (["spec=published/specs/huge.json"], "spec: 'published/specs/huge.json' cannot be read"),
        (["size=small", "profile=as_intendet"], "did you mean 'as_intended'?"),
    ],
)
def test_what_may_not_be_is_refused_in_check_mode_too(fresh: Place, options: list[str], said: str) -> None:
    run = fresh.run(*options, "--check", rc=None)
    assert said in run.words
    assert run.output.count("fatal: ") == 1


def test_an_unknown_price_can_be_accepted(fresh: Place) -> None:
    run = fresh.run("size=xl", "region=ap-south-1", "accept_unknown_cost=true", "--check")
    assert "not known; at least 0.00 USD" in run.words


def test_a_specification_describes_the_hardware(fresh: Place) -> None:
    run = fresh.run("spec=published/specs/small.json", "--check")
    assert "server r5n.xlarge" in run.words
    assert "iops 2500 was dropped: not a parameter of gp2" in run.words


def test_an_own_size_and_an_own_profile_are_one_entry_each(fresh: Place) -> None:
    run = fresh.run("size=mine", OWN_SIZE, OWN_PROFILE, "--check")
    assert "server r6i.2xlarge: 8 vCPU (4 cores), 64GB memory" in run.words
    assert "shared_buffers = 16GB profile lean" in run.words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], ["large: r5n.4xlarge", "not shown", "270,483 measured", "68,499 shown for your case, by the smaller small"]),
        (
            ["working_set=80GB"],
            ["large: r5n.4xlarge", "<- recommended", "headroom 35%", "4,500 used of 30,000 provisioned", "iops 1,300.00"],
        ),
        (["working_set=80GB", "region=eu-west-1"], ["prices eu-west-1", "compute 975.28"]),
    ],
)
def test_the_question_of_the_first_seed(fresh: Place, options: list[str], said: list[str]) -> None:
    run = fresh.run("need_nopm=200000", "database_size=300GB", *options, playbook=SIZE)
    assert [text for text in (*said, "xl: r5n.8xlarge", "how sure is this", "one run each") if text not in run.words] == [], run.output


def test_a_question_that_is_wrong_gets_every_reason(fresh: Place) -> None:
    run = fresh.run("need_nopn=200000", "database_size=300", "working_set=-1GB", playbook=SIZE, rc=None)
    for text in ("did you mean 'need_nopm'?", "need_nopm: not given", "database_size: '300': a size needs its unit", "cannot be negative"):
        assert text in run.words


def test_every_row_of_a_profile_is_explained(fresh: Place) -> None:
    run = fresh.run("size=small", "profile=as_published", playbook=EXPLAIN)
    said = [
        "PROFILE as_published for size small (r5n.xlarge: 4 vCPU, 32GB memory)",
        "shared_buffers = 24GB why",
        "effective_cache_size = 4352MB why",
        "instead as_intended: 4GB",
        "wal_keep_segments (now wal_keep_size) = 160MB",
        "primary_slot_name = primary1 why",
        "exists in EPAS only",
    ]
    assert [text for text in said if text not in run.words] == [], run.output
    assert run.output.count("        why ") == 70


def test_the_answers_are_data_too(fresh: Place) -> None:
    playbook = fresh.root / "run-answers.yml"
    holds = ["plan_answer.answer.recommended == 'large'", "plan_answer.answer.sizes[0].headroom | round(2) == 0.35"]
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.include_role": {"name": "pgsizing.bench.plan", "tasks_from": "size.yml"}},
        {"ansible.builtin.assert": {"that": holds}},
    ]
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    run = fresh.run("need_nopm=200000", "database_size=100GB", playbook=str(playbook))
    assert "failed=0" in run.words
