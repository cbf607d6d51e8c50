-- The five transactions as procedures, with the names and parameters by which HammerDB calls its own. The bodies do the same work:
-- see docs/tprocc.md for what that is, and where it departs from the TPC-C specification.

CREATE OR REPLACE PROCEDURE neword(
    no_w_id integer, no_max_w_id integer, no_d_id integer, no_c_id integer, no_o_ol_cnt integer,
    INOUT no_c_discount numeric, INOUT no_c_last varchar, INOUT no_c_credit varchar, INOUT no_d_tax numeric, INOUT no_w_tax numeric,
    INOUT no_d_next_o_id integer, tstamp timestamp
) LANGUAGE plpgsql AS $$
DECLARE
    items integer[];
    suppliers integer[];
    quantities smallint[];
    all_local smallint := 1;
    price_factor numeric;
BEGIN
    SELECT c_discount, c_last, c_credit, w_tax INTO no_c_discount, no_c_last, no_c_credit, no_w_tax
    FROM customer, warehouse
    WHERE w_id = no_w_id AND c_w_id = no_w_id AND c_d_id = no_d_id AND c_id = no_c_id;

    FOR line IN 1 .. no_o_ol_cnt LOOP
        items[line] := 1 + floor(random() * 100000);
        suppliers[line] := no_w_id;
        IF random() < 0.01 AND no_max_w_id > 1 THEN  -- one line in a hundred comes from another warehouse
            suppliers[line] := 1 + (no_w_id + floor(random() * (no_max_w_id - 1))::integer) % no_max_w_id;
            all_local := 0;
        END IF;
        quantities[line] := 1 + floor(random() * 10);
    END LOOP;
    IF random() < 0.01 THEN  -- one order in a hundred asks for an item that does not exist
        items[no_o_ol_cnt] := 100001;
    END IF;

    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = no_w_id AND d_id = no_d_id
    RETURNING d_next_o_id - 1, d_tax INTO no_d_next_o_id, no_d_tax;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (no_d_next_o_id, no_d_id, no_w_id, no_c_id, tstamp, no_o_ol_cnt, all_local);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (no_d_next_o_id, no_d_id, no_w_id);

    price_factor := (1 + no_w_tax + no_d_tax) * (1 - no_c_discount);
    WITH line AS MATERIALIZED (
        SELECT number, item, supplier, quantity, i_price * quantity * price_factor AS amount
        FROM unnest(items, suppliers, quantities) WITH ORDINALITY AS l (item, supplier, quantity, number) LEFT JOIN item ON i_id = item
    ), taken AS (
        UPDATE stock SET s_quantity = s_quantity - wanted.quantity + CASE WHEN s_quantity < wanted.quantity + 10 THEN 91 ELSE 0 END
        FROM (SELECT item, supplier, sum(quantity)::smallint AS quantity FROM line GROUP BY item, supplier ORDER BY item, supplier) AS wanted
        WHERE s_i_id = wanted.item AND s_w_id = wanted.supplier
        RETURNING s_i_id, s_w_id, CASE no_d_id
            WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05
            WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS dist
    )
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
    SELECT no_d_next_o_id, no_d_id, no_w_id, number, item, supplier, quantity, amount, dist
    FROM line LEFT JOIN taken ON s_i_id = item AND s_w_id = supplier;
END
$$;

CREATE OR REPLACE PROCEDURE payment(
    p_w_id integer, p_d_id integer, p_c_w_id integer, p_c_d_id integer, byname integer, p_h_amount numeric,
    INOUT p_c_credit char, INOUT p_c_last varchar, INOUT p_c_id integer,
    INOUT p_w_street_1 varchar, INOUT p_w_street_2 varchar, INOUT p_w_city varchar, INOUT p_w_state char, INOUT p_w_zip char,
    INOUT p_d_street_1 varchar, INOUT p_d_street_2 varchar, INOUT p_d_city varchar, INOUT p_d_state char, INOUT p_d_zip char,
    INOUT p_c_first varchar, INOUT p_c_middle char, INOUT p_c_street_1 varchar, INOUT p_c_street_2 varchar, INOUT p_c_city varchar,
    INOUT p_c_state char, INOUT p_c_zip char, INOUT p_c_phone char, INOUT p_c_since timestamp, INOUT p_c_credit_lim numeric,
    INOUT p_c_discount numeric, INOUT p_c_balance numeric, INOUT p_c_data varchar, tstamp timestamp
) LANGUAGE plpgsql AS $$
DECLARE
    w_name_ varchar(10);
    d_name_ varchar(10);
    matches integer;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + p_h_amount WHERE w_id = p_w_id
    RETURNING w_street_1, w_street_2, w_city, w_state, w_zip, w_name INTO p_w_street_1, p_w_street_2, p_w_city, p_w_state, p_w_zip, w_name_;
    UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_street_1, d_street_2, d_city, d_state, d_zip, d_name INTO p_d_street_1, p_d_street_2, p_d_city, p_d_state, p_d_zip, d_name_;

    IF byname = 1 THEN  -- the one in the middle by first name
        SELECT count(*) INTO matches FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
        SELECT c_id INTO p_c_id FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
        ORDER BY c_first OFFSET greatest(0, (matches - 1) / 2) LIMIT 1;
    END IF;
    SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, c_discount, c_since
    INTO p_c_first, p_c_middle, p_c_last, p_c_street_1, p_c_street_2, p_c_city, p_c_state, p_c_zip, p_c_phone, p_c_credit, p_c_credit_lim,
         p_c_discount, p_c_since
    FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;

    IF p_c_credit = 'BC' THEN
        UPDATE customer SET c_balance = c_balance - p_h_amount,
            c_data = left(concat_ws(' ', p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, p_h_amount) || ' | ' || c_data, 500)
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
        RETURNING c_balance, left(c_data, 200) INTO p_c_balance, p_c_data;
    ELSE
        UPDATE customer SET c_balance = c_balance - p_h_amount WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
        RETURNING c_balance INTO p_c_balance;
    END IF;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, tstamp, p_h_amount, w_name_ || '    ' || d_name_);
