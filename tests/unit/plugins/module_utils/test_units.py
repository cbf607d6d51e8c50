# GNU General Public License v3.0 or later (see LICENSE)
"""Sizes and times as PostgreSQL reads them. ``tests/integration/test_gucs.py`` asks a real server the same."""

from __future__ import annotations

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import units
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, MIB, UnitError


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        ("24GB", "8kB", 3145728),
        ("4841216", "8kB", 4841216),
        ("1.5GB", "8kB", 196608),
        ("30.1GB", "kB", 30822 * 1024),  # rounded to whole MB first
        ("0.1kB", "B", 102),
        ("100kB", "8kB", 12),  # 12.5 blocks, half to even
        ("1TB", "MB", 1048576),
        ("1.5", "kB", 2),
        ("1e3", None, 1000),
        (".5kB", "B", 512),
        ("0x10", "kB", 16),
        ("010", "kB", 8),
        ("0600", None, 384),
        ("-1", "8kB", -1),
        (" 12 MB ", "kB", 12288),
        ("15min", "s", 900),
        ("0.5h", "s", 1800),
        ("1.5d", "min", 2160),
        ("2500us", "ms", 2),
        ("2147483647", "kB", 2147483647),
    ],
)
def test_integer_settings(text: str, base: str | None, value: int) -> None:
    assert units.to_base(text, base) == value


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        ("2ms", "ms", 2.0),
        ("500us", "ms", 0.5),
        ("0.0003s", "ms", 0),
        ("1.1", None, 1.1),
        ("1e-3", None, 0.001),
        ("0.1234", "ms", 0.1234),
        ("0x1.8", None, 1.5),
    ],
)
def test_real_settings(text: str, base: str | None, value: float) -> None:
    assert units.to_base(text, base, integer=False) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "base", "says"),
    [
        ("", "kB", "not a number"),
        ("lots", "kB", "not a number"),
        (" .5GB", "kB", "not a number"),  # strtol() takes no blank before a fraction, and neither does the server
        ("64Kb", "kB", "write 64kB"),
        ("64mb", "kB", "write 64MB"),
        ("64 gib", "kB", "write 64GB"),
        ("5sec", "s", "write 5s"),
        ("5m", "s", "write 5min"),
        ("5MB", "s", "units: us, ms, s, min, h, d"),
        ("5min", "kB", "units: B, kB, MB, GB, TB"),
        ("5kB", None, "without unit"),
        ("08", "kB", "unknown unit"),  # octal 0, then an 8
        ("2147483648", "kB", "range"),
        ("99999999999999999999", "kB", "range"),
        ("4TB", "kB", "range"),
    ],
)
def test_refused(text: str, base: str | None, says: str) -> None:
    with pytest.raises(UnitError, match=says):
        units.to_base(text, base)


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (3145728, "8kB", "24GB"),
        (4841216, "8kB", "37822MB"),
        (449536, "kB", "439MB"),
        (102400, "MB", "100GB"),
        (2097152, "MB", "2TB"),
        (1, "8kB", "8kB"),
        (2048, "B", "2kB"),
        (2049, "B", "2049B"),
        (900, "s", "15min"),
        (604800, "s", "7d"),
        (1001, "ms", "1001ms"),
        (0.5, "ms", "500us"),
        (2.0, "ms", "2ms"),
        (0.1234567, "ms", "0.1234567"),  # no unit holds it: base units, unrounded
        (-1, "8kB", "-1"),
        (0, "ms", "0"),
        (300, None, "300"),
        (0.9, None, "0.9"),
        (4.0, None, "4"),
    ],
)
def test_shortest_text_reads_back(value: float, base: str | None, text: str) -> None:
    assert units.from_base(value, base) == text
    assert units.to_base(text, base, integer=isinstance(value, int)) == value


@pytest.mark.parametrize("base", ["B", "kB", "8kB", "16kB", "MB", "ms", "s", "min"])
def test_no_digit_is_lost(base: str) -> None:
    for value in [*range(1, 200), 1023, 1024, 1025, 86399, 86400, 1048577, 3145728, 2147483646, 2147483647]:
        assert units.to_base(units.from_base(value, base), base) == value


@pytest.mark.parametrize(
    ("text", "size"), [("120GB", 120 * GIB), ("1.5GB", 1536 * MIB), ("512 MB", 512 * MIB), ("8kB", 8192), ("1TB", 2**40)]
)
def test_sizes_of_users(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1024", "needs its unit, for example 1024MB"),
        (1024, "needs its unit, for example 1024MB"),
        (True, "needs its unit"),
        (None, "needs its unit"),
        ("120gb", "write 120GB"),
        ("12Kb", "write 12kB"),
        ("1GiB", "write 1GB"),
        ("10min", "units: B, kB, MB, GB, TB"),
        ("-1GB", "negative"),
        ("big", "not a number"),
    ],
)
def test_sizes_of_users_are_strict(text: object, says: str) -> None:
    with pytest.raises(UnitError, match=says):
        units.parse_size(text)


def test_times_of_users() -> None:
    assert units.parse_time("5min") == 300
    assert units.parse_time("1.5h") == 5400
    assert units.parse_time("250ms") == 0.25
    with pytest.raises(UnitError, match="needs its unit, for example 90s"):
        units.parse_time("300")


@pytest.mark.parametrize(
    ("size", "text"), [(24 * GIB, "24GB"), (4841216 * 8192, "36.9GB"), (25112345600, "23.4GB"), (1536, "1.5kB"), (17, "17B"), (0, "0B")]
)
def test_sizes_in_sentences(size: int, text: str) -> None:
    assert units.human_size(size) == text


def test_c040_megabytes_are_mebibytes() -> None:
    """A memory fact in MiB stays what it is; 1.048576 appears nowhere."""
    fact = 31495
    assert units.to_base(f"{fact}MB", "MB") == fact
    assert units.parse_size(f"{fact}MB") == fact * 2**20
    assert units.format_size(fact * MIB) == "31495MB"
    assert units.to_base("4352MB", "8kB") == 557056  # what the published run shows
    assert units.from_base(557056, "8kB") == "4352MB"


@pytest.mark.parametrize("text", ["1e400GB", "1e308TB", "0x1p99999GB", "9" * 5000 + "GB"])
def test_what_is_larger_than_any_number_is_said_so(text: str) -> None:
    with pytest.raises(UnitError, match="larger than any number"):
        units.parse_size(text)
    for integer in (True, False):
        with pytest.raises(UnitError):
            units.to_base(text, "kB", integer=integer)
