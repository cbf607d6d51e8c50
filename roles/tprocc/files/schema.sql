-- The TPROC-C tables as HammerDB declares them (names, columns in physical order, types, names of the keys), and the list of work
-- by which several sessions fill them. Keys and indexes come after the rows. psql variables: mode, warehouses, partitions.
-- A build that was interrupted is taken up: what it had committed stays, and nothing is created twice.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET search_path = public;
SELECT set_config('tprocc.wanted', jsonb_build_object('mode', :'mode', 'warehouses', :warehouses, 'partitions', :partitions)::text, false) AS wanted \gset
SELECT set_config('tprocc.found', obj_description(to_regnamespace('tprocc_build'), 'pg_namespace'), false) AS found \gset

DO $$
DECLARE
    wanted jsonb := current_setting('tprocc.wanted');
    found jsonb := nullif(current_setting('tprocc.found'), '');
    others text;
BEGIN
    IF found - 'complete' <> wanted THEN
        RAISE EXCEPTION 'the database holds a TPROC-C schema built for %, not for %', found - 'complete', wanted;
    END IF;
    SELECT string_agg(relname, ', ' ORDER BY relname) INTO others FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname IN
        ('warehouse', 'district', 'customer', 'history', 'new_order', 'orders', 'order_line', 'item', 'stock');
    IF found IS NULL AND others IS NOT NULL THEN
        RAISE EXCEPTION 'the database has tables that pgsizing did not build: %', others;
    END IF;
END
$$;

SELECT to_regnamespace('tprocc_build') IS NULL AS new \gset
\if :new
BEGIN;
CREATE SCHEMA tprocc_build;
SELECT format('COMMENT ON SCHEMA tprocc_build IS %L', :'wanted'::jsonb || '{"complete": false}') \gexec

