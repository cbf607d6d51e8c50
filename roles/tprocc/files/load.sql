-- How the rows are made, by the rules of TPC-C clause 4.3.3 as HammerDB applies them. Strings are drawn from arrays of the type name:
-- its values have one length, so an element is found without a walk through those before it.
CREATE OR REPLACE FUNCTION tprocc_build.strings(wanted text) RETURNS name[] LANGUAGE sql AS
$$ SELECT array_agg(string::name) FROM tprocc_build.strings WHERE kind = wanted $$;

-- The last names by their numbers 0 to 999, from index 1 on.
CREATE OR REPLACE FUNCTION tprocc_build.last_names() RETURNS name[] LANGUAGE sql AS $$
    SELECT array_agg((a.s || b.s || c.s)::name ORDER BY a.n, b.n, c.n)
    FROM unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS a (s, n),
         unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS b (s, n),
         unnest('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]) WITH ORDINALITY AS c (s, n)
$$;

CREATE OR REPLACE FUNCTION tprocc_build.load_items() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names name[] := tprocc_build.strings('item');
    datas name[] := tprocc_build.strings('data');
BEGIN
    INSERT INTO item
    SELECT i, 1 + floor(random() * 10000)::integer, names[1 + floor(random() * 4096)::integer],
           ((100 + floor(random() * 9901)) / 100)::numeric(5,2), datas[1 + floor(random() * 4096)::integer]
    FROM (SELECT generate_series(1, 100000) AS i) AS ids;
END
$$;

CREATE OR REPLACE FUNCTION tprocc_build.load_warehouses(warehouses integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names name[] := tprocc_build.strings('name');
    address name[] := tprocc_build.strings('address');
BEGIN
    INSERT INTO warehouse
    SELECT w, names[1 + floor(random() * 1024)::integer], address[1 + floor(random() * 4096)::integer],
           address[1 + floor(random() * 4096)::integer], address[1 + floor(random() * 4096)::integer],
           upper(left(address[1 + floor(random() * 4096)::integer], 2)), lpad(floor(random() * 10000)::text, 4, '0') || '11111',
           (floor(random() * 2001) / 10000)::numeric(4,4), 300000.00
    FROM (SELECT generate_series(1, warehouses) AS w) AS ids;
    INSERT INTO district
    SELECT w, 3001, d, 30000.00, (floor(random() * 2001) / 10000)::numeric(4,4), names[1 + floor(random() * 1024)::integer],
           address[1 + floor(random() * 4096)::integer], address[1 + floor(random() * 4096)::integer], address[1 + floor(random() * 4096)::integer],
           upper(left(address[1 + floor(random() * 4096)::integer], 2)), lpad(floor(random() * 10000)::text, 4, '0') || '11111'
    FROM generate_series(1, warehouses) AS w, generate_series(1, 10) AS d;
END
$$;

CREATE OR REPLACE FUNCTION tprocc_build.load_stock(w integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    dist name[] := tprocc_build.strings('dist');
    datas name[] := tprocc_build.strings('data');
BEGIN
    INSERT INTO stock
    SELECT i, w, 0, 10 + floor(random() * 91)::integer, 0, 0,
           dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer],
           dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer],
           dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer], dist[1 + (random() * 4095)::integer],
           dist[1 + (random() * 4095)::integer], datas[1 + floor(random() * 4096)::integer]
    FROM (SELECT generate_series(1, 100000) AS i) AS ids;
END
$$;

-- Last names: the first 1000 customers of a district have one each, the others by NURand(255, 0, 999) with C = 123, as in the run.
CREATE OR REPLACE FUNCTION tprocc_build.load_customers(w integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    firsts name[] := tprocc_build.strings('first');
    lasts name[] := tprocc_build.last_names();
    address name[] := tprocc_build.strings('address');
    states name[] := ARRAY(SELECT upper(left(string, 2))::name FROM tprocc_build.strings WHERE kind = 'address');
    zips name[] := ARRAY(SELECT (lpad(zip::text, 4, '0') || '11111')::name FROM generate_series(0, 9999) AS zip);
    phones name[] := ARRAY(SELECT lpad(floor(random() * 1e16)::bigint::text, 16, '0')::name FROM generate_series(1, 4096));
    halves text[] := ARRAY(SELECT string FROM tprocc_build.strings WHERE kind = 'half');
    texts name[] := tprocc_build.strings('history');
    limit_ numeric(12,2) := 50000;
    balance numeric(12,2) := -10;
    paid numeric(12,2) := 10;
    amount numeric(6,2) := 10;
BEGIN
    INSERT INTO customer
    SELECT now(), c, w, d, 1, 0, firsts[1 + (random() * 4095)::integer], 'OE',
           lasts[CASE WHEN c <= 1000 THEN c
                 ELSE 1 + ((floor(random() * 256)::integer | floor(random() * 1000)::integer) + 123) % 1000 END],
           address[1 + (random() * 4095)::integer], address[1 + (random() * 4095)::integer], address[1 + (random() * 4095)::integer],
           states[1 + (random() * 4095)::integer], zips[1 + (random() * 9999)::integer], phones[1 + (random() * 4095)::integer],
           CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, limit_, floor(random() * 5001)::integer * 0.0001, balance, paid,
           halves[1 + floor(random() * 64)::integer] || halves[1 + floor(random() * 64)::integer]
    FROM (SELECT d, generate_series(1, 3000) AS c FROM generate_series(1, 10) AS d) AS ids;
    INSERT INTO history
    SELECT now(), c, w, w, d, d, amount, texts[1 + (random() * 1023)::integer]
    FROM (SELECT d, generate_series(1, 3000) AS c FROM generate_series(1, 10) AS d) AS ids;
END
$$;

-- Orders 2101 to 3000 of each district are not delivered yet.
CREATE OR REPLACE FUNCTION tprocc_build.load_orders(w integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    dist name[] := tprocc_build.strings('dist');
    nothing numeric(6,2) := 0;
BEGIN
    WITH made AS (
        INSERT INTO orders
        SELECT now(), o, w, c, d, CASE WHEN o < 2101 THEN 1 + floor(random() * 10)::integer END, 5 + floor(random() * 11)::integer, 1
        FROM (SELECT d, c, row_number() OVER (PARTITION BY d ORDER BY random()) AS o
              FROM generate_series(1, 10) AS d, generate_series(1, 3000) AS c) AS shuffled
        RETURNING o_id, o_d_id, o_ol_cnt
    )
    INSERT INTO order_line
    SELECT CASE WHEN o_id < 2101 THEN now() END, o_id, w, 1 + floor(random() * 100000)::integer, w, o_d_id, number, 5,
           CASE WHEN o_id < 2101 THEN nothing ELSE ((1 + floor(random() * 999999)::integer) * 0.01)::numeric(6,2) END,
           dist[1 + (random() * 4095)::integer]
    FROM (SELECT o_id, o_d_id, generate_series(1, o_ol_cnt) AS number FROM made) AS lines;
    INSERT INTO new_order SELECT w, o, d FROM generate_series(1, 10) AS d, generate_series(2101, 3000) AS o;
END
$$;

-- Do what is left of a stage, one piece after the other beside other sessions that do the same.
CREATE OR REPLACE PROCEDURE tprocc_build.work(wanted text) LANGUAGE plpgsql AS $$
DECLARE
    piece tprocc_build.work;
    ready integer;
    pieces integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', false);
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
