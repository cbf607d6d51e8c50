-- What the window is measured by. First every session of the load generator must be gone: a session adds to the counters as it ends
-- (before version 15 a message to the collector took up to half a second more).
\set ON_ERROR_STOP on
SET search_path = public;
DO $$
BEGIN
    FOR try IN 1 .. 100 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pgbench');
        PERFORM pg_sleep(0.05);
    END LOOP;
    IF current_setting('server_version_num')::integer < 150000 THEN
        PERFORM pg_sleep(1);
    END IF;
    PERFORM pg_stat_clear_snapshot();
END
$$;
SELECT json_build_object(
    'at', extract(epoch FROM clock_timestamp()),
    'next_o_ids', (SELECT sum(d_next_o_id) FROM district),
    'commits', xact_commit, 'rollbacks', xact_rollback, 'deadlocks', deadlocks,
    'database_bytes', pg_database_size(datid),
    'server_version', current_setting('server_version'),
    'server_started', extract(epoch FROM pg_postmaster_start_time()))
FROM pg_stat_database WHERE datname = current_database();