CREATE TABLE warehouse (
    w_id integer NOT NULL,
    w_name varchar(10) NOT NULL,
    w_street_1 varchar(20) NOT NULL,
    w_street_2 varchar(20) NOT NULL,
    w_city varchar(20) NOT NULL,
    w_state char(2) NOT NULL,
    w_zip char(9) NOT NULL,
    w_tax numeric(4,4) NOT NULL,
    w_ytd numeric(16,2) NOT NULL
);
CREATE TABLE district (
    d_w_id integer NOT NULL,
    d_next_o_id integer NOT NULL,
    d_id smallint NOT NULL,
    d_ytd numeric(12,2) NOT NULL,
    d_tax numeric(4,4) NOT NULL,
    d_name varchar(10) NOT NULL,
    d_street_1 varchar(20) NOT NULL,
    d_street_2 varchar(20) NOT NULL,
    d_city varchar(20) NOT NULL,
    d_state char(2) NOT NULL,
    d_zip char(9) NOT NULL
);
CREATE TABLE customer (
    c_since timestamptz NOT NULL,
    c_id integer NOT NULL,
    c_w_id integer NOT NULL,
    c_d_id smallint NOT NULL,
    c_payment_cnt smallint NOT NULL,
    c_delivery_cnt smallint NOT NULL,
    c_first varchar(16) NOT NULL,
    c_middle char(2) NOT NULL,
    c_last varchar(16) NOT NULL,
    c_street_1 varchar(20) NOT NULL,
    c_street_2 varchar(20) NOT NULL,
    c_city varchar(20) NOT NULL,
    c_state char(2) NOT NULL,
    c_zip char(9) NOT NULL,
    c_phone char(16) NOT NULL,
    c_credit char(2) NOT NULL,
    c_credit_lim numeric(12,2) NOT NULL,
    c_discount numeric(4,4) NOT NULL,
    c_balance numeric(12,2) NOT NULL,
    c_ytd_payment numeric(12,2) NOT NULL,
    c_data varchar(500) NOT NULL
);
CREATE TABLE history (
    h_date timestamptz NOT NULL,
    h_c_id integer,
    h_c_w_id integer NOT NULL,
    h_w_id integer NOT NULL,
    h_c_d_id smallint NOT NULL,
    h_d_id smallint NOT NULL,
    h_amount numeric(6,2) NOT NULL,
    h_data varchar(24) NOT NULL
);
CREATE TABLE item (
    i_id integer NOT NULL,
    i_im_id integer NOT NULL,
    i_name varchar(24) NOT NULL,
    i_price numeric(5,2) NOT NULL,
    i_data varchar(50) NOT NULL
);
CREATE TABLE stock (
    s_i_id integer NOT NULL,
    s_w_id integer NOT NULL,
    s_ytd integer NOT NULL,
    s_quantity smallint NOT NULL,
    s_order_cnt smallint NOT NULL,
    s_remote_cnt smallint NOT NULL,
    s_dist_01 char(24) NOT NULL,
    s_dist_02 char(24) NOT NULL,
    s_dist_03 char(24) NOT NULL,
    s_dist_04 char(24) NOT NULL,
    s_dist_05 char(24) NOT NULL,
    s_dist_06 char(24) NOT NULL,
    s_dist_07 char(24) NOT NULL,
    s_dist_08 char(24) NOT NULL,
    s_dist_09 char(24) NOT NULL,
    s_dist_10 char(24) NOT NULL,
    s_data varchar(50) NOT NULL
);
CREATE TABLE orders (
    o_entry_d timestamptz NOT NULL,
    o_id integer NOT NULL,
    o_w_id integer NOT NULL,
    o_c_id integer NOT NULL,
    o_d_id smallint NOT NULL,
    o_carrier_id smallint,
    o_ol_cnt smallint NOT NULL,
    o_all_local smallint NOT NULL
);
CREATE TABLE new_order (
    no_w_id integer NOT NULL,
    no_o_id integer NOT NULL,
    no_d_id smallint NOT NULL
);
SELECT CASE WHEN :partitions > 0 THEN 'PARTITION BY HASH (ol_w_id)' ELSE '' END AS partitioning \gset
CREATE TABLE order_line (
    ol_delivery_d timestamptz,
    ol_o_id integer NOT NULL,
    ol_w_id integer NOT NULL,
    ol_i_id integer NOT NULL,
    ol_supply_w_id integer NOT NULL,
    ol_d_id smallint NOT NULL,
    ol_number smallint NOT NULL,
    ol_quantity smallint NOT NULL,
    ol_amount numeric(6,2),
    ol_dist_info char(24)
) :partitioning;
SELECT format('CREATE TABLE ol_%1$s PARTITION OF order_line FOR VALUES WITH (MODULUS %2$s, REMAINDER %1$s)', part, :partitions)
FROM generate_series(0, :partitions - 1) AS part \gexec

-- One row is one transaction: it is there wholly or not at all, so an interrupted build goes on where it stopped.
CREATE TABLE tprocc_build.work (
    id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    stage text NOT NULL,
    command text NOT NULL,
    done timestamptz
);
-- Nobody looks into the tables until they are complete: autovacuum would only read them in vain.
CREATE VIEW tprocc_build.filled AS
    SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    AND (relname IN ('warehouse', 'district', 'customer', 'history', 'new_order', 'orders', 'item', 'stock')
         OR (relname = 'order_line') OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'order_line'::regclass));
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', name) FROM tprocc_build.filled \gexec

-- Warehouse by warehouse, so that sessions are seldom at the end of the same table and what is done tells how long the rest takes;
-- small pieces last, so that the sessions end together.
INSERT INTO tprocc_build.work (stage, command)
SELECT 'rows', format('SELECT tprocc_build.load_%s(%s)', part, w_id)
FROM unnest(ARRAY['orders', 'stock', 'customers']) WITH ORDINALITY AS part (part, n), generate_series(1, :warehouses) AS w_id ORDER BY w_id, n;
INSERT INTO tprocc_build.work (stage, command)
SELECT 'rows', format('SELECT tprocc_build.load_items(%s, %s)', 1 + n * 20000, (n + 1) * 20000) FROM generate_series(0, 4) AS n;
INSERT INTO tprocc_build.work (stage, command) VALUES ('rows', format('SELECT tprocc_build.load_warehouses(%s)', :warehouses));

