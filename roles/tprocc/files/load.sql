-- How the rows are made, by the rules of TPC-C clause 4.3.3 as HammerDB applies them. Strings come from tprocc_build.strings, whose rows
-- are drawn by number.
CREATE OR REPLACE FUNCTION tprocc_build.draw(below integer) RETURNS integer LANGUAGE sql AS 'SELECT floor(random() * below)::integer';

CREATE OR REPLACE FUNCTION tprocc_build.load_items(first integer, last integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO item
    SELECT i, 1 + tprocc_build.draw(10000), a.item, (100 + tprocc_build.draw(9901)) * 0.01, b.data
    FROM (SELECT i, 1 + tprocc_build.draw(1024) AS a, 1 + tprocc_build.draw(1024) AS b FROM generate_series(first, last) AS i OFFSET 0) AS ids
    JOIN tprocc_build.strings AS a ON a.n = ids.a JOIN tprocc_build.strings AS b ON b.n = ids.b
$$;

CREATE OR REPLACE FUNCTION tprocc_build.load_warehouses(warehouses integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO warehouse
    SELECT w, name, street_1, street_2, city, state, zip, tprocc_build.draw(2001) * 0.0001, 300000
    FROM (SELECT w, 1 + tprocc_build.draw(1024) AS a FROM generate_series(1, warehouses) AS w OFFSET 0) AS ids
    JOIN tprocc_build.strings ON n = a;
    INSERT INTO district
    SELECT w, 3001, d, 30000, tprocc_build.draw(2001) * 0.0001, name, street_1, street_2, city, state, zip
    FROM (SELECT w, d, 1 + tprocc_build.draw(1024) AS a FROM generate_series(1, warehouses) AS w, generate_series(1, 10) AS d OFFSET 0) AS ids
    JOIN tprocc_build.strings ON n = a
$$;

CREATE OR REPLACE FUNCTION tprocc_build.load_stock(w integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO stock
    SELECT i, w, 0, 10 + tprocc_build.draw(91), 0, 0, a.dist_1, a.dist_2, a.dist_3, a.dist_4, a.dist_5,
           b.dist_1, b.dist_2, b.dist_3, b.dist_4, b.dist_5, c.data
    FROM (SELECT i, 1 + tprocc_build.draw(1024) AS a, 1 + tprocc_build.draw(1024) AS b, 1 + tprocc_build.draw(1024) AS c
          FROM generate_series(1, 100000) AS i OFFSET 0) AS ids
    JOIN tprocc_build.strings AS a ON a.n = ids.a JOIN tprocc_build.strings AS b ON b.n = ids.b JOIN tprocc_build.strings AS c ON c.n = ids.c
$$;

-- Last names: the first 1000 customers of a district have one each, the others by NURand(255, 0, 999) with C = 123, as in the run.
CREATE OR REPLACE FUNCTION tprocc_build.load_customers(w integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO customer
    SELECT now(), c, w, d, 1, 0, a.first, 'OE', last, b.street_1, b.street_2, b.city, b.state, b.zip, a.phone,
           CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, tprocc_build.draw(5001) * 0.0001, -10, 10, x.half || y.half
    FROM (SELECT d, c, 1 + tprocc_build.draw(1024) AS a, 1 + tprocc_build.draw(1024) AS b,
                 1 + tprocc_build.draw(128) AS x, 1 + tprocc_build.draw(128) AS y,
                 CASE WHEN c <= 1000 THEN c - 1 ELSE ((tprocc_build.draw(256) | tprocc_build.draw(1000)) + 123) % 1000 END AS l
          FROM generate_series(1, 10) AS d, generate_series(1, 3000) AS c OFFSET 0) AS ids
    JOIN tprocc_build.strings AS a ON a.n = ids.a JOIN tprocc_build.strings AS b ON b.n = ids.b
    JOIN tprocc_build.strings AS x ON x.n = ids.x JOIN tprocc_build.strings AS y ON y.n = ids.y
    JOIN tprocc_build.last_names AS names ON names.n = ids.l;
    INSERT INTO history
    SELECT now(), c, w, w, d, d, 10, history
    FROM (SELECT d, c, 1 + tprocc_build.draw(1024) AS a FROM generate_series(1, 10) AS d, generate_series(1, 3000) AS c OFFSET 0) AS ids
    JOIN tprocc_build.strings ON n = a
$$;

-- Orders 2101 to 3000 of each district are not delivered yet.
CREATE OR REPLACE FUNCTION tprocc_build.load_orders(w integer) RETURNS void LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO orders
        SELECT now(), o, w, c, d, CASE WHEN o < 2101 THEN 1 + tprocc_build.draw(10) END, 5 + tprocc_build.draw(11), 1
        FROM (SELECT d, c, row_number() OVER (PARTITION BY d ORDER BY random()) AS o
              FROM generate_series(1, 10) AS d, generate_series(1, 3000) AS c) AS shuffled
        RETURNING o_entry_d, o_id, o_d_id, o_ol_cnt
    )
    INSERT INTO order_line
    SELECT CASE WHEN o_id < 2101 THEN o_entry_d END, o_id, w, 1 + tprocc_build.draw(100000), w, o_d_id, number, 5,
           CASE WHEN o_id < 2101 THEN 0::numeric(6,2) ELSE ((1 + tprocc_build.draw(999999)) * 0.01)::numeric(6,2) END, dist_1
    FROM (SELECT o_entry_d, o_id, o_d_id, generate_series(1, o_ol_cnt) AS number, 1 + tprocc_build.draw(1024) AS a FROM made OFFSET 0) AS lines
    JOIN tprocc_build.strings ON n = a;
    INSERT INTO new_order SELECT w, o, d FROM generate_series(1, 10) AS d, generate_series(2101, 3000) AS o
$$;

-- Do what is left of a stage, one piece after the other beside other sessions that do the same.
CREATE OR REPLACE PROCEDURE tprocc_build.work(wanted text) LANGUAGE plpgsql AS $$
DECLARE
    piece tprocc_build.work;
    ready integer;
    pieces integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', false), set_config('jit', 'off', false), set_config('work_mem', '64MB', false);
    LOOP
        SELECT * INTO piece FROM tprocc_build.work WHERE stage = wanted AND done IS NULL ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1;
        EXIT WHEN NOT FOUND;
        EXECUTE piece.command;
        UPDATE tprocc_build.work SET done = clock_timestamp() WHERE id = piece.id;
        COMMIT;
        SELECT count(done), count(*) INTO ready, pieces FROM tprocc_build.work WHERE stage = wanted;
        RAISE NOTICE '%: % of % done', wanted, ready, pieces;
    END LOOP;
END
$$;
