"""Smoke test of the Python driver: smoke.py HOST[,HOST] DATACENTER"""
import datetime
import decimal
import math
import sys
import time
import uuid

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

hosts, datacenter = sys.argv[1].split(","), sys.argv[2]
passed = failed = 0


def check(name, work):
    """Run one check; what it returns must be true or None."""
    global passed, failed
    try:
        result = work()
        assert result is None or result is True, f"got {result!r}"
        passed += 1
        print(f"ok {name}", flush=True)
    except Exception as error:  # every failure is one line, whatever it is
        failed += 1
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)


def same(actual, expected):
    assert actual == expected, f"got {actual!r}, expected {expected!r}"


def connect():
    profile = ExecutionProfile(load_balancing_policy=DCAwareRoundRobinPolicy(local_dc=datacenter), request_timeout=30)
    return Cluster(hosts, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=10)


cluster = connect()
session = cluster.connect()
print(f"ok connect (protocol v{cluster.protocol_version})", flush=True)
passed += 1
KS = "smoke_python"

SCALARS = {
    "c_ascii": ("ascii", "ascii"), "c_bigint": ("bigint", -(2**63)), "c_blob": ("blob", b"\x00\xff\x10"), "c_boolean": ("boolean", True),
    "c_date": ("date", Date(datetime.date(2024, 2, 29))), "c_decimal": ("decimal", decimal.Decimal("-123.4567890123456789")),
    "c_double": ("double", 1.5e-10), "c_duration": ("duration", Duration(14, 3, 4000000005)), "c_float": ("float", -2.25),
    "c_inet": ("inet", "10.1.2.3"), "c_int": ("int", -(2**31)), "c_smallint": ("smallint", 32767), "c_text": ("text", "tëxt ☃"),
    "c_time": ("time", Time("13:14:15.123456789")), "c_timestamp": ("timestamp", datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)),
    "c_timeuuid": ("timeuuid", uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")), "c_tinyint": ("tinyint", -128),
    "c_uuid": ("uuid", uuid.UUID("550e8400-e29b-41d4-a716-446655440000")), "c_varchar": ("varchar", ""),
    "c_varint": ("varint", -123456789012345678901234567890),
}
COLLECTIONS = {
    "c_list": ("list<int>", [3, 1, 2, 1]), "c_set": ("set<text>", SortedSet(["a", "b"])),
    "c_map": ("map<text, int>", {"x": 1, "y": 2}), "c_flist": ("frozen<list<int>>", [9, 8]),
    "c_fset": ("frozen<set<int>>", SortedSet([5, 6])), "c_fmap": ("frozen<map<int, text>>", {1: "one"}),
    "c_nested": ("list<frozen<map<int, text>>>", [{1: "a"}, {2: "b", 3: "c"}]),
}
ALL = {**SCALARS, **COLLECTIONS}


def schema():
    session.execute(f"DROP KEYSPACE IF EXISTS {KS}")
    session.execute(f"CREATE KEYSPACE {KS} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.execute(f"CREATE TABLE {KS}.types (k int PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in ALL.items())})")
    session.execute(f"CREATE TABLE {KS}.wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)")
    session.execute(f"CREATE TABLE {KS}.narrow (k int PRIMARY KEY, v text)")
    session.set_keyspace(KS)


check("create keyspace and tables", schema)


def round_trip():
    insert = session.prepare(f"INSERT INTO types (k, {', '.join(ALL)}) VALUES (?, {', '.join('?' for _ in ALL)})")
    session.execute(insert, [1] + [value for _, value in ALL.values()])
    return session.execute(session.prepare("SELECT * FROM types WHERE k = ?"), [1]).one()


row = None


def prepared_insert():
    global row
    row = round_trip()
    assert row is not None, "the row is not there"


check("prepared insert and select", prepared_insert)
for column, (kind, expected) in ALL.items():
    def compare(column=column, expected=expected):
        actual = getattr(row, column)
        if isinstance(actual, OrderedMapSerializedKey):
            actual = dict(actual)
        if isinstance(actual, list) and actual and isinstance(actual[0], OrderedMapSerializedKey):
            actual = [dict(item) for item in actual]
        same(actual, expected)
    check(f"value of {kind}", compare)


