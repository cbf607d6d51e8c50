# GNU General Public License v3.0 or later (see LICENSE)
"""What pgbench prints, from 8.x to 19-devel, as data.

Lines are known by their key, never by their number or place, so that stdout and stderr may come merged, in any order,
with a prefix on each line (a host, a time stamp, a quotation mark). A figure that is not printed is ``None``: never 0,
never copied from another field. What is not understood is kept in ``unparsed``.

Sources: ``pgbench.c`` of each major version, and captures of 13 to 18 (tests/fixtures/pgbench).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

#: At most this many lines of each kind are kept; the counts beside them are of all.
KEEP_LINES = 50

EXCLUDING = "excluding connections establishing"
INCLUDING = "including connections establishing"
WITHOUT_INITIAL = "without initial connection time"
RECONNECTING = "including reconnection times"

BUILTINS = ("tpcb-like", "simple-update", "select-only")

# numbers ---------------------------------------------------------------------------------------------------------------

#: Digits, grouped by one kind of thousands separator or not at all, and a decimal point. Nothing that goes on as a
#: number may follow: ``85,184871`` and ``1.234.567`` and ``31,900  43,800`` are no number, not a part of one.
_NUMBER = re.compile(
    r"(?P<figure>[1-9]\d{0,2}(?P<sep>[,'\u2019 \u00a0\u202f])\d{3}(?:(?P=sep)\d{3})*(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?=ms\b|s\b|[^\w.,'\u2019\s]|\s+[^\s\d]|\s*$|[.,]\s*$|,\s+[^\s\d])"
)
_NOT_A_NUMBER = re.compile(r"[-+]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: More digits than any figure has: such a run of them is damage, and Python would refuse it.
_ENDLESS = re.compile(r"\d{301,}")


def clean(line: str) -> str:
    """Return a line without colours of a terminal and without endless numbers, so that it can be read or left alone."""
    return _ENDLESS.sub("…", _ESCAPES.sub("", line))


def number(text: str) -> float | int | None:
    """Return the number that ``text`` is, thousands separators accepted (``31,900``), else ``None``.

    A decimal comma is not guessed: ``2035,79`` is ``None``. NaN and infinity are ``None``.
    """
    text = clean(text).strip()
    found = _NUMBER.match(text)
    return _value(found) if found and found.end() == len(text) else None


def decimal(text: str) -> float | int | None:
    """Return the number that ``text`` is, where the program prints decimals: ``117,390`` may be either of two, so it is ``None``.

    With its decimal point a figure may have thousands separators (``1,009.146``), and without one it has none (``12``).
    """
    value = number(text)
    return value if isinstance(value, float) or text.strip().isdigit() else None


def _value(found: re.Match[str]) -> float | int:
    figure = found["figure"].replace(found["sep"], "") if found["sep"] else found["figure"]
    return float(figure) if "." in figure else int(figure)


def _take(text: str) -> tuple[bool, float | int | None, str]:
    """Return ``(understood, number at the start of text, the rest)``; NaN is understood and ``None``."""
    found = _NUMBER.match(text)
    if found:
        return True, _value(found), text[found.end() :]
    found = _NOT_A_NUMBER.match(text)
    return (True, None, text[found.end() :]) if found else (False, None, text)


# versions --------------------------------------------------------------------------------------------------------------

_PROGRAM = re.compile(r"\((?P<engine>PostgreSQL|EnterpriseDB|[^()]*)\)\s+(?P<rest>\d.*)$")
_VERSION = re.compile(r"(?P<major>\d+)(?:\.(?P<second>\d+))?(?:\.(?P<third>\d+))?(?P<stage>devel|(?:alpha|beta|rc)\d+)?")


def parse_version(text: str) -> dict[str, Any] | None:
    """Parse the output of ``pgbench --version``, or a bare version such as a banner or ``server_version`` holds.

    ``pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`` →
    ``{engine: "PostgreSQL", version: "15.18", major: "15", num: 150018, stage: None, package: "Debian 15.18-0+deb12u1"}``.
    ``num`` is as ``server_version_num``; a development, beta or release candidate version counts as minor 0. ``None``
    when there is no version.
    """
    lines = [clean(line).strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        program = _PROGRAM.search(line)
        rest = program["rest"] if program else line
        found = _VERSION.match(rest)
        if not found:
            continue
        major, second, third = int(found["major"]), int(found["second"] or 0), int(found["third"] or 0)
        old = major < 10  # 9.6.24: two numbers name the major version
        package = re.search(r"\((.*)\)\s*$", rest[found.end() :])
        return {
            "engine": program["engine"] if program else None,
            "version": found.group(0),
            "major": f"{major}.{second}" if old else str(major),
            "num": major * 10000 + (second * 100 + third if old else second),
            "stage": found["stage"],
            "package": package[1] if package else None,
        }
    return None


def _bare(version: str) -> str:
    parsed = parse_version(version)
    return parsed["version"] if parsed else version.strip()


# lines -----------------------------------------------------------------------------------------------------------------

_LABELS = {
    "transaction type": "transaction_type",
    "scaling factor": "scale",
    "partition method": "partition_method",
    "partitions": "partitions",
    "query mode": "protocol",
    "number of clients": "clients",
    "number of threads": "threads",
    "maximum number of tries": "max_tries",
    "number of transactions per client": "transactions_per_client",
    "duration": "duration_s",
    "number of transactions actually processed": "processed",
    "number of processed transactions": "processed",  # up to 8.2
    "number of failed transactions": "failed",
    "number of serialization failures": "serialization_failures",
    "number of deadlock failures": "deadlock_failures",
    "number of other failures": "other_failures",  # 19, with --continue-on-error
    "number of transactions retried": "retried",
    "total number of retries": "retries",
    "number of transactions skipped": "skipped",
    "latency average": "latency_average_ms",
    "latency stddev": "latency_stddev_ms",
    "initial connection time": "initial_connection_ms",
    "average connection time": "average_connection_ms",
    "tps": "tps",
}
_HEAD = (
    "transaction_type",
    "scale",
    "partition_method",
    "partitions",
    "protocol",
    "clients",
    "threads",
    "max_tries",
    "transactions_per_client",
    "duration_s",
)
_COUNTS_WITH_SHARE = ("failed", "serialization_failures", "deadlock_failures", "other_failures", "retried", "skipped")
_MILLISECONDS = ("latency_average_ms", "latency_stddev_ms", "initial_connection_ms", "average_connection_ms")

_LINE = re.compile(
    r"(?P<prefix>.*?)(?<![\w.])(?P<dash>- )?(?P<label>"
    + "|".join(sorted(map(re.escape, _LABELS), key=len, reverse=True))
    + r")\s*(?P<sign>[:=])\s*(?P<rest>\S.*)"
)
_LATE = re.compile(r"number of transactions above the (?P<limit>[\d.]+) ms latency limit: (?P<rest>\S.*)")
_LAG = re.compile(r"rate limit schedule lag: avg (?P<average>\S+) \(max (?P<max>[^)\s]+)\) ms")
_BANNER = re.compile(r"(?<![\w/])pgbench \((?P<inside>\d.*)\)\s*$")
_BY_ITSELF = re.compile(r"(?<![\w/])pgbench \((?:PostgreSQL|EnterpriseDB)\) \d.*")
_SCRIPT = re.compile(r"SQL script (?P<number>\d+): (?P<name>.+)")
_WEIGHT = re.compile(r"\s*- weight: (?P<weight>\d+)")
_SHARE = re.compile(r"\s*- (?P<count>\S+) transactions \((?P<share>\S+)% of total(?:, tps = (?P<tps>[^\s)]+))?\)")
_TABLE = re.compile(r"statement latencies in milliseconds(?P<columns>| and failures|, failures and retries)(?:, file (?P<file>\d+))?:$")
_TABLE_COLUMNS = {"": 1, " and failures": 2, ", failures and retries": 3}
_ROWS = {n: re.compile(r"\s*(\d+\.\d{3,6}|-?(?i:nan))" + r"\s+(\d+)" * (n - 1) + r"(?:\s+(\S.*))?$") for n in (1, 2, 3)}
_WORDS = re.compile(r"\s*[(\uff08](?P<words>[^)\uff09]*)[)\uff09]")
_EXIT = re.compile(r"\[process exit status -?\d+\]\s*$")

# on stderr
_PROGRAM_LINE = re.compile(r"(?:.*[/\\\s])?pgbench(?:\.exe)?: (?:(?P<level>fatal|error|warning|hint|detail): )?(?P<text>.*)")
_CLIENT_ABORTED = re.compile(r"[Cc]lient (?P<client>\d+)(?: script (?P<script>\d+))? aborted\b(?P<rest>.*)")
_CONNECTION = re.compile(r"[Cc]onnection to (?:server|database)\b.*failed|could not connect to server|could not create connection for ")
_ANSWERED = re.compile(r"failed:\s+\S+\s?:  \S")  # the server's severity, in whatever language, follows: it is there and refused
_NO_CONNECTION_FOR = re.compile(r"could not create connection for client (\d+)")
_RUN_ABORTED = re.compile(r"Run was aborted[;\s]")
_SCALE_IGNORED = re.compile(r"scale option ignored, using count from pgbench_branches table \((\d+)\)")
_OPTION_ERROR = re.compile(r"(?:unrecognized|invalid|unknown) option|option .*(?:requires|allow|ambiguous)", re.IGNORECASE)
_VERBOSE = re.compile(r"client \d+ (?:got an error in command|repeats the transaction|ends the failed transaction|continues past)")
#: A server's message through libpq: severity in the language of lc_messages, a colon, two blanks.
_SERVER_MESSAGE = re.compile(r"[^\W\d_][^:]{1,30}:  \S")
_SERVER_DETAIL = re.compile(r"(?:DETAIL|HINT|CONTEXT|QUERY|STATEMENT|LOCATION|LINE \d+)\s?: |\s+\^|\t")
_LOST = re.compile(
    r"backend died|server closed the connection|no connection to the server|could not (?:receive|send) data|SSL SYSCALL"
    r"|SSL connection has been closed|while establishing connection|command send failed|failed to send"
)
#: Severities that end a session; in other languages the loss shows by the other clients' messages, or not at all.
_SESSION_ENDED = re.compile(r"(?:FATAL|PANIC|ВАЖНО|ПАНИКА|致命\S*|치명\S*)\s?:  ")
_NOISE = re.compile(r"starting vacuum|end\.$|setting random seed|\(ignoring this error|script statistics:|Password:")


#: A text of several lines as the value of a key in JSON, and the list of its lines that Ansible prints beside it.
_JSON_TEXT = re.compile(r'"\w+"\s*:\s*("(?:[^"\\]|\\.)*?\\n(?:[^"\\]|\\.)*")')
_JSON_LINES = re.compile(r'"\w+_lines"\s*:\s*\[(?:\s*"(?:[^"\\]|\\.)*",?)*\s*\]')


def unfolded(text: str) -> str:
    """Return ``text`` with what a runner wrote as one text of JSON (``"stdout": "…\\n…"``) taken apart into its lines."""
    if not _JSON_TEXT.search(text):
        return text
    return _JSON_TEXT.sub(lambda found: f"\n{_unquoted(found[1][1:])}\n", _JSON_LINES.sub("", text))


def _split(text: str) -> list[str]:
    """Split into lines as a terminal would show them."""
    return [clean(line).rstrip() for line in re.split(r"\r\n|\n|\r", unfolded(text))]


#: Names of days, months and time zones, which change or say nothing of where a line comes from.
_CALENDAR = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|UTC|GMT|CES?T|[AP]M)", re.IGNORECASE
)
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def _source(text: str) -> tuple[str, ...]:
    """Return the words of a prefix that say where the line comes from: all but numbers and times."""
    words = [word.strip("[]<>(){}|:,'\"") for word in text.split()]
    return tuple(word for word in words if (word[:1].isalpha() and not _CALENDAR.fullmatch(word)) or _ADDRESS.fullmatch(word))


def _sources(lines: Sequence[str]) -> list[list[str]]:
    """Part the lines of several hosts, each of which put its name before its lines, where they stand among each other."""
    labels: dict[tuple[str, ...], set[str]] = {}
    turns: list[tuple[str, ...]] = []
    for line in lines:
        found = _LINE.match(line)
        if found and not found["dash"]:
            source = _source(found["prefix"])
            labels.setdefault(source, set()).add(found["label"])
            turns += [source] if turns[-1:] != [source] else []
    if len(labels) < 2 or () in labels or len(turns) <= len(labels) or len(set.intersection(*labels.values())) < 3:
        return [[*lines]]
    parts: dict[tuple[str, ...], list[str]] = {source: [] for source in labels}
    of = turns[0]
    for line in lines:
        words = _source(line)
        of = next((source for source in labels if words[: len(source)] == source), of)
        parts[of].append(line)
    return [*parts.values()]


def _lines(lines: Sequence[str]) -> list[str]:
    """Take off a common prefix, and the quotes of a JSON list."""
    shapes: Counter[str] = Counter()
    for line in lines:
        found = _LINE.match(line) or _PROGRESS.match(line)
        if found and not found.groupdict().get("dash") and "% of total" not in line:
            shapes[re.sub(r"\d+", "0", found["prefix"])] += 1
    if not shapes:
        return [*lines]
    shape, count = shapes.most_common(1)[0]
    if not shape or count * 2 <= sum(shapes.values()) or (count < 3 and _ends_in_a_word(shape)):
        return [*lines]
    prefix = re.compile(re.escape(shape).replace("0", r"\d+"))
    quoted = shape.endswith('"')
    result = []
    for line in lines:
        found = prefix.match(line)
        # a blank of the prefix may have been cut from an otherwise empty line
        stripped = line[found.end() :] if found else ("" if prefix.match(line + " ") else line)
        result.append(_unquoted(stripped) if quoted and found else stripped)
    return result


def _ends_in_a_word(prefix: str) -> bool:
    """Whether what stands before a key belongs to a sentence, as in ``invalid number of clients: …``."""
    return prefix.rstrip()[-1:].isalpha()


def _unquoted(line: str) -> str:
    line = re.sub(r'",?$', "", line)
    try:
        return str(json.loads(f'"{line}"'))
    except ValueError:
        return line


# the basis of a tps figure ------------------------------------------------------------------------------------------------

_ENGLISH = {"excluding": "out", "without": "out", "including": "in", "with": "in"}
#: Words for "without" and "with" in translations of published output. A word of the first list may hold one of the second.
_TRANSLATED = {
    "out": (
        r"제외|미포함|없이|不包括|不包含|不含|没有|沒有|排除|除去|除外|除く|除い|含まない|含めない|なし|ない",
        r"\bohne\b|ausschlie|ausgenommen|exklusive|\bsans\b|\bhors\b|exclu|\bsin\b|\bsem\b|\bsenza\b|esclu|\bбез\b|исключ",  # noqa: RUF001
        r"không bao gồm|\bbez\b|wyłącz|wykluc|hariç|olmadan|\bzonder\b",
    ),
    "in": (
        r"포함|包括|包含|含む|含め|込み",
        r"\bmit\b|einschlie|inklusive|\bavec\b|compris|inclu|\bcon\b|\bcom\b|compres|включ|учётом|учетом",
        r"bao gồm|włącz|łącznie|dahil|\bmet\b",
    ),
}
#: Words for "not" that turn such a word into its opposite (``non compris``, ``no incluye``, 포함하지 않음).
_NOT = re.compile(r"\b(?:not|no|non|não|nao|nicht|niet|nie|не|pas|ikke|inte|değil|안)\b|않|아니|불_|[未没沒不]", re.IGNORECASE)
_INITIAL = re.compile(
    r"initial|초기|初始|初期|최초|最初|anfäng|inicial|iniziale|początk|\bilk\b|ban đầu|начальн|первоначальн", re.IGNORECASE
)
_AGAIN = re.compile(r"re-?conn|재연결|재접속|重新|重连|再接続|erneut|wiederverb|переподключ|повторн|reconex|riconn", re.IGNORECASE)


def tps_basis(words: str) -> tuple[str | None, bool]:
    """Return ``(basis, translated)`` for the words in parentheses after a tps figure.

    Basis is one of ``EXCLUDING``, ``INCLUDING``, ``WITHOUT_INITIAL``, ``RECONNECTING``, or ``None`` when the words are
    not known or contradict each other: a figure is never filed by its place in the text.
    """
    known = {_ENGLISH[w] for w in re.findall(r"[a-z]+", words.lower()) if w in _ENGLISH}
    translated = not known
    if translated:
        lower = words.lower()
        for side, patterns in _TRANSLATED.items():
            lower, found = re.subn("|".join(patterns), "_", lower)
            known |= {side} if found else set()
        if _NOT.search(lower):
            return None, True
    elif "connect" not in words.lower() or re.search(r"\bnot\b", words.lower()):
        return None, False
    if len(known) != 1:
        return None, False
    if known == {"out"}:
        return (WITHOUT_INITIAL if _INITIAL.search(words) else EXCLUDING), translated
    return (RECONNECTING if _AGAIN.search(words) else INCLUDING), translated


# the final report ---------------------------------------------------------------------------------------------------------


_REPORT = """
client_version server_version generation transaction_type builtin scale partition_method partitions protocol clients threads
max_tries duration_s transactions_per_client processed planned failed failed_pct serialization_failures deadlock_failures
other_failures retried retried_pct retries skipped skipped_pct late late_pct latency_limit_ms latency_average_ms
latency_stddev_ms latency_basis lag_average_ms lag_max_ms tps tps_basis tps_including tps_excluding tps_reconnecting
initial_connection_ms average_connection_ms banner scale_from_table exit_status first_error
""".split()  # noqa: SIM905
_SCRIPT_FIELDS = """
weight weight_pct transactions share_pct processed tps failed failed_pct serialization_failures deadlock_failures
other_failures retried retried_pct retries skipped skipped_pct latency_average_ms latency_stddev_ms
""".split()  # noqa: SIM905
_LISTS = ("scripts", "statements", "errors", "warnings", "server_messages", "unparsed")


def _empty_report() -> dict[str, Any]:
    counts = {"clients_aborted": 0, "unparsed_lines": 0}
    flags = {"has_report": False, "aborted": False, "low_detail": False, "translated": False}
    return {**dict.fromkeys(_REPORT), **flags, **counts, **{name: [] for name in _LISTS}}


def _empty_script(index: int, name: str) -> dict[str, Any]:
    return {"index": index, "name": name, "builtin": builtin_of(name), **dict.fromkeys(_SCRIPT_FIELDS)}


def builtin_of(name: str) -> str | None:
    """Return the builtin script that a report means by ``name`` (9.5 and before wrote it without ``<builtin: …>``)."""
    words = re.sub(r"^<builtin:\s*|>$", "", name.strip()).strip().lower()
    return {
        "tpc-b (sort of)": "tpcb-like",
        "simple update": "simple-update",
        "update only pgbench_accounts": "simple-update",
        "update only accounts": "simple-update",
        "select only": "select-only",
    }.get(words)


def parse_report(text: str, exit_status: int | None = None) -> dict[str, Any]:
    """Return everything that the final report and the messages around it say.

    ``text``: stdout, stderr or both, of one run; with several reports in it ``ValueError`` (use ``parse_reports``).
    ``exit_status``: of the program, where known.

    Figures (``None`` when not printed): those of the report, under names with their unit. ``tps`` is the headline: the
    figure whose clock starts when connections stand (``tps_basis`` says in which words), or, with a connection per
    transaction, the one that includes them; a figure that only says "including" is ``tps_including`` and no headline.
    ``latency_basis`` is ``"including failures"`` where pgbench says so. ``scripts``: one dict per script, ``index`` from 0
    as in the log; ``processed`` counts successes, ``transactions`` also failed and skipped ones. ``statements``:
    ``{script, latency_ms, failures, retries, text}`` of ``-r``. ``errors``: ``{kind: client|connection|program, client,
    script, command, text, detail, lost, answered}``: ``lost`` when the connection went away, ``answered`` when the server was there
    and refused. ``aborted``: a client gave up, whatever the exit status (up to 11 it is 0). ``scale_from_table``: the count
    of branches that replaced an asked-for scale. ``generation``: ``8.x``, ``9.5-``, ``9.6-13`` or ``14+``, from the wording alone.
    ``low_detail``: a figure without the fields that present versions print around it (imported results).
    ``translated``: the basis of a figure was recognised in another language than pgbench writes.
    """
    reports = parse_reports(text, exit_status)
    if len(reports) > 1:
        raise ValueError(f"the text holds {len(reports)} reports of pgbench, where one is expected")
    return reports[0]


def parse_reports(text: str, exit_status: int | None = None) -> list[dict[str, Any]]:
    """Return the reports in ``text`` in their order, at least one. See ``parse_report``.

    Lines of several hosts that stand among each other, each with its host before it, are taken host by host.
    """
    reports = []
    for part in _sources(_split(text)):
        readers = [_Reader()]
        for line in _lines(part):
            if not readers[-1].feed(line):
                readers.append(_Reader())
                readers[-1].feed(line)
        reports += [reader.finish(exit_status) for reader in readers]
    return reports


class _Reader:
    """The state between lines: the report so far, the script and the statement table that lines belong to."""

    def __init__(self) -> None:
        self.report = _empty_report()
        self.raw: dict[str, str] = {}  # what was printed under each key of the report itself
        self.script: dict[str, Any] | None = None
        self.columns = 0  # of the statement table that is open, 0 when none is
        self.table_script = 0
        self.aborted_clients: set[int] = set()
        self.error: dict[str, Any] | None = None  # the error whose continuation lines may follow
        self.said: str | None = None  # the first message of the program, or of whoever failed to start it, without a level
        self.lost = False
        self.repeats = False  # below "script statistics:" 9.6 and 10 say again what they said of their single script
        self.wording: set[str] = set()

    def feed(self, line: str) -> bool:
        """Take ``line`` in; ``False`` when it can only belong to another report than this one."""
        if not line.strip() or self._row(line) or self._message(line):
            return True
        if self._belongs_to_another(line):
            return False
        if self._heading(line) or self._figure(line) or self._known(line):
            self.error = None
        elif self.error is not None and len(self.error["detail"]) < 5:
            self._detail(line)
        else:
            self.report["unparsed_lines"] += 1
            if len(self.report["unparsed"]) < KEEP_LINES:
                self.report["unparsed"].append(line)
        return True

    def _belongs_to_another(self, line: str) -> bool:
        measured = any(k in self.raw for k in ("processed", "tps", "latency_average_ms"))
        if _BANNER.search(line):
            return measured or "banner" in self.raw
        found = self._key(line)
        if not found or found["dash"]:
            return False
        key, rest = _LABELS[found["label"]], found["rest"]
        if key == "tps":
            words = _WORDS.search(rest)
            key += str(tps_basis(words["words"])[0]) if words else ""
        if key not in self.raw:
            return False
        # a figure quoted again after its report says the same; a head line always opens a report
        return key == "transaction_type" or (key in _HEAD and measured) or self.raw[key] != rest

    @staticmethod
    def _key(line: str) -> re.Match[str] | None:
        if _SHARE.match(line) or _WEIGHT.match(line):
            return None
        found = _LINE.match(line)
        return found if found and not _ends_in_a_word(found["prefix"]) else None

    def _known(self, line: str) -> bool:
        self.repeats = self.repeats or "script statistics:" in line
        patterns = (_PROGRESS, _TUPLES, _DONE, _NOISE, _EXIT)
        return any(p.search(line) for p in patterns) or _init_phase(line) is not None

    # stderr

    def _message(self, line: str) -> bool:
        program = _PROGRAM_LINE.match(line)
        level, text = (program["level"], program["text"]) if program else (None, line)
        if _VERBOSE.match(text):
            self.error = None
            return True
        if _RUN_ABORTED.match(text):
            self.report["aborted"] = True
            self.error = None
            return True
        ignored = _SCALE_IGNORED.search(text)
        if ignored:
            self.report["scale_from_table"] = int(ignored[1])
            self.report["warnings"].append(text)
            return True
        if level == "fatal":
            self.wording.add("13-14")
        if level in ("hint", "detail"):
            if self.error is not None:
                self._detail(text)
            return True
        if level == "warning":
            self.report["warnings"].append(text)
            return True
        client = _CLIENT_ABORTED.match(text)
        if client:
            self._client(client)
            return True
        if _CONNECTION.search(text) and (program or not _LINE.match(line)):
            found = _NO_CONNECTION_FOR.search(text)
            self._error("connection", text, client=int(found[1]) if found else None, answered=bool(_ANSWERED.search(text)))
            return True
        if level in ("fatal", "error"):
            self.lost = bool(_LOST.search(text)) and text.startswith("perhaps")
            self._error("program", text)
            return True
        if program:
            if _OPTION_ERROR.search(text):
                self._error("program", text)
            elif self.error is not None:
                self._detail(text)  # 13 has hints without a level
            elif self.said is None and not _NOISE.match(text):
                self.said = text
            return True
        if _SERVER_DETAIL.match(line):
            if self.error is not None:
                self._detail(line)
            return True
        own = _LINE.match(line)
        if _SERVER_MESSAGE.match(line) and not (own and not own["prefix"].strip()):
            if self.error is not None and self.error["kind"] == "connection" and self.error["text"].endswith("failed:"):
                self.error["answered"] = True  # up to 12 the server's answer stands on the next line
                self._detail(line)
            elif len(self.report["server_messages"]) < KEEP_LINES:
                self.report["server_messages"].append(line)
            return True
        return False

    def _client(self, found: re.Match[str]) -> None:
        rest = found["rest"]
        command = re.search(r"in (?:command|state) (\d+)", rest)
        script = re.search(r"of script (\d+)", rest)
        said = re.search(r"[:;.]\s+(.*)", rest)
        text = said[1].strip() if said else rest.strip()
        self._error(
            "client",
            text,
            client=int(found["client"]),
            script=int(found["script"]) if found["script"] else int(script[1]) if script else None,
            command=int(command[1]) if command else None,
            lost=self.lost or bool(_LOST.search(rest) or _SESSION_ENDED.match(text)),
        )
        self.lost = False
        self.report["aborted"] = True
        self.aborted_clients.add(int(found["client"]))

    def _error(self, kind: str, text: str, **known: Any) -> None:
        error: dict[str, Any] = {
            "kind": kind,
            "client": None,
            "script": None,
            "command": None,
            "text": text,
            "detail": [],
            "lost": False,
            "answered": False,
        }
        self.error = {**error, **known}
        if self.report["first_error"] is None:
            self.report["first_error"] = text
        if len(self.report["errors"]) < KEEP_LINES or kind == "client":
            self.report["errors"].append(self.error)

    def _detail(self, line: str) -> None:
        if self.error is not None and len(self.error["detail"]) < 5:
            self.error["detail"].append(line.strip())
            if self.error["kind"] == "client" and _LOST.search(line):
                self.error["lost"] = True

    # stdout

    def _row(self, line: str) -> bool:
        if not self.columns:
            return False
        found = _ROWS[self.columns].match(line)
        if not found:
            return False
        cells = found.groups()
        self.report["statements"].append(
            {
                "script": self.table_script,
                "latency_ms": number(cells[0]),
                "failures": int(cells[1]) if self.columns > 1 else None,
                "retries": int(cells[2]) if self.columns > 2 else None,
                "text": cells[-1] or "",
            }
        )
        return True

    def _heading(self, line: str) -> bool:
        report = self.report
        table = _TABLE.search(line)
        if table:
            self.columns = _TABLE_COLUMNS[table["columns"]]
            self.table_script = int(table["file"]) - 1 if table["file"] else self.script["index"] if self.script else 0
            if self.columns > 1:
                self.wording.add("14+")
            return True
        banner = _BANNER.search(line)
        if banner:
            client, _comma, server = banner["inside"].partition(", server ")
            report["client_version"], report["server_version"] = _bare(client), _bare(server or client)
            report["banner"] = self.raw["banner"] = banner.group(0).strip()
            self.wording.add("14+")
            return True
        program = _BY_ITSELF.search(line)
        if program:  # of --version: it says nothing of the server, and below a report it may be of the next one
            if not report["has_report"]:
                report["client_version"] = _bare(program.group(0))
            return True
        script = _SCRIPT.search(line)
        if script:
            self.columns = 0
            self.script = _empty_script(int(script["number"]) - 1, script["name"].strip())
            report["scripts"].append(self.script)
            return True
        weight = _WEIGHT.match(line)
        if weight and self.script:
            self.script["weight"] = int(weight["weight"])
            share = re.search(r"targets (\S+)% of total", line)
            self.script["weight_pct"] = decimal(share[1]) if share else None
            return True
        share = _SHARE.match(line)
        if share and self.script:
            self.script["transactions"], self.script["share_pct"] = number(share["count"]), decimal(share["share"])
            if share["tps"] is not None:
                self.script["tps"] = number(share["tps"])
            return True
        return False

    def _figure(self, line: str) -> bool:
        report = self.report
        late = _LATE.search(line)
        if late:
            understood, count, rest = _take(late["rest"])
            if understood:
                report["late"], report["latency_limit_ms"] = count, number(late["limit"])
                report["late_pct"] = _share(rest)
                report["has_report"] = True
            return understood
        lag = _LAG.search(line)
        if lag:
            report["lag_average_ms"], report["lag_max_ms"] = decimal(lag["average"]), decimal(lag["max"])
            return True
        found = self._key(line)
        if not found:
            return False
        key, rest = _LABELS[found["label"]], found["rest"]
        script = self.script if self.script and found["dash"] else None
        if self.repeats and not script and found["dash"] and key in ("skipped", "latency_average_ms", "latency_stddev_ms"):
            return True
        target = script or report
        value: Any
        if key == "tps":
            return not script and self._tps(found)
        if key in ("transaction_type", "partition_method", "protocol"):
            if key != "transaction_type":
                rest = rest.split()[0]
            elif re.search(r"\s{2,}#", rest):
                rest = rest.split("#")[0].rstrip()  # a comment of whoever published it
            value = rest
        else:
            understood, value, after = _take(rest)
            if key in _MILLISECONDS and value is not None and decimal(rest.removesuffix(after)) is None:
                return False
            if not understood or not self._rest_is_known(key, after, target):
                return False
        if script is None:
            self.raw[key] = found["rest"]
            report["has_report"] = True
            self.columns = 0
            if key == "latency_average_ms":
                self.wording.add("9.5-" if found["sign"] == ":" else "9.6+")
            if found["label"] == "number of processed transactions":
                self.wording.add("8.x")
            if key in ("failed", "max_tries", "initial_connection_ms", "average_connection_ms"):
                self.wording.add("14+")
        target[key] = value
        return True

    @staticmethod
    def _rest_is_known(key: str, after: str, target: dict[str, Any]) -> bool:
        """Take in what follows a number (unit, share, planned count); ``False`` when it is something else."""
        if key in _MILLISECONDS:
            unit = re.match(r"\s*ms\b(.*)", after)
            if not unit:
                return False
            if key == "latency_average_ms" and re.search(r"\(including failures\)", unit[1]):
                target["latency_basis"] = "including failures"
            return True
        if key == "duration_s":
            return bool(re.match(r"\s*s\b", after))
        if key == "processed":
            planned = re.match(r"\s*/\s*(\S+)", after)
            if planned:
                target["planned"] = number(planned[1])
            tps = re.search(r"\(tps = ([^\s)]+)\)", after)
            if tps:
                target["tps"] = number(tps[1])
            return True
        if key in _COUNTS_WITH_SHARE:
            if key in ("failed", "retried", "skipped"):
                target[f"{key}_pct"] = _share(after)
            return True
        return bool(re.match(r"\s*(?:$|[#<(|]|--)", after))

    def _tps(self, found: re.Match[str]) -> bool:
        """File a tps figure under the basis that its words name; without known words it stays unparsed."""
        understood, value, after = _take(found["rest"])
        words = _WORDS.match(after)
        basis, translated = tps_basis(words["words"]) if words else (None, False)
        if not understood or basis is None:
            return False
        report = self.report
        report["has_report"] = True
        report["translated"] = report["translated"] or translated
        self.raw["tps" + basis] = found["rest"]
        self.raw["tps"] = found["rest"]
        self.columns = 0
        if basis == INCLUDING:
            report["tps_including"] = value
        elif basis == RECONNECTING:
            report["tps_reconnecting"] = report["tps"] = value
        else:
            report["tps_excluding"] = report["tps"] = value
        if basis != INCLUDING and value is not None:
            report["tps_basis"] = basis
        if basis in (WITHOUT_INITIAL, RECONNECTING):
            self.wording.add("14+")
        elif not translated:
            self.wording.add("8.x" if after.startswith("(") else "-13")
        return True

    # the end

    def finish(self, exit_status: int | None) -> dict[str, Any]:
        report = self.report
        report["exit_status"] = exit_status
        report["clients_aborted"] = len(self.aborted_clients)
        report["aborted"] = report["aborted"] or exit_status == 2
        report["generation"] = self._generation()
        report["builtin"] = builtin_of(report["transaction_type"] or "")
        if report["generation"] in ("8.x", "9.5-") and report["latency_average_ms"] == 0:
            report["latency_average_ms"] = None  # 9.4 and 9.5 compute it from the duration, which -t leaves at 0
        if report["first_error"] is None and exit_status not in (None, 0):  # up to 12 messages have no prefix
            report["first_error"] = self.said or next(iter(report["server_messages"] + report["unparsed"]), None)
        self._scripts()
        measured = report["tps_including"] is not None or report["tps"] is not None
        around = ("scale", "threads", "clients", "protocol", "processed", "latency_average_ms")
        report["low_detail"] = measured and any(report[k] is None for k in around)
        for error in report["errors"]:
            error["detail"] = "\n".join(error["detail"]) or None
        return report

    def _generation(self) -> str | None:
        words, kind = self.wording, self.report["transaction_type"] or ""
        if "14+" in words:
            return "14+"
        if "9.6+" in words or kind.startswith("<builtin:") or kind == "multiple scripts" or ("13-14" in words and kind):
            return "9.6-13"  # 14 and later print a banner first
        if "8.x" in words and "9.5-" not in words:
            return "8.x"
        if "9.5-" in words:
            return "9.5-"
        return "9.5-" if "-13" in words or builtin_of(kind) else None

    def _scripts(self) -> None:
        """Give every script the same meaning of its counts, and a run of one script its one entry."""
        report = self.report
        for script in report["scripts"]:
            if script["processed"] is None and script["transactions"] is not None:
                if script["failed"] is None:  # up to 14 the count holds skipped transactions
                    script["processed"] = script["transactions"] - (script["skipped"] or 0)
                else:  # 15 to 17 it is of successes only
                    script["processed"] = script["transactions"]
                    script["transactions"] += script["failed"] + (script["skipped"] or 0)
        if not report["scripts"] and report["transaction_type"] not in (None, "multiple scripts"):
            script = _empty_script(0, report["transaction_type"])
            same = [k for k in script if k in report and k not in ("index", "name", "builtin")]
            script.update({k: report[k] for k in same})
            parts = [report["processed"], report["failed"] or 0, report["skipped"] or 0]
            script["transactions"] = sum(parts) if report["processed"] is not None else None
            report["scripts"] = [script]


def _share(text: str) -> float | None:
    """Return the percentage in parentheses, with or without a blank before the sign (up to 14), ``None`` for NaN."""
    found = re.search(r"\(\s*(\S+?)\s*%\)", text)
    value = decimal(found[1]) if found else None
    return None if value is None else float(value)


# progress -------------------------------------------------------------------------------------------------------------------

_PROGRESS = re.compile(r"(?P<prefix>.*?)(?<!\w)progress: (?P<time>\d+(?:\.\d*)?) s, (?P<items>.+ tps\b.*)")
_ITEM = {
    "tps": re.compile(r"^(.+?) tps\b"),
    "latency_ms": re.compile(r"lat (\S+) ms"),
    "stddev_ms": re.compile(r"stddev (\S+)"),
    "failed": re.compile(r"(\S+) failed\b"),
    "lag_ms": re.compile(r"lag (\S+) ms"),
    "skipped": re.compile(r"(\S+) skipped\b"),
    "retried": re.compile(r"(\S+) retried\b"),
    "retries": re.compile(r"(\S+) retries\b"),
}
_EPOCH = 1e9  # seconds: a clock above this is Unix time, not time since the start


def parse_progress(text: str) -> list[dict[str, Any]]:
    """Return the samples of the ``progress:`` lines.

    ``{elapsed_s, ts, interval_s, tps, latency_ms, stddev_ms, failed, lag_ms, skipped, retried, retries}``; what a line does
    not print is ``None``, and so are latencies of an interval without transactions. With ``--progress-timestamp``
    ``ts`` is Unix time, ``elapsed_s`` counts from the first such line and that line's ``interval_s`` is unknown.
    """
    samples: list[dict[str, Any]] = []
    before = zero = None
    for line in _split(text):
        sample = _sample(line)
        if not sample:
            continue
        if sample["ts"] is not None:
            zero = sample["ts"] if zero is None else zero
            sample["elapsed_s"] = round(sample["ts"] - zero, 3)
            sample["interval_s"] = round(sample["ts"] - before, 3) if before is not None and before >= _EPOCH else None
            before = sample["ts"]
        else:
            elapsed = sample["elapsed_s"]
            begun = before is None or before >= _EPOCH or before >= elapsed  # a run of its own
            sample["interval_s"] = elapsed if begun else round(elapsed - before, 3)
            before = elapsed
        samples.append(sample)
    return samples


def last_progress(chunk: str) -> dict[str, Any] | None:
    """Return the newest sample of ``chunk`` (see ``parse_progress``), ``None`` when it holds none.

    ``chunk`` may begin and end in mid-line: only lines with their end count. ``interval_s`` is ``None``.
    """
    for line in reversed(re.split(r"\r\n|\n|\r", chunk)[:-1]):
        sample = _sample(clean(line))
        if sample:
            return sample
    return None


def _sample(line: str) -> dict[str, Any] | None:
    found = _PROGRESS.match(line)
    if not found:
        return None
    values = {}
    for key, pattern in _ITEM.items():
        item = pattern.search(found["items"])
        read = decimal if key.endswith("_ms") else number
        values[key] = read(item[1].rstrip(",")) if item else None
    time = float(found["time"])
    if values["tps"] is None:
        return None
    if values["tps"] == 0:
        values.update(latency_ms=None, stddev_ms=None, lag_ms=None)
    epoch = time >= _EPOCH
    return {"elapsed_s": None if epoch else time, "ts": time if epoch else None, "interval_s": None, **values}


# initialisation ---------------------------------------------------------------------------------------------------------------

_TUPLES = re.compile(
    r"(?P<done>\d+) of (?P<total>\d+) tuples \((?P<percent>\d+)%\)(?: of (?P<table>\w+))?"
    r" done \(elapsed (?P<elapsed>\d+(?:\.\d*)?) s, remaining (?P<remaining>\d+(?:\.\d*)?) s\)"
)
_DONE = re.compile(r"(?<!\w)done in (?P<total>\d+(?:\.\d*)?) s \((?P<steps>.*)\)\.")
_PHASES = (
    ("drop tables", re.compile(r"dropping old tables\.\.\.")),
    ("create tables", re.compile(r"creating tables\.\.\.|creating \d+ partitions\.\.\.")),
    ("server-side generate", re.compile(r"generating data \(server-side\)\.\.\.")),
    ("client-side generate", re.compile(r"generating data(?: \(client-side\))?\.\.\.")),
    ("vacuum", re.compile(r"vacuum(?:ing)?\.\.\.\s*$")),
    ("primary keys", re.compile(r"(?:set|creating) primary keys?\.\.\.")),
    ("foreign keys", re.compile(r"(?:set|creating) foreign keys?\.\.\.")),
)


def _init_phase(line: str) -> str | None:
    return next((name for name, pattern in _PHASES if pattern.search(line)), None)


def parse_init(text: str) -> dict[str, Any]:
    """Return what ``pgbench -i`` said.

    ``{complete, seconds, steps: [{name, seconds}], phase, tuples: {table, done, total, percent, elapsed_s, remaining_s},
    errors, first_error}``. ``seconds`` and the seconds of the steps are printed from 13 on, ``None`` before;
    ``phase`` is the step at work, ``None`` when complete; ``tuples`` the newest count of generated rows.
    """
    result: dict[str, Any] = {
        "complete": False,
        "seconds": None,
        "steps": [],
        "phase": None,
        "tuples": None,
        "errors": [],
        "first_error": None,
    }
    reader = _Reader()
    for line in _lines(_split(text)):
        tuples = _TUPLES.search(line)
        done = _DONE.search(line)
        phase = _init_phase(line)
        if tuples:
            result["tuples"] = {
                "table": tuples["table"],
                "done": int(tuples["done"]),
                "total": int(tuples["total"]),
                "percent": int(tuples["percent"]),
                "elapsed_s": float(tuples["elapsed"]),
                "remaining_s": float(tuples["remaining"]),
            }
        elif done:
            parts = re.findall(r"([A-Za-z][\w -]*?) (\d+(?:\.\d*)?) s", done["steps"])
            result.update(
                complete=True, phase=None, seconds=float(done["total"]), steps=[{"name": n, "seconds": float(s)} for n, s in parts]
            )
        elif line.strip() == "done.":  # up to 12
            result.update(complete=True, phase=None)
        elif phase:
            result["phase"] = phase
            if all(step["name"] != phase for step in result["steps"]):
                result["steps"].append({"name": phase, "seconds": None})
        else:
            reader.feed(line)
    report = reader.finish(None)
    result["errors"], result["first_error"] = report["errors"], report["first_error"]
    return result


# aggregate logs ---------------------------------------------------------------------------------------------------------------

_LATENCY_COLUMNS = ("sum", "sum2", "min", "max")
_TAIL_COLUMNS = ("skipped", "retried", "retries", "serialization_failures", "deadlock_failures", "other_failures")


def parse_aggregate_log(lines: Iterable[str], lag: bool = False, skipped: bool = False) -> dict[str, Any]:
    """Parse a log of ``--aggregate-interval``: ``{intervals: [...], problems: [str]}``.

    ``lag``: the run had ``--rate``; ``skipped``: it also had ``--latency-limit``. These options decide the columns up to 14 (6, 10 or
    11); 15 to 18 always write 15, 19 writes 16. An interval: ``{start, n, latency_average_ms, latency_stddev_ms, latency_min_ms,
    latency_max_ms, lag_average_ms, lag_max_ms, skipped, retried, retries, serialization_failures, deadlock_failures, other_failures}``;
    ``n`` counts those with a latency, and what the options leave out is ``None``. The unfinished last interval is never written: do
    not use the log for totals.
    """
    expected = 11 if lag and skipped else 10 if lag else 6
    intervals: list[dict[str, Any]] = []
    problems: list[str] = []
    for position, cells in _rows(lines):
        if len(cells) not in (expected, 15, 16) or not all(re.fullmatch(r"-?\d{1,30}", cell) for cell in cells):
            problems.append(
                f"line {position}: {len(cells)} columns, where {expected}, 15 or 16 numbers are expected: {' '.join(cells)[:120]}"
            )
            continue
        values = [int(cell) for cell in cells]
        start, n, rest = values[0], values[1], values[2:]
        if start < _EPOCH:
            problems.append(f"line {position}: {start} is no time at which an interval begins: {' '.join(cells)[:120]}")
            continue
        if len(cells) == 11:
            n -= rest[8]  # up to 14 the count holds skipped transactions, which have neither latency nor lag
            if n < 0:
                problems.append(f"line {position}: {rest[8]} of {values[1]} transactions were skipped: {' '.join(cells)[:120]}")
                continue
        latency = dict(zip(_LATENCY_COLUMNS, rest[:4]))
        lags = dict(zip(_LATENCY_COLUMNS, rest[4:8])) if lag else {}
        tail: dict[str, int | None] = dict.fromkeys(_TAIL_COLUMNS)
        tail.update(zip(_TAIL_COLUMNS, rest[8:]))
        if not skipped:
            tail["skipped"] = None
        intervals.append(
            {
                "start": start,
                "n": n,
                "latency_average_ms": latency["sum"] / n / 1000 if n else None,
                "latency_stddev_ms": math.sqrt(max(0.0, latency["sum2"] / n - (latency["sum"] / n) ** 2)) / 1000 if n else None,
                "latency_min_ms": latency["min"] / 1000 if n else None,
                "latency_max_ms": latency["max"] / 1000 if n else None,
                "lag_average_ms": lags["sum"] / n / 1000 if lags and n else None,
                "lag_max_ms": lags["max"] / 1000 if lags and n else None,
                **tail,
            }
        )
    return {"intervals": intervals, "problems": problems}


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    return ((i, line.split()) for i, line in enumerate(lines, 1) if line.strip())
