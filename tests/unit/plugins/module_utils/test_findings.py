# GNU General Public License v3.0 or later (see LICENSE)
"""The table of findings, and the verdict that the worst of them decides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, SEVERITIES, VERDICTS, finding, verdict, worst

PLUGINS = Path(__file__).parents[4] / "plugins"


@pytest.mark.parametrize(
    ("codes", "decided"),
    [
        ([], "valid"),
        (["closed_loop", "no_restart"], "valid"),
        (["closed_loop", "stall"], "suspect"),
        (["stall", "failed_transactions", "drift"], "invalid"),
        (["failed_transactions", "clients_aborted"], "aborted"),
        (["clients_aborted", "no_result", "stall"], "failed"),
    ],
)
def test_the_worst_decides(codes: list[str], decided: str) -> None:
    assert verdict([finding(code, "x") for code in codes]) == decided


def test_the_first_of_the_worst_is_the_reason() -> None:
    found = [finding(code, code) for code in ("closed_loop", "stall", "zero_result", "elapsed_short", "drift")]
    assert worst(found) == found[2]
    assert worst(found[:1]) is None
    assert worst([]) is None


def test_a_finding_has_its_fixed_severity() -> None:
    assert finding("stall", "no rate for 4 s", seconds=4.0) == {
        "code": "stall",
        "severity": "suspect",
        "message": "no rate for 4 s",
        "evidence": {"seconds": 4.0},
    }


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(KeyError):
        finding("nosuch", "x")


@pytest.mark.parametrize("code", RULES)
def test_table(code: str) -> None:
    rule = RULES[code]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", code)
    assert rule.severity in SEVERITIES
    assert rule.meaning
    assert not rule.meaning.endswith(".")


def test_severities_and_verdicts_go_together() -> None:
    assert SEVERITIES[1:] == VERDICTS[1:]


def test_every_code_that_is_used_is_in_the_table() -> None:
    used = {
        code
        for path in PLUGINS.rglob("*.py")
        for code in re.findall(r"""\bfinding\(\s*["']([a-z0-9_]+)["']""", path.read_text(encoding="utf-8"))
    }
    assert used - set(RULES) == set()
