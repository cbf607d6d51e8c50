# GNU General Public License v3.0 or later (see LICENSE)
"""``playbooks/refresh_facts.yml`` against an emulated EC2 (moto) and a Price List of recorded shape, both on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "roles/plan/files"
PRICE_LIST = json.loads((REPOSITORY / "tests/fixtures/aws/price_list_eu-west-1.json").read_text())["PriceList"]
PUBLISHED = ("r5n.xlarge", "r5n.2xlarge", "r5n.4xlarge", "r5n.8xlarge", "m5n.xlarge", "m5d.2xlarge", "m6gd.2xlarge")
PAGE = 10


class PriceList(BaseHTTPRequestHandler):
    """GetProducts with TERM_MATCH filters and pages, as the Price List Query API answers."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
        assert asked["ServiceCode"] == "AmazonEC2"
        wanted = {f["Field"]: f["Value"] for f in asked["Filters"]}
        found = [e for e in PRICE_LIST if wanted.items() <= {**e["product"]["attributes"], **e["product"]}.items()]
        start = int(asked.get("NextToken", "0"))
        answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(e) for e in found[start : start + PAGE]]}
        if start + PAGE < len(found):
            answer["NextToken"] = str(start + PAGE)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="module")
def aws() -> Iterator[dict[str, str]]:
    """Give the environment in which boto3 finds both emulators and nothing else."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    prices = ThreadingHTTPServer(("127.0.0.1", 0), PriceList)
    threading.Thread(target=prices.serve_forever, daemon=True).start()
    yield {
        "AWS_ENDPOINT_URL_EC2": "http://{}:{}".format(*moto.get_host_and_port()),
        "AWS_ENDPOINT_URL_PRICING": f"http://127.0.0.1:{prices.server_port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    prices.shutdown()
    prices.server_close()
    moto.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a copy of the files that ship, with the facts of the published machines only."""
    shutil.copytree(SHIPPED / "prices", tmp_path / "files/prices")
    facts = json.loads((SHIPPED / "instances.json").read_text())
    facts["instances"] = {name: facts["instances"][name] for name in PUBLISHED}
    (tmp_path / "files/instances.json").write_text(json.dumps(facts))
    return tmp_path / "files"


def refresh(folder: Path, environment: dict[str, str], *arguments: str, **extra: Any) -> tuple[int, str]:
    given = json.dumps({"refresh_dest": str(folder), "refresh_regions": ["eu-west-1"], **extra})
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "playbooks/refresh_facts.yml", "-e", given, *arguments],
        cwd=REPOSITORY,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "ANSIBLE_"))},
            # No instance metadata, and no configuration of whoever runs the test.
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "ANSIBLE_NOCOLOR": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def content(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))}


def test_facts_and_prices_are_refreshed_in_the_shapes_that_ship(folder: Path, aws: dict[str, str]) -> None:
    code, output = refresh(folder, aws, refresh_instance_types=["r8g.xlarge"])
    assert code == 0, output
    files = content(folder)
    shipped = json.loads((SHIPPED / "instances.json").read_text())["instances"]
    facts = files["instances.json"]["instances"]
    assert set(facts) == {*PUBLISHED, "r8g.xlarge"}
    assert facts == {name: shipped[name] for name in facts}
    prices, before = files["prices/eu-west-1.json"], json.loads((SHIPPED / "prices/eu-west-1.json").read_text())
    assert prices["instances"] == {"m5d.2xlarge": 0.504, "m6gd.2xlarge": 0.4032, "r5n.xlarge": 0.334, "r5n.4xlarge": 1.336}
    assert prices["volumes"] == before["volumes"]
    assert prices.keys() == before.keys()
    assert files["prices/us-east-1.json"] == json.loads((SHIPPED / "prices/us-east-1.json").read_text())
    assert "r5n.8xlarge" in output  # no price: said

    code, output = refresh(folder, aws)
    assert code == 0, output
    assert "changed=0" in output
    assert content(folder) == files


def test_check_mode_shows_and_writes_nothing(folder: Path, aws: dict[str, str]) -> None:
    before = content(folder)
    code, output = refresh(folder, aws, "--check", "--diff")
    assert code == 0, output
    assert "changed=1" in output
    assert "+++ after: prices/eu-west-1.json" in output
    assert content(folder) == before


def test_without_credentials_nothing_changes_and_the_reason_is_said(folder: Path) -> None:
    before = content(folder)
    code, output = refresh(folder, {})
    assert code != 0
    assert "EC2 DescribeInstanceTypes in eu-west-1: Unable to locate credentials" in output
    assert content(folder) == before


def test_what_could_be_had_is_written_though_a_region_and_a_type_are_wrong(folder: Path, aws: dict[str, str]) -> None:
    code, output = refresh(folder, aws, refresh_regions=["eu-west-1", "eu-west-9"], refresh_instance_types=["r5n.huge"])
    assert code != 0
    assert "instance_types: eu-west-1 offers no r5n.huge" in output
    assert "prices/eu-west-9.json: the Price List has no instance in eu-west-9" in output
    assert not (folder / "prices/eu-west-9.json").exists()
    assert content(folder)["prices/eu-west-1.json"]["source"] == "AWS Price List API, published 2026-10-06"
