-- Keys on the indexes that are there, and the mark that the build is complete. psql variable: partitions.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET search_path = public;
DO $$
DECLARE
    left_over integer;
BEGIN
    SELECT count(*) INTO left_over FROM tprocc_build.work WHERE done IS NULL;
    IF left_over > 0 THEN
        RAISE EXCEPTION 'the build is not complete: % pieces of work are left', left_over;
    END IF;
END
$$;
SELECT obj_description(to_regnamespace('tprocc_build'), 'pg_namespace') AS built \gset
SELECT NOT (:'built'::jsonb ->> 'complete')::boolean AS unfinished \gset
\if :unfinished
BEGIN;
SELECT format('ALTER TABLE %s RESET (autovacuum_enabled)', name) FROM tprocc_build.filled \gexec
SELECT format('ALTER TABLE %1$s ADD CONSTRAINT %1$s_i1 PRIMARY KEY USING INDEX %1$s_i1', name) FROM tprocc_build.filled WHERE name <> 'history' \gexec
SELECT 'ALTER TABLE order_line ADD CONSTRAINT order_line_i1 PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)' WHERE :partitions > 0 \gexec
DROP VIEW tprocc_build.filled;
DROP TABLE tprocc_build.strings, tprocc_build.last_names;
SELECT format('COMMENT ON SCHEMA tprocc_build IS %L', :'built'::jsonb || '{"complete": true}') \gexec
COMMIT;
\endif