def nulls():
    session.execute("INSERT INTO types (k) VALUES (2)")
    found = session.execute("SELECT * FROM types WHERE k = 2").one()
    same([getattr(found, name) for name in ALL], [None] * len(ALL))


check("null columns", nulls)


def special():
    session.execute(session.prepare("INSERT INTO types (k, c_double, c_inet) VALUES (3, ?, ?)"), [math.nan, "2001:db8::1"])
    found = session.execute("SELECT c_double, c_inet FROM types WHERE k = 3").one()
    return math.isnan(found.c_double) and found.c_inet == "2001:db8::1"


check("NaN and IPv6", special)


def update():
    session.execute(session.prepare("UPDATE types SET c_int = ?, c_list = c_list + ?, c_set = c_set - ?, c_map[?] = ? WHERE k = ?"), [7, [4], {"a"}, "z", 26, 1])
    found = session.execute("SELECT c_int, c_list, c_set, c_map FROM types WHERE k = 1").one()
    same((found.c_int, found.c_list, set(found.c_set), dict(found.c_map)), (7, [3, 1, 2, 1, 4], {"b"}, {"x": 1, "y": 2, "z": 26}))


check("update of cells and collections", update)


def delete():
    session.execute("DELETE c_text, c_map['x'] FROM types WHERE k = 1")
    found = session.execute("SELECT c_text, c_map FROM types WHERE k = 1").one()
    same((found.c_text, dict(found.c_map)), (None, {"y": 2, "z": 26}))
    session.execute("DELETE FROM types WHERE k = 1")
    same(session.execute("SELECT k FROM types WHERE k = 1").one(), None)


check("delete of cells and rows", delete)


def ttl():
    session.execute("INSERT INTO narrow (k, v) VALUES (1, 'short') USING TTL 2")
    session.execute("INSERT INTO narrow (k, v) VALUES (2, 'long') USING TTL 1000")
    assert 990 <= session.execute("SELECT ttl(v) FROM narrow WHERE k = 2").one()[0] <= 1000
    same(session.execute("SELECT v FROM narrow WHERE k = 1").one().v, "short")
    time.sleep(3)
    same(session.execute("SELECT v FROM narrow WHERE k = 1").one(), None)


check("TTL", ttl)


def timestamps():
    session.execute("INSERT INTO narrow (k, v) VALUES (3, 'new') USING TIMESTAMP 2000")
    session.execute("INSERT INTO narrow (k, v) VALUES (3, 'old') USING TIMESTAMP 1000")
    found = session.execute("SELECT v, writetime(v) FROM narrow WHERE k = 3").one()
    same(tuple(found), ("new", 2000))


check("USING TIMESTAMP", timestamps)
ROWS = 10_000


def fill():
    insert = session.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)")
    for begin in range(0, ROWS, 100):
        batch = BatchStatement(BatchType.UNLOGGED)
        for c in range(begin, begin + 100):
            batch.add(insert, (1, c, f"value {c}"))
        session.execute(batch)
    other = session.prepare("INSERT INTO narrow (k, v) VALUES (?, ?)")
    for begin in range(0, ROWS, 200):
        for future in [session.execute_async(other, (k, f"value {k}")) for k in range(begin, begin + 200)]:
            future.result()


check("unlogged batches and 10,000 inserts in flight", fill)


def page_partition():
    found = [(row.c, row.v) for row in session.execute(SimpleStatement("SELECT c, v FROM wide WHERE p = 1", fetch_size=97))]
    same(found, [(c, f"value {c}") for c in reversed(range(ROWS))])


check("paging over one partition", page_partition)


def page_slice():
    statement = session.prepare("SELECT c FROM wide WHERE p = 1 AND c >= ? AND c < ? ORDER BY c ASC")
    statement.fetch_size = 101
    same([row.c for row in session.execute(statement, [1234, 5678])], list(range(1234, 5678)))


