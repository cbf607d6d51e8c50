#!/usr/bin/env tclsh
# A stand-in for HammerDB's command line, for tests. It knows the commands that our scripts use and replays what the real one printed
# in a captured run, at the pace of the capture brought to the length that is asked for. Orders are made in the database at the rate
# that the captured result names. Nothing of HammerDB is in it.
#
# Beside it lies standin.conf, a Tcl dictionary:
#   version   what it calls itself                        captures  folder with run.stderr, run.stdout, build.stderr, checkschema.stderr
#   psql      the program                                 orders    orders made for each one of the captured result (1.0; 0.5 lies)
#   driver    pgtclng, other (no pg_notice_handler), none  inject    {text {lines…}}: printed after the first line that holds the text
#   hang      a text: at the first line that holds it the replay stops for ever
#   builder   folder of the role tprocc's files: by them "buildschema" makes the rows that it says it made

set home [file dirname [file normalize [info script]]]
set stream [open [file join $home standin.conf]]
set conf [dict merge {version 4.12 captures . psql psql orders 1.0 driver pgtclng inject {} hang {} builder {}} [read $stream]]
close $stream
puts "HammerDB CLI v[dict get $conf version]"
puts "Stand-in for tests, replays captured output"
if {[lindex $argv 0] ne "auto"} { puts "Usage: hammerdbcli auto script.tcl"; exit }