INSERT INTO tprocc_build.work (stage, command)
SELECT 'indexes', format('CREATE UNIQUE INDEX %s ON %s (ol_w_id, ol_d_id, ol_o_id, ol_number)', name || '_i1', name)
FROM tprocc_build.filled WHERE name NOT IN ('warehouse', 'district', 'customer', 'history', 'new_order', 'orders', 'item', 'stock') ORDER BY name;
INSERT INTO tprocc_build.work (stage, command) VALUES
    ('indexes', 'CREATE UNIQUE INDEX stock_i1 ON stock (s_i_id, s_w_id)'),
    ('indexes', 'CREATE UNIQUE INDEX customer_i2 ON customer (c_w_id, c_d_id, c_last, c_first, c_id)'),
    ('indexes', 'CREATE UNIQUE INDEX orders_i2 ON orders (o_w_id, o_d_id, o_c_id, o_id)'),
    ('indexes', 'CREATE UNIQUE INDEX orders_i1 ON orders (o_w_id, o_d_id, o_id)'),
    ('indexes', 'CREATE UNIQUE INDEX customer_i1 ON customer (c_w_id, c_d_id, c_id)'),
    ('indexes', 'CREATE UNIQUE INDEX new_order_i1 ON new_order (no_w_id, no_d_id, no_o_id)'),
    ('indexes', 'CREATE UNIQUE INDEX item_i1 ON item (i_id)'),
    ('indexes', 'CREATE UNIQUE INDEX district_i1 ON district (d_w_id, d_id)'),
    ('indexes', 'CREATE UNIQUE INDEX warehouse_i1 ON warehouse (w_id)');

-- Random strings to draw from, of the columns' own types: making one for each of some millions of values would take most of the
-- build. One in ten of data holds ORIGINAL, at a random place.
CREATE FUNCTION tprocc_build.string(shortest integer, longest integer) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(substr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789', 1 + floor(random() * 62)::integer, 1), '')
    FROM generate_series(1, shortest + floor(random() * (longest - shortest + 1))::integer)
$$;
CREATE TABLE tprocc_build.strings AS
SELECT n, tprocc_build.string(24, 24)::char(24) AS dist_1, tprocc_build.string(24, 24)::char(24) AS dist_2,
       tprocc_build.string(24, 24)::char(24) AS dist_3, tprocc_build.string(24, 24)::char(24) AS dist_4,
       tprocc_build.string(24, 24)::char(24) AS dist_5, tprocc_build.string(8, 16)::varchar(16) AS first,
       tprocc_build.string(10, 20)::varchar(20) AS street_1, tprocc_build.string(10, 20)::varchar(20) AS street_2,
       tprocc_build.string(10, 20)::varchar(20) AS city, upper(tprocc_build.string(2, 2))::char(2) AS state,
       (lpad(floor(random() * 10000)::text, 4, '0') || '11111')::char(9) AS zip,
       lpad(floor(random() * 1e16)::bigint::text, 16, '0')::char(16) AS phone,
       tprocc_build.string(6, 10)::varchar(10) AS name, tprocc_build.string(12, 24)::varchar(24) AS history,
       tprocc_build.string(14, 24)::varchar(24) AS item, tprocc_build.string(26, 50)::varchar(50) AS data,
       CASE WHEN n <= 128 THEN tprocc_build.string(150, 250)::varchar(250) END AS half
FROM generate_series(1, 1024) AS n;
UPDATE tprocc_build.strings SET data = overlay(data PLACING 'ORIGINAL' FROM 1 + floor(random() * (length(data) - 7))::integer)
WHERE n % 10 = 0;
-- The last names by their numbers.
CREATE TABLE tprocc_build.last_names AS
SELECT (a.n * 100 + b.n * 10 + c.n - 111)::integer AS n, (a.s || b.s || c.s)::varchar(16) AS last
FROM unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS a (s, n),
     unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS b (s, n),
     unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS c (s, n);
ANALYZE tprocc_build.strings;
ANALYZE tprocc_build.last_names;
COMMIT;
\else
\echo resumed
\endif
SELECT NOT (obj_description(to_regnamespace('tprocc_build'), 'pg_namespace')::jsonb ->> 'complete')::boolean AS unfinished \gset
\if :unfinished
\ir load.sql
\endif
\ir routines.sql