END
$$;

CREATE OR REPLACE PROCEDURE delivery(d_w_id integer, d_o_carrier_id integer, tstamp timestamp) LANGUAGE plpgsql AS $$
DECLARE
    districts smallint[];
    order_ids integer[];
    customers integer[];
    amounts numeric[];
BEGIN
    -- the oldest order that is not delivered, of each district
    WITH oldest AS (
        SELECT d, (SELECT min(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d) AS o FROM generate_series(1, 10) AS d
    ), taken AS (
        DELETE FROM new_order USING oldest WHERE no_w_id = d_w_id AND no_d_id = d AND no_o_id = o RETURNING no_d_id, no_o_id
    )
    SELECT array_agg(no_d_id ORDER BY no_d_id), array_agg(no_o_id ORDER BY no_d_id) INTO districts, order_ids FROM taken;

    WITH changed AS (
        UPDATE orders SET o_carrier_id = d_o_carrier_id FROM unnest(districts, order_ids) AS taken (d, o)
        WHERE o_w_id = d_w_id AND o_d_id = d AND o_id = o RETURNING o_d_id, o_c_id
    )
    SELECT array_agg(o_d_id ORDER BY o_d_id), array_agg(o_c_id ORDER BY o_d_id) INTO districts, customers FROM changed;

    WITH changed AS (
        UPDATE order_line SET ol_delivery_d = tstamp FROM unnest(districts, order_ids) AS taken (d, o)
        WHERE ol_w_id = d_w_id AND ol_d_id = d AND ol_o_id = o RETURNING ol_d_id, ol_amount
    ), sums AS (
        SELECT ol_d_id, coalesce(sum(ol_amount), 0) AS amount FROM changed GROUP BY ol_d_id
    )
    SELECT array_agg(amount ORDER BY ol_d_id) INTO amounts FROM sums;

    UPDATE customer SET c_balance = c_balance + amount FROM unnest(districts, customers, amounts) AS owed (d, c, amount)
    WHERE c_w_id = d_w_id AND c_d_id = d AND c_id = c;
END
$$;

CREATE OR REPLACE PROCEDURE ostat(
    os_w_id integer, os_d_id integer, INOUT os_c_id integer, byname integer, INOUT os_c_last varchar, INOUT os_c_first varchar,
    INOUT os_c_middle varchar, INOUT os_c_balance numeric, INOUT os_o_id integer, INOUT os_entdate timestamp,
    INOUT os_o_carrier_id integer, INOUT os_c_line text DEFAULT ''
) LANGUAGE plpgsql AS $$
DECLARE
    matches integer;
BEGIN
    IF byname = 1 THEN
        SELECT count(*) INTO matches FROM customer WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_last = os_c_last;
        SELECT c_id INTO os_c_id FROM customer WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_last = os_c_last
        ORDER BY c_first OFFSET greatest(0, (matches - 1) / 2) LIMIT 1;
    END IF;
    SELECT c_balance, c_first, c_middle, c_last INTO os_c_balance, os_c_first, os_c_middle, os_c_last
    FROM customer WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_id = os_c_id;
    SELECT o_id, o_carrier_id, o_entry_d INTO os_o_id, os_o_carrier_id, os_entdate
    FROM orders WHERE o_w_id = os_w_id AND o_d_id = os_d_id AND o_c_id = os_c_id ORDER BY o_id DESC LIMIT 1;
    SELECT string_agg(concat_ws(',', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d), ',') INTO os_c_line
    FROM order_line WHERE ol_w_id = os_w_id AND ol_d_id = os_d_id AND ol_o_id = os_o_id;
END
$$;

CREATE OR REPLACE PROCEDURE slev(st_w_id integer, st_d_id integer, threshold integer, INOUT stock_count integer) LANGUAGE plpgsql AS $$
DECLARE
    next_o_id integer;
BEGIN
    -- A range between columns of another table is taken for a ninth of a district's lines: then the whole stock of a warehouse is read.
    SELECT d_next_o_id INTO next_o_id FROM district WHERE d_w_id = st_w_id AND d_id = st_d_id;
    SELECT count(DISTINCT s_i_id) INTO stock_count
    FROM order_line, stock
    WHERE ol_w_id = st_w_id AND ol_d_id = st_d_id AND ol_o_id < next_o_id AND ol_o_id >= next_o_id - 20
      AND s_w_id = st_w_id AND s_i_id = ol_i_id AND s_quantity < threshold;
END
$$;
