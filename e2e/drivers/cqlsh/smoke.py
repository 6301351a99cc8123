"""Smoke test of cqlsh: smoke.py HOST[,HOST] DATACENTER. Runs the real cqlsh as a person does and reads what it prints."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

host = sys.argv[1].split(",")[0]
cqlsh = pathlib.Path(sys.executable).parent / "cqlsh"
KS = "smoke_cqlsh"
passed = failed = 0


def run(text, arguments=(), expect_failure=False):
    """Run statements in one cqlsh and return what it printed, without the version warning."""
    with tempfile.NamedTemporaryFile("w", suffix=".cql") as file:
        file.write(text)
        file.flush()
        command = [cqlsh, host, "--no-color", "--request-timeout=60", *arguments, "-f", file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, "HOME": folder})
    errors, output = ("\n".join(line for line in text.splitlines() if not line.startswith("WARNING: cqlsh was built against"))
                      for text in (done.stderr, done.stdout))
    if (done.returncode != 0 or bool(errors.strip())) != expect_failure:
        raise AssertionError(f"exit code {done.returncode}: {errors.strip()[:600]} {output.strip()[:300]}")
    return output + (errors if expect_failure else "")


def check(name, work):
    global passed, failed
    try:
        work()
        passed += 1
        print(f"ok {name}", flush=True)
    except Exception as error:
        failed += 1
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text[:1500]!r}"


def table(text):
    """The rows of the one table in the output, as lists of stripped cells."""
    lines = [line for line in text.splitlines() if " | " in line]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


folder_object = tempfile.TemporaryDirectory()
folder = folder_object.name
check("connect", lambda: has(run("SHOW VERSION; SHOW HOST;"), "cqlsh 6.2.0", "Native protocol v5", host))
check("connect with v4", lambda: has(run("SHOW VERSION;", ["--protocol-version=4"]), "Native protocol v4"))


def schema():
    run(f"""DROP KEYSPACE IF EXISTS {KS};
        CREATE KEYSPACE {KS} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
        CREATE TABLE {KS}.types (k int PRIMARY KEY, c_ascii ascii, c_bigint bigint, c_blob blob, c_boolean boolean, c_date date, c_decimal decimal,
          c_double double, c_duration duration, c_float float, c_inet inet, c_smallint smallint, c_text text, c_time time, c_timestamp timestamp,
          c_timeuuid timeuuid, c_tinyint tinyint, c_uuid uuid, c_varint varint, c_list list<int>, c_set set<text>, c_map map<text, int>,
          c_frozen frozen<map<int, text>>);
        CREATE TABLE {KS}.wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'wide rows';
        CREATE TABLE {KS}.copied (k int PRIMARY KEY, v text, l list<int>);""")


check("create keyspace and tables", schema)


def insert():
    run(f"""INSERT INTO {KS}.types (k, c_ascii, c_bigint, c_blob, c_boolean, c_date, c_decimal, c_double, c_duration, c_float, c_inet, c_smallint, c_text,
          c_time, c_timestamp, c_timeuuid, c_tinyint, c_uuid, c_varint, c_list, c_set, c_map, c_frozen) VALUES (1, 'ascii', -9223372036854775808, 0x00ff10,
          true, '2024-02-29', -123.4567890123456789, 1.5e-10, 1y2mo3d4s, -2.25, '10.1.2.3', 32767, 'tëxt ☃', '13:14:15.123456789',
          '2024-02-29T12:34:56.789Z', 50554d6e-29bb-11e5-b345-feff819cdc9f, -128, 550e8400-e29b-41d4-a716-446655440000, -123456789012345678901234567890,
          [3, 1, 2, 1], {{'b', 'a'}}, {{'y': 2, 'x': 1}}, {{1: 'one'}});""")
    text = run(f"EXPAND ON; SELECT * FROM {KS}.types;")
    has(text, "| ascii", "-9223372036854775808", "0x00ff10", "True", "2024-02-29", "-123.4567890123456789", "1.5e-10", "1y2mo3d4s", "-2.25", "10.1.2.3",
        "32767", "tëxt ☃", "13:14:15.123456789", "2024-02-29 12:34:56.789000+0000", "50554d6e-29bb-11e5-b345-feff819cdc9f", "-128",
        "550e8400-e29b-41d4-a716-446655440000", "-123456789012345678901234567890", "[3, 1, 2, 1]", "{'a', 'b'}", "{'x': 1, 'y': 2}", "{1: 'one'}")


check("insert and select of all types", insert)


def change():
    text = run(f"""UPDATE {KS}.types SET c_smallint = 7, c_list = c_list + [4] WHERE k = 1;
        DELETE c_text FROM {KS}.types WHERE k = 1; SELECT c_smallint, c_list, c_text FROM {KS}.types WHERE k = 1;""")
    assert table(text)[1] == ["7", "[3, 1, 2, 1, 4]", "null"], text
    has(run(f"DELETE FROM {KS}.types WHERE k = 1; SELECT k FROM {KS}.types;"), "(0 rows)")


check("update and delete", change)


def ttl():
    text = run(f"""INSERT INTO {KS}.copied (k, v) VALUES (1, 'short') USING TTL 2; INSERT INTO {KS}.copied (k, v) VALUES (2, 'x') USING TIMESTAMP 2000;
        INSERT INTO {KS}.copied (k, v) VALUES (2, 'old') USING TIMESTAMP 1000; SELECT v, writetime(v) FROM {KS}.copied WHERE k = 2;""")
    assert table(text)[1] == ["x", "2000"], text
    time.sleep(3)
    has(run(f"SELECT * FROM {KS}.copied WHERE k = 1;"), "(0 rows)")


check("TTL and USING TIMESTAMP", ttl)
ROWS = 10_000


def copy_from():
    path = pathlib.Path(folder) / "in.csv"
    path.write_text("".join(f'{k},"value, {k}","[{k}, 1]"\n' for k in range(ROWS)))
    text = run(f"COPY {KS}.copied (k, v, l) FROM '{path}' WITH NUMPROCESSES = 1;")
    has(text, f"{ROWS} rows imported")


check("COPY FROM of 10,000 rows", copy_from)


def paging():
    text = run(f"PAGING 100; SELECT k, v FROM {KS}.copied;")
    found = sorted(int(cells[0]) for cells in table(text) if cells[0].isdigit())
    assert found == list(range(ROWS)), f"{len(found)} rows"


check("paging over the whole table", paging)


def copy_to():
    path = pathlib.Path(folder) / "out.csv"
    has(run(f"COPY {KS}.copied (k, v, l) TO '{path}' WITH NUMPROCESSES = 1 AND PAGESIZE = 500;"), f"{ROWS} rows exported")
    assert sorted(path.read_text().splitlines()) == sorted(f'{k},"value, {k}","[{k}, 1]"' for k in range(ROWS))


check("COPY TO of 10,000 rows", copy_to)


def batch():
    statements = "".join(f"INSERT INTO {KS}.wide (p, c, v) VALUES (1, {c}, 'v{c}'); " for c in range(20))
    text = run(f"BEGIN UNLOGGED BATCH {statements} APPLY BATCH; SELECT c FROM {KS}.wide WHERE p = 1 AND c > 10 LIMIT 3;")
    numbers = [line.strip() for line in text.splitlines() if line.strip().isdigit()]
    assert numbers == ["19", "18", "17"], text


check("unlogged batch and slice", batch)


def describe():
    has(run(f"DESCRIBE KEYSPACES;"), KS, "system_schema")
    text = run(f"DESCRIBE KEYSPACE {KS};")
    has(text, f"CREATE KEYSPACE {KS} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': '1'}}", f"CREATE TABLE {KS}.wide (", "s text static",
        "WITH CLUSTERING ORDER BY (c DESC)", "comment = 'wide rows'", "c_frozen frozen<map<int, text>>")
    has(run(f"USE {KS}; DESCRIBE TABLES;"), "copied", "types", "wide")
    has(run(f"DESCRIBE TABLE {KS}.wide;"), "PRIMARY KEY (p, c)", "additional_write_policy")
    has(run("DESCRIBE CLUSTER;"), "Murmur3Partitioner", "Cluster:")
    has(run(f"DESC SCHEMA;"), f"CREATE TABLE {KS}.types")


check("DESCRIBE", describe)


def described_schema_runs():
    text = run(f"DESCRIBE TABLE {KS}.wide;").replace(f"{KS}.wide", f"{KS}.again")
    run(text)
    again = run(f"DESCRIBE TABLE {KS}.again;").replace(f"{KS}.again", f"{KS}.wide")
    assert again == run(f"DESCRIBE TABLE {KS}.wide;")


check("what DESCRIBE prints can be run", described_schema_runs)


def errors():
    has(run("SELECT * FROM nowhere.t;", expect_failure=True), "keyspace nowhere does not exist")
    has(run("SELEC;", expect_failure=True), "SyntaxException")
    has(run(f"INSERT INTO {KS}.copied (k) VALUES ('x');", expect_failure=True), 'Invalid STRING constant (x) for "k" of type int')


check("errors", errors)
check("CONSISTENCY", lambda: has(run(f"CONSISTENCY QUORUM; SELECT v FROM {KS}.copied WHERE k = 5;"), "Consistency level set to QUORUM", "value, 5"))
check("JSON", lambda: has(run(f"SELECT JSON k, v FROM {KS}.copied WHERE k = 5;"), '{"k": 5, "v": "value, 5"}'))
check("system tables", lambda: has(run("SELECT data_center FROM system.local; SELECT peer FROM system.peers;"), sys.argv[2]))
check("drop keyspace", lambda: run(f"DROP KEYSPACE {KS};"))
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
