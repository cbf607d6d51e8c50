# GNU General Public License v3.0 or later (see LICENSE)
"""A plain dump of ``pg_dump``, as ``psql`` is to read it: without owners and privileges, whose roles the server need not have.

What ``pg_restore --no-owner --no-privileges`` leaves out of the other formats is left out here: ``ALTER … OWNER TO``, ``GRANT``,
``REVOKE``, ``ALTER DEFAULT PRIVILEGES``, ``SET SESSION AUTHORIZATION``. Data, strings and bodies of functions stay as they are, and so
does the number of every line. Commands of psql are refused, so that a dump runs no program and stays in its database; ``\\restrict`` and
``\\unrestrict``, which ask psql to refuse them, are left out, because an older psql does not know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: A statement that is longer is none of those that are left out. No more of a dump is held in memory.
HELD_BYTES = 2**20
#: Of a line that comes in parts, this much waits for the next part: no token that matters is longer.
_CARRIED = 128

HEADER = b"-- PostgreSQL database dump"
TRAILER = b"-- PostgreSQL database dump complete"
CLUSTER = b"-- PostgreSQL database cluster dump"

# A dollar or an E within a word begins no string.
_TOKEN = re.compile(
    rb"""(?<![\w$\x80-\xff])[eE]'|'|"|(?<![\w$\x80-\xff])\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$|--|/\*|;|\\""",
)
_CLOSING = {b"'": re.compile(rb"'"), b'"': re.compile(rb'"'), b"e'": re.compile(rb"\\.|''|'", re.DOTALL), b"/*": re.compile(rb"/\*|\*/")}
_BLANK = re.compile(rb"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMAND = re.compile(rb"\\(\w+|.?)")
_LEFT_OUT = re.compile(
    rb"(?:GRANT|REVOKE|ALTER\s+DEFAULT\s+PRIVILEGES|(?:SET|RESET)\s+SESSION\s+AUTHORIZATION)\b"
    rb'|ALTER\b.*[^\s,]\s+OWNER\s+TO\s+(?:"(?:[^"]|"")*"|[\w$\x80-\xff]+)\s*;?\s*\Z',
    re.IGNORECASE | re.DOTALL,
)
_COPY = re.compile(rb"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)
_STRINGS = re.compile(rb"SET\s+standard_conforming_strings\s*(?:=|\bTO\b)\s*'?(on|off)\b", re.IGNORECASE)
_WHOLE_SERVER = re.compile(rb"(?:CREATE|ALTER|DROP)\s+(?:DATABASE|ROLE|GROUP|TABLESPACE|USER(?!\s+MAPPING))\b", re.IGNORECASE)
_CUT_SHORT = f"it ends without pg_dump's last line ({TRAILER.decode()}): it is cut short"
_ONE_DATABASE = "a dump of one database is needed, made by pg_dump without --create"


def cleaned(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a plain dump for psql. ``parts``: its lines with their ends, of which a long one may come in parts of 5 bytes or more.

    ``ValueError`` says in which line what cannot be restored, or that the dump is cut short.
    """
    dump = _Dump()
    for part in parts:
        yield dump.feed(part)
    yield dump.end()


def look(head: bytes, tail: bytes) -> None:
    """``ValueError`` when the first and the last bytes of a dump already tell that it cannot be restored."""
    dump = _Dump()
    for line in head.splitlines(keepends=True):
        dump.feed(line)
    if dump.begun and TRAILER not in tail:
        raise ValueError(_CUT_SHORT)


class _Dump:
    """Where a reader is in the dump: in a statement, in something quoted, or in the data of a table."""

    def __init__(self) -> None:
        self._inside = b""  # what the string, comment or data began with; nothing in a statement
        self._depth = 0  # of comments within comments
        self._held = b""  # the statement so far, while it may still be left out
        self._long = False  # the statement is too long for that
        self._rest = b"\n"  # one byte that was read already, and the end of an unfinished line
        self._escapes = False  # a backslash escapes in every string
        self._line, self._whole = 1, True
        self.begun = self._complete = False

    def feed(self, part: bytes) -> bytes:
        """Return what of the dump can be handed on with this part of it."""
        if self._inside == b"COPY":
            return self._data(part)
        text = self._rest + part
        at = sent = 1
        sure = len(text) if part.endswith(b"\n") else max(at, len(text) - _CARRIED)
        out = []
        while at < sure:
            if self._inside:
                at = self._close(text, at, sure)
                continue
            found = _TOKEN.search(text, at)
            if not found or found.start() >= sure:
                at = sure
                break
            token, at = found.group(), found.end()
            if token == b";":
                out.append(self._statement(text[sent:at]))
                sent = at
            elif token == b"\\":
                self._held += text[sent : found.start()]
                at = sent = self._command(text, found.start())
            elif token == b"--":
                at = self._comment(text, found.start())
            else:
                self._inside = b"e'" if token == b"'" and self._escapes else token.lower() if token[-1:] == b"'" else token
                self._depth = 1
            if self._inside == b"COPY":  # its data begin with the next line
                self._whole, self._rest = part.endswith(b"\n"), b"\n"
                self._line += self._whole
                return b"".join([*out, text[sent:]])
        self._held += text[sent:at]
        self._rest = text[at - 1 :]
        self._line += part.endswith(b"\n")
        if self._long or len(self._held) > HELD_BYTES:
            out.append(self._held)
            self._held, self._long = b"", True
        return b"".join(out)

    def end(self) -> bytes:
        """Return what is left. ``ValueError`` when the dump cannot end here."""
        out = self.feed(b"\n") if len(self._rest) > 1 else b""
        if self._inside == b"COPY":
            raise ValueError(f"line {self._line}: it ends within the data of a table: it is cut short")
        if self._inside and self._inside != b"--":
            raise ValueError(f"line {self._line}: it ends within a string or a comment: it is cut short")
        if self.begun and not self._complete:
            raise ValueError(_CUT_SHORT)
        return out + self._statement(b"")

    def _data(self, part: bytes) -> bytes:
        if self._whole and part.rstrip(b"\r\n") == b"\\.":
            self._inside = b""
        self._whole = part.endswith(b"\n")
        self._line += self._whole
        return part

    def _close(self, text: bytes, at: int, sure: int) -> int:
        """Return where the reader is after it looked for the end of what it is in."""
        if self._inside == b"--":
            end = text.find(b"\n", at)
            self._inside = b"--" if end < 0 else b""
            return len(text) if end < 0 else end
        if self._inside.startswith(b"$"):
            end = text.find(self._inside, at)
            if end < 0:
                return sure
            end, self._inside = end + len(self._inside), b""
            return end
        found = _CLOSING[self._inside].search(text, at)
        if not found or found.start() >= sure:
            return sure
        token = found.group()
        if self._inside == b"/*":
            self._depth += 1 if token == b"/*" else -1
        if token in (b"'", b'"') or (self._inside == b"/*" and self._depth == 0):
            self._inside = b""
        return found.end()

    def _comment(self, text: bytes, at: int) -> int:
        """Return where the comment ends that begins here."""
        end = text.find(b"\n", at)
        self._inside = b"--" if end < 0 else b""
        end = len(text) if end < 0 else end
        words = text[at:end].strip()
        if words == CLUSTER:
            raise ValueError(f"line {self._line}: this is a dump of a whole server by pg_dumpall: {_ONE_DATABASE}")
        self.begun = self.begun or words == HEADER
        self._complete = self._complete or words == TRAILER
        return end

    def _command(self, text: bytes, at: int) -> int:
        """Return where the line ends that a command of psql begins here."""
        found = _COMMAND.match(text, at)
        word = found.group(1).decode("ascii", "replace") if found else ""
        if word in ("c", "connect"):
            raise ValueError(f"line {self._line}: \\{word} leaves the database that is restored into: {_ONE_DATABASE}")
        if word not in ("restrict", "unrestrict"):
            raise ValueError(f"line {self._line}: \\{word} is a command of psql, and pg_dump writes none: take it out of the dump")
        end = text.find(b"\n", at)
        return len(text) if end < 0 else end

    def _statement(self, last: bytes) -> bytes:
        """Return the statement that ends here, or the ends of its lines when it is left out."""
        text, self._held = self._held + last, b""
        if self._long:
            self._long = False
            return text
        begin = _BLANK.match(text).end()  # type: ignore[union-attr]  # it matches nothing too
        if found := _WHOLE_SERVER.match(text, begin):
            number = self._line - text.count(b"\n", begin)
            words = " ".join(found.group().decode("ascii").upper().split())
            raise ValueError(f"line {number}: {words} is of the whole server: {_ONE_DATABASE}")
        if _LEFT_OUT.match(text, begin):
            return text[:begin] + b"\n" * text.count(b"\n", begin)
        if found := _STRINGS.match(text, begin):
            self._escapes = found.group(1).lower() == b"off"
        if _COPY.match(text, begin):
            self._inside = b"COPY"
        return text