set genericdict {commandline {keepalive_margin 60} benchmark {first_result NOPM}}
set configpostgresql {
    connection {pg_host localhost pg_port 5432 pg_sslmode prefer}
    tpcc {
        pg_count_ware 1 pg_num_vu 1 pg_superuser postgres pg_superuserpass postgres pg_defaultdbase postgres pg_user tpcc pg_pass tpcc
        pg_dbase tpcc pg_storedprocs false pg_partition false pg_total_iterations 10000000 pg_raiseerror false pg_keyandthink false
        pg_driver timed pg_rampup 2 pg_duration 5 pg_vacuum false pg_allwarehouse false pg_timeprofile false
    }
}
set AVUC idle
set vustatus {}
set maxclients 0
switch [dict get $conf driver] {
    pgtclng { package provide Pgtcl 2.1.1.2; proc pg_notice_handler {args} {} }
    other { package provide Pgtcl 3.0.0 }
    none { package ifneeded Pgtcl 2.1.1.2 {error "couldn't load file \"libpgtcl2.1.1.so\": libpq.so.5: cannot open shared object file"} }
}
proc dbset {what value} { puts "$what set to $value" }
proc diset {dictionary key value} {
    global configpostgresql
    puts "Changed $dictionary:$key from [dict get $configpostgresql $dictionary $key] to $value for PostgreSQL"
    dict set configpostgresql $dictionary $key $value
}
proc setting {key} { dict get $::configpostgresql tpcc $key }
proc vuset {option value} { if {$option eq "vu"} { set ::virtual_users $value } }
proc tcset {option value} { puts "Transaction Counter $option set to $value" }
proc tcstart {} { puts "Transaction Counter Started" }
proc tcstop {} { puts "Stopping Transaction Counter" }
proc loadscript {} { puts {Script loaded, Type "print script" to view} }
proc vucreate {} {
    for {set n 1} {$n <= $::virtual_users + 1} {incr n} { dict set ::vustatus $n "WAIT IDLE" }
    puts "[expr {$::virtual_users + 1}] Virtual Users Created with Monitor VU"
}
proc vucomplete {} { expr {$::AVUC eq "complete"} }
proc read_file {name} {
    set stream [open [file join [dict get $::conf captures] $name] r]
    fconfigure $stream -encoding utf-8
    set text [read $stream]
    close $stream
    return $text
}
proc sleep {seconds} {
    after [expr {round(1000 * $seconds)}] {set ::slept 1}
    vwait ::slept
}
# Complete orders of one line, so that the consistency conditions stay true.
proc make_orders {count} {
    if {$count < 1} { return }
    puts $::database "WITH d AS (UPDATE district SET d_next_o_id = d_next_o_id + $count WHERE d_w_id = 1 AND d_id = 1 RETURNING d_next_o_id),
        n AS (SELECT generate_series(d_next_o_id - $count, d_next_o_id - 1) AS id FROM d),
        o AS (INSERT INTO orders SELECT now(), id, 1, 1, 1, NULL, 1, 1 FROM n),
        w AS (INSERT INTO new_order SELECT 1, id, 1 FROM n)
        INSERT INTO order_line (ol_o_id, ol_w_id, ol_i_id, ol_supply_w_id, ol_d_id, ol_number, ol_quantity) SELECT id, 1, 1, 1, 1, 1, 1 FROM n;"
    flush $::database
}
# Print what the capture says with the pauses of the capture: each of its parts as long as the script asks for, the rest fast.
proc replay {name pace nopm} {
    global conf
    set owed 0.0
    set before {}
    set due [set last [clock milliseconds]]
    foreach line [split [read_file $name] \n] {
        if {[string match "=== *" $line]} { break }
        if {![regexp {^@([\d.]+) (.*)$} $line -> at line] || [regexp {^RUN RETURNED|^(Changed|Value) |created} $line]} { continue }
        if {$before ne {}} { set due [expr {$due + 1000 * ($at - $before) * [dict get $pace now]}] }
        while {[set left [expr {$due - [clock milliseconds]}]] > 0} {
            sleep [expr {min($left, 100) / 1000.0}]
            set now [clock milliseconds]
            set owed [expr {[dict get $pace now] eq [dict get $pace fast] ? 0 : $owed + $nopm * ($now - $last) / 60000.0}]
            set last $now
            make_orders [expr {int($owed)}]
            set owed [expr {$owed - int($owed)}]
        }
        set before $at
        foreach {text part} {"Beginning rampup" ramp_up "Rampup complete" window "Test complete" fast "Loading Item" window} {
            if {[string first $text $line] >= 0} { dict set pace now [dict get $pace $part] }
        }
        regsub {rampup time of \S+} $line "rampup time of [setting pg_rampup]" line
        regsub {test period of \S+} $line "test period of [setting pg_duration]" line
        say $line
        foreach {text lines} [dict get $conf inject] {
            if {$text ne {} && [string first $text $line] >= 0} {
                dict set conf inject [dict remove [dict get $conf inject] $text]
                foreach more $lines { say $more }
            }
        }
        if {[dict get $conf hang] ne {} && [string first [dict get $conf hang] $line] >= 0} { vwait ::forever }
    }
}
proc say {line} {
    global vustatus
    if {[regexp {Vuser (\d+):(RUNNING|FINISHED SUCCESS|FINISHED FAILED)$} $line -> user state]} {
        dict set vustatus $user [string map {FINISHED FINISH} $state]
    }
    if {[string match "*Writing timing data*" $line]} { write_profile }
    if {$line eq "ALL VIRTUAL USERS COMPLETE"} { set ::AVUC complete }
    puts $line
}
proc write_profile {} {
    if {![regexp {=== file tmp/hdbxtprofile.log\n(.*)$} [read_file run.stdout] -> text]} { return }
    regsub {Report @ [^\n]*} $text "Report @ [clock format [clock seconds] -timezone :UTC]" text
    set stream [open [file join $::env(TMP) hdbxtprofile.log] w]
    puts -nonewline $stream $text
    close $stream
}
proc capture_seconds {from to} {
    set times {}
    foreach text [list $from $to] {
        regexp -line "^@(\[\\d.\]+) .*$text" [read_file run.stderr] -> at
        lappend times $at
    }
    expr {[lindex $times 1] - [lindex $times 0]}
}
proc vurun {} {
    global conf
    regexp {System achieved ([\d.]+) NOPM} [read_file run.stderr] -> nopm
    set ramp_up [capture_seconds "Beginning rampup" "Rampup complete"]
    set window [capture_seconds "Rampup complete" "Test complete"]
    set pace [dict create now 0.05 fast 0.05 ramp_up [expr {60 * [setting pg_rampup] / $ramp_up}] window [expr {60 * [setting pg_duration] / $window}]]
    set ::database [open "|[psql] 2>@stderr" w]
    replay run.stderr $pace [expr {$nopm * [dict get $conf orders]}]
    catch {close $::database}
    return "Benchmark Run jobid=6B0DA219661803E273132313"
}
proc .ed_mainFrame.mainwin.textFrame.left.text {args} {}
proc build_pgtpcc {} {
    .ed_mainFrame.mainwin.textFrame.left.text fastinsert end {        set sql($stmnt_count) "ALTER USER \"$user\" PASSWORD '$password'"}
}
proc psql {} {
    global conf configpostgresql
    set connection [dict get $configpostgresql connection]
    return [list [dict get $conf psql] -X -q -w -h [dict get $connection pg_host] -p [dict get $connection pg_port] -U [setting pg_user] -d [setting pg_dbase]]
}
proc build_rows {} {
    cd [dict get $::conf builder]
    exec {*}[psql] -v mode=hammerdb -v warehouses=[setting pg_count_ware] -v partitions=0 -f schema.sql >@stderr 2>@1
    exec {*}[psql] -c "CALL tprocc_build.work('rows')" -c "CALL tprocc_build.work('indexes')" >@stderr 2>@1
    exec {*}[psql] -v partitions=0 -f finish.sql >@stderr 2>@1
}
proc buildschema {} {
    build_pgtpcc
    if {[dict get $::conf builder] ne {}} { build_rows }
    replay build.stderr {now 0.01 fast 0.01 window 0.01 ramp_up 0.01} 0
    return "Schema Build jobid=6B0DA1AA661803E243236313"
}
proc checkschema {} {
    replay checkschema.stderr {now 0.01 fast 0.01 window 0.01 ramp_up 0.01} 0
    return "Schema Check jobid=6B0DA20E661803E253139323"
}
proc jobs {id what} {
    if {[regexp "=== jobs \[0-9A-F\]+ $what\n@\[\\d.\]+ (.*?)\n@" [read_file run.stderr] -> text]} { puts $text }
}
source [lindex $argv 1]