check("paging over a slice in reverse", page_slice)


def page_table():
    result = session.execute(SimpleStatement("SELECT k, v FROM narrow", fetch_size=103))
    assert result.has_more_pages
    same(sorted((row.k, row.v) for row in result), [(k, f"value {k}") for k in range(ROWS)])


check("paging over the whole table", page_table)


def page_by_state():
    statement = SimpleStatement("SELECT k FROM narrow", fetch_size=4000)
    first = session.execute(statement)
    seen = {row.k for row in first.current_rows}
    state = first.paging_state
    while state:
        page = session.execute(statement, paging_state=state)
        seen |= {row.k for row in page.current_rows}
        state = page.paging_state
    same(len(seen), ROWS)


check("paging by a saved paging state", page_by_state)


def metadata():
    cluster.refresh_schema_metadata()
    table = cluster.metadata.keyspaces[KS].tables["types"]
    same({name: table.columns[name].cql_type for name in ALL}, {name: ("text" if kind == "varchar" else kind) for name, (kind, _) in ALL.items()})
    wide = cluster.metadata.keyspaces[KS].tables["wide"]
    same(([c.name for c in wide.partition_key], [c.name for c in wide.clustering_key], wide.columns["s"].is_static, wide.columns["c"].is_reversed), (["p"], ["c"], True, True))
    assert "CREATE TABLE" in wide.export_as_string()


check("schema metadata", metadata)


def metadata_follows():
    session.execute("ALTER TABLE narrow ADD extra int")
    cluster.refresh_table_metadata(KS, "narrow")
    assert "extra" in cluster.metadata.keyspaces[KS].tables["narrow"].columns


check("schema metadata after ALTER", metadata_follows)
check("prepared statement survives ALTER", lambda: same(session.execute(session.prepare("SELECT * FROM narrow WHERE k = ?"), [5]).one().v, "value 5"))
check("simple statement with values", lambda: same(session.execute("SELECT v FROM narrow WHERE k = %s", [6]).one().v, "value 6"))
check("statement at QUORUM", lambda: same(session.execute(SimpleStatement("SELECT v FROM narrow WHERE k = 7", consistency_level=ConsistencyLevel.QUORUM)).one().v, "value 7"))
check("select in a list", lambda: same(sorted(r.k for r in session.execute(session.prepare("SELECT k FROM narrow WHERE k IN ?"), [[1, 5, 9]])), [1, 5, 9]))


def errors():
    for statement, text in (("SELECT * FROM nowhere", "does not exist"), ("SELEC", "no viable alternative"), ("INSERT INTO narrow (k) VALUES ('x')", "Invalid STRING constant")):
        try:
            session.execute(statement)
        except Exception as error:
            assert text in str(error), str(error)
        else:
            raise AssertionError(f"{statement} did not fail")


check("errors", errors)


def local():
    found = session.execute("SELECT * FROM system.local").one()
    same((found.data_center, found.key, found.partitioner), (datacenter, "local", "org.apache.cassandra.dht.Murmur3Partitioner"))
    assert found.tokens and found.host_id and found.schema_version and found.release_version


check("system.local", local)
check("system.peers", lambda: same(len(list(session.execute("SELECT * FROM system.peers"))), len(cluster.metadata.all_hosts()) - 1))
check("system.peers_v2", lambda: same(len(list(session.execute("SELECT * FROM system.peers_v2"))), len(cluster.metadata.all_hosts()) - 1))
check("token map", lambda: len(cluster.metadata.get_replicas(KS, b"\x00\x00\x00\x01")) == 1)


def truncate():
    session.execute("TRUNCATE wide")
    same(session.execute("SELECT p FROM wide LIMIT 1").one(), None)


check("truncate", truncate)


def reconnect():
    cluster.shutdown()
    again = connect()
    try:
        same(again.connect(KS).execute("SELECT v FROM narrow WHERE k = 8").one().v, "value 8")
        again.connect(KS).execute(f"DROP KEYSPACE {KS}")
    finally:
        again.shutdown()


check("reconnect", reconnect)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
