# GNU General Public License v3.0 or later (see LICENSE)
"""The Tcl scripts that HammerDB's command line runs for us, and the shell script that starts it.

No password is in them: HammerDB gets the text ``''``, which libpq reads as an empty password and then looks into ``PGPASSFILE``.
So nothing secret reaches its dictionary, its SQLite files or its console, all of which keep passwords in clear.

What the scripts add to HammerDB: the clock before each line, an end to waits that have none of their own, and the progress of a
build. Its exit status is always 0; ours says what was seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: HammerDB puts these unquoted into Tcl and SQL.
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
HOST = re.compile(r"[A-Za-z0-9_/:.][A-Za-z0-9_/:.%-]*")

#: Exit statuses of the scripts.
SCRIPT_ERROR, USER_FAILED, WRONG_DRIVER, STILL_RUNNING = 3, 4, 5, 6

#: libpq takes it for an empty password and uses the password file.
NO_PASSWORD = "''"

#: Seconds between two figures of HammerDB's transaction counter; it multiplies by 60 / this, in whole numbers.
COUNTER_S = 5

#: Share of a warehouse's rows that each of its steps stands for, by the time they take: (what the line says, share).
BUILD_SHARES = (("Loading Stock - ", 0.39 / 5), ("Customer Done", 0.25 / 10), ("Orders Done", 0.36 / 10))

LAUNCHER_NAME, BUILD_NAME, RUN_NAME, CHECK_NAME, COUNTS_NAME = "hammerdb.sh", "build.tcl", "run.tcl", "check.tcl", "counts.sql"

#: Arguments: HammerDB's folder, the Tcl script, then, to count orders beside it, a psql command that reads ``counts.sql``.
#: HammerDB's console is our stderr, which is followed while it runs; what it wrote into files is our stdout at the end.
LAUNCHER = r"""
run=$PWD
home=$1
script=$run/$2
shift 2
case ${PGPASSFILE:-/} in /*) ;; *) PGPASSFILE=$run/$PGPASSFILE; export PGPASSFILE ;; esac
mkdir -m 700 tmp || exit 3
TMP=$run/tmp TMPDIR=$run/tmp TZ=UTC LC_ALL=C.UTF-8
export TMP TMPDIR TZ LC_ALL
counter=
if [ $# -gt 0 ]; then
    date +%s.%N >counts
    "$@" >>counts 2>counts.err &
    counter=$!
fi
cd "$home" || exit 3
./hammerdbcli auto "$script" </dev/null >&2
status=$?
cd "$run"
[ -n "$counter" ] && kill "$counter" 2>/dev/null
for file in counts counts.err tmp/hdbxtprofile*.log; do
    [ -s "$file" ] && echo "=== file $file" && cat "$file"
done
rm -rf tmp counts counts.err
exit $status
"""

_PRELUDE = r"""
# Written for one run; reads no setting of an earlier one.
namespace eval pgsizing {
    variable failed {} result 0 share 0.0 patched 0 tick 0 stopping 0
}
rename puts hdb_puts
fconfigure stdout -buffering line
proc puts {args} {
    if {[llength $args] != 1} { return [uplevel 1 [list hdb_puts {*}$args]] }
    set line [string trimright [lindex $args 0]]
    hdb_puts [format "@%.3f %s" [expr {[clock milliseconds] / 1000.0}] $line]
    pgsizing::heard $line
}
proc pgsizing::stop {status why} {
    variable stopping
    if {$stopping} { return }
    set stopping 1
    puts "Error: $why"
    after 1000 [list exit $status]
}
proc pgsizing::wait {until} {
    while {![vucomplete] && [clock seconds] < $until} {
        after 500 {set ::pgsizing::tick 1}
        vwait ::pgsizing::tick
    }
}
proc pgsizing::states {} {
    global vustatus
    if {![info exists vustatus]} { return }
    dict for {user state} $vustatus { hdb_puts "$user = $state" }
}
proc pgsizing::set_all {settings} {
    global configpostgresql
    foreach {dictionary key value} $settings {
        if {![dict exists $configpostgresql $dictionary $key]} { error "this HammerDB has no setting $key" }
        diset $dictionary $key $value
        if {[dict get $configpostgresql $dictionary $key] ne $value} { error "HammerDB did not take $key = $value" }
    }
}
proc pgsizing::driver {} {
    if {[catch {package require Pgtcl} message]} { puts "Error: no database driver: $message"; exit 5 }
    if {[llength [info commands pg_notice_handler]] == 0} {
        puts "Error: wrong database driver: Pgtcl $message is not the one HammerDB brings (pgtclng); virtual users would share its buffer"
        exit 5
    }
}
"""

_BUILD = r"""
proc pgsizing::heard {line} {
    variable share
    if {[string match "*:FINISHED FAILED" $line] || [string match "*Monitor failed to notify*" $line]} {
        stop 4 "a virtual user of the build failed, and HammerDB would wait for it for ever"
    }
    foreach {what part} {@SHARES@} {
        if {[string first $what $line] >= 0} {
            set share [expr {$share + $part / @WAREHOUSES@}]
            hdb_puts [format "progress %.1f" [expr {min(99.9, 100.0 * $share)}]]
            break
        }
    }
}
# The build would set the password of the role it connects as, in clear text in the server's log. The role is there already.
rename .ed_mainFrame.mainwin.textFrame.left.text hdb_editor
proc .ed_mainFrame.mainwin.textFrame.left.text {args} {
    set changed [regsub -all {ALTER USER \\"\$user\\" PASSWORD '\$password'} [lindex $args end] {SET client_min_messages TO 'error'} text]
    incr pgsizing::patched $changed
    uplevel 1 [list hdb_editor {*}[lrange $args 0 end-1] $text]
}
rename build_pgtpcc hdb_build_pgtpcc
proc build_pgtpcc {} {
    uplevel 1 hdb_build_pgtpcc
    if {$pgsizing::patched != 1} { error "the build of this version sets passwords in a way that is not known; it was not started" }
}
if {[catch {
    dbset db pg
    dbset bm TPC-C
    pgsizing::driver
    pgsizing::set_all {@SETTINGS@}
    set until [expr {[clock seconds] + @BOUND@}]
    puts [buildschema]
    pgsizing::wait $until
    pgsizing::states
    if {![vucomplete]} { puts "Error: the build did not end within @BOUND@ s"; exit 6 }
    if {$pgsizing::stopping} { exit 4 }
    hdb_puts "progress 100.0"
} message]} {
    puts "Error: $message"
    exit 3
}
exit 0
"""

_CHECK = r"""
proc pgsizing::heard {line} {
    if {[string match "*:FINISHED FAILED" $line]} { set pgsizing::failed 1 }
}
if {[catch {
    dbset db pg
    dbset bm TPC-C
    pgsizing::driver
    pgsizing::set_all {@SETTINGS@}
    set until [expr {[clock seconds] + @BOUND@}]
    puts [checkschema]
    pgsizing::wait $until
    pgsizing::states
    if {![vucomplete]} { puts "Error: the check did not end within @BOUND@ s"; exit 6 }
} message]} {
    puts "Error: $message"
    exit 3
}
exit [expr {$pgsizing::failed ne "" ? 4 : 0}]
"""

_RUN = r"""
proc pgsizing::heard {line} {
    variable failed
    variable result
    if {[string match "*TEST RESULT*" $line]} { set result 1 }
    if {[regexp {^ *Vuser (\d+):FINISHED FAILED$} $line -> user]} {
        lappend failed $user
        if {$user == 1 && !$result} { stop 4 "the monitor failed, so there can be no result" }
        if {[llength [lsearch -all -inline -not -exact $failed 1]] == @CLIENTS@ && !$result} { stop 4 "every virtual user failed" }
    }
}
if {[catch {
    dbset db pg
    dbset bm TPC-C
    pgsizing::driver
    pgsizing::set_all {@SETTINGS@}
    # From 4.6 on vurun returns after ramp-up, duration and this margin, whether the users have ended or not; up to 4.5 at once.
    catch {dict set genericdict commandline keepalive_margin @MARGIN@}
    catch {dict set genericdict benchmark first_result NOPM}
    loadscript
    foreach {option value} {vu @CLIENTS@ delay @DELAY@ iterations 1 showoutput 1 logtotemp 0} { vuset $option $value }
    if {$virtual_users != @CLIENTS@} { error "HammerDB did not take @CLIENTS@ virtual users" }
    foreach {option value} {refreshrate @COUNTER@ logtotemp 0} { tcset $option $value }
    set until [expr {[clock seconds] + @PLANNED@ + @MARGIN@}]
    vucreate
    tcstart
    set answer [vurun]
    puts "RUN RETURNED: $answer"
    pgsizing::wait $until
    catch {tcstop}
    pgsizing::states
    if {![vucomplete]} { puts "Virtual Users remain running in background or shutting down" }
    if {[regexp {jobid=([0-9A-F]+)} $answer -> job]} {
        foreach what {result timing tcount} {
            hdb_puts "=== jobs $job $what"
            catch {jobs $job $what}
        }
    }
    if {![vucomplete]} { exit 6 }
    if {$pgsizing::stopping} { exit 4 }
} message]} {
    puts "Error: $message"
    exit 3
}
exit 0
"""

#: The clock of the server, orders by their districts, what this database committed and rolled back, and its deadlocks.
_COUNTS = r"""
SELECT extract(epoch FROM clock_timestamp())::numeric(20, 3), (SELECT sum(d_next_o_id) FROM district), xact_commit, xact_rollback, deadlocks
FROM pg_stat_database WHERE datname = current_database() \watch @INTERVAL@
"""


def connection_problems(connection: Mapping[str, Any]) -> list[str]:
    """Return what in ``{host, port, user, dbname}`` HammerDB cannot take, because it does not quote it, and a ``home`` that is relative."""
    names = [("login_user", connection["user"], PLAIN), ("login_db", connection["dbname"], PLAIN)]
    if connection.get("host"):
        names.append(("login_host", connection["host"], HOST))
    problems = [
        f"{name}: HammerDB cannot take {value!r}, it does not quote it"
        for name, value, pattern in names
        if not pattern.fullmatch(str(value))
    ]
    # A run starts in a folder of its own.
    return problems if connection["home"].startswith("/") else [*problems, f"home: {connection['home']!r} is not an absolute path"]


def _settings(connection: Mapping[str, Any], ssl_mode: str, more: Mapping[str, Any]) -> str:
    """Return the body of a Tcl list ``dictionary key value …``. Values hold no blank (``connection_problems``)."""
    user, database = connection["user"], connection["dbname"]
    values = {
        "connection": {"pg_host": connection.get("host") or "localhost", "pg_port": connection.get("port") or 5432, "pg_sslmode": ssl_mode},
        "tpcc": {
            "pg_superuser": user,
            "pg_superuserpass": NO_PASSWORD,
            # In it up to 5.0 the vacuum at the end ran, and all that is asked of it is a connection: it is our own.
            "pg_defaultdbase": database,
            "pg_user": user,
            "pg_pass": NO_PASSWORD,
            "pg_dbase": database,
            **more,
        },
    }
    rows = [f"{group} {key} {_word(value)}" for group, pairs in values.items() for key, value in pairs.items()]
    return "\n        ".join(["", *rows])


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fill(text: str, **values: Any) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    return _PRELUDE + text


def build_script(connection: Mapping[str, Any], ssl_mode: str, settings: Mapping[str, Any], warehouses: int, bound_s: float) -> str:
    """Return the script that builds the schema. ``settings``: keys of HammerDB's dictionary ``tpcc``."""
    shares = " ".join(f"{{{what}}} {part:.4f}" for what, part in BUILD_SHARES)
    return _fill(
        _BUILD, settings=_settings(connection, ssl_mode, settings), shares=shares, warehouses=f"{warehouses}.0", bound=int(bound_s)
    )


def check_script(connection: Mapping[str, Any], ssl_mode: str, settings: Mapping[str, Any], bound_s: float) -> str:
    """Return the script that runs HammerDB's own ``checkschema``."""
    return _fill(_CHECK, settings=_settings(connection, ssl_mode, settings), bound=int(bound_s))


def run_script(
    connection: Mapping[str, Any],
    ssl_mode: str,
    settings: Mapping[str, Any],
    *,
    clients: int,
    delay_ms: int,
    planned_s: float,
    margin_s: float,
) -> str:
    """Return the script of the timed run. ``planned_s``: ramp-up and duration; ``margin_s``: what the users may take to end."""
    return _fill(
        _RUN,
        settings=_settings(connection, ssl_mode, settings),
        clients=clients,
        delay=delay_ms,
        counter=COUNTER_S,
        planned=int(planned_s),
        margin=int(margin_s),
    )


def counts_script(interval_s: int) -> str:
    """Return the psql input that counts orders and transactions beside the run, every ``interval_s`` seconds."""
    return _COUNTS.replace("@INTERVAL@", str(interval_s)).lstrip()


def counts_argv(psql: str, connection: Mapping[str, Any]) -> list[str]:
    """Return the psql command for it. Its rows are ``epoch orders commits rollbacks deadlocks``."""
    options: Sequence[tuple[str, Any]] = (("--host", connection.get("host")), ("--port", connection.get("port")))
    argv = [psql, "--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align", "--field-separator= "]
    argv += [f"{name}={value}" for name, value in options if value]
    return [*argv, f"--username={connection['user']}", f"--dbname={connection['dbname']}", f"--file={COUNTS_NAME}"]
