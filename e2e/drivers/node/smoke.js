// Smoke test of the Node.js driver: smoke.js HOST[,HOST] DATACENTER
"use strict";
const cassandra = require("cassandra-driver");
const { types } = cassandra;
const assert = require("node:assert");

const [hosts, datacenter] = [process.argv[2].split(","), process.argv[3]];
const KS = "smoke_node";
const ROWS = 10000;
let passed = 0;
let failed = 0;

async function check(name, work) {
  try {
    await work();
    passed += 1;
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${String(error.stack || error).split("\n").slice(0, 6).join(" | ")}`);
  }
}

const connect = (keyspace) =>
  new cassandra.Client({ contactPoints: hosts, localDataCenter: datacenter, keyspace, socketOptions: { readTimeout: 30000 } });
const text = (value) =>
  value === null || value === undefined ? null
    : value instanceof Date ? value.toISOString()
    : typeof value === "object" && !Array.isArray(value) && !Buffer.isBuffer(value) && value.constructor !== Object ? value.toString()
    : value;
const plain = (value) => (Array.isArray(value) ? value.map(plain) : value && value.constructor === Object ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)])) : text(value));

// name: [type, value]
const COLUMNS = {
  c_ascii: ["ascii", "ascii"],
  c_bigint: ["bigint", types.Long.fromString("-9223372036854775808")],
  c_blob: ["blob", Buffer.from([0, 255, 16])],
  c_boolean: ["boolean", true],
  c_date: ["date", types.LocalDate.fromString("2024-02-29")],
  c_decimal: ["decimal", types.BigDecimal.fromString("-123.4567890123456789")],
  c_double: ["double", 1.5e-10],
  c_duration: ["duration", types.Duration.fromString("1y2mo3d4s5ns")],
  c_float: ["float", -2.25],
  c_inet: ["inet", types.InetAddress.fromString("10.1.2.3")],
  c_int: ["int", -2147483648],
  c_smallint: ["smallint", 32767],
  c_text: ["text", "tëxt ☃"],
  c_time: ["time", types.LocalTime.fromString("13:14:15.123456789")],
  c_timestamp: ["timestamp", new Date("2024-02-29T12:34:56.789Z")],
  c_timeuuid: ["timeuuid", types.TimeUuid.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f")],
  c_tinyint: ["tinyint", -128],
  c_uuid: ["uuid", types.Uuid.fromString("550e8400-e29b-41d4-a716-446655440000")],
  c_varchar: ["varchar", ""],
  c_varint: ["varint", types.Integer.fromString("-123456789012345678901234567890")],
  c_list: ["list<int>", [3, 1, 2, 1]],
  c_set: ["set<text>", ["a", "b"]],
  c_map: ["map<text, int>", { x: 1, y: 2 }],
  c_flist: ["frozen<list<int>>", [9, 8]],
  c_fset: ["frozen<set<int>>", [5, 6]],
  c_fmap: ["frozen<map<int, text>>", { 1: "one" }],
  c_nested: ["list<frozen<map<int, text>>>", [{ 1: "a" }, { 2: "b", 3: "c" }]],
};
const NAMES = Object.keys(COLUMNS);

async function main() {
  let client = connect();
  await check("connect", () => client.connect());
  const prepared = { prepare: true };
  const run = (query, values, options) => client.execute(query, values, options);

  await check("create keyspace and tables", async () => {
    await run(`DROP KEYSPACE IF EXISTS ${KS}`);
    await run(`CREATE KEYSPACE ${KS} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
    await run(`CREATE TABLE ${KS}.types (k int PRIMARY KEY, ${NAMES.map((n) => `${n} ${COLUMNS[n][0]}`).join(", ")})`);
    await run(`CREATE TABLE ${KS}.wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)`);
    await run(`CREATE TABLE ${KS}.narrow (k int PRIMARY KEY, v text)`);
    await run(`USE ${KS}`);
  });
  let row = {};
  await check("prepared insert and select", async () => {
    await run(`INSERT INTO types (k, ${NAMES.join(", ")}) VALUES (?, ${NAMES.map(() => "?").join(", ")})`, [1, ...NAMES.map((n) => COLUMNS[n][1])], prepared);
    row = (await run("SELECT * FROM types WHERE k = ?", [1], prepared)).first();
    assert.ok(row, "the row is not there");
  });
  for (const name of NAMES) {
    await check(`value of ${COLUMNS[name][0]}`, () => assert.deepStrictEqual(plain(row[name]), plain(COLUMNS[name][1])));
  }
  await check("null columns", async () => {
    await run("INSERT INTO types (k) VALUES (2)");
    const found = (await run("SELECT * FROM types WHERE k = 2")).first();
    for (const name of NAMES) assert.strictEqual(found[name], null, name);
  });
  await check("NaN and IPv6", async () => {
    await run("INSERT INTO types (k, c_double, c_inet) VALUES (3, ?, ?)", [NaN, types.InetAddress.fromString("2001:db8::1")], prepared);
    const found = (await run("SELECT c_double, c_inet FROM types WHERE k = 3")).first();
    assert.ok(Number.isNaN(found.c_double));
    assert.strictEqual(found.c_inet.toString(), "2001:db8::1");
  });
  await check("update of cells and collections", async () => {
    await run("UPDATE types SET c_int = ?, c_list = c_list + ?, c_set = c_set - ?, c_map[?] = ? WHERE k = ?", [7, [4], ["a"], "z", 26, 1], prepared);
    const found = (await run("SELECT c_int, c_list, c_set, c_map FROM types WHERE k = 1")).first();
    assert.deepStrictEqual([found.c_int, found.c_list, found.c_set, found.c_map], [7, [3, 1, 2, 1, 4], ["b"], { x: 1, y: 2, z: 26 }]);
  });
  await check("delete of cells and rows", async () => {
    await run("DELETE c_text, c_map['x'] FROM types WHERE k = 1");
    const found = (await run("SELECT c_text, c_map FROM types WHERE k = 1")).first();
    assert.deepStrictEqual([found.c_text, found.c_map], [null, { y: 2, z: 26 }]);
    await run("DELETE FROM types WHERE k = 1");
    assert.strictEqual((await run("SELECT k FROM types WHERE k = 1")).rowLength, 0);
  });
  await check("TTL", async () => {
    await run("INSERT INTO narrow (k, v) VALUES (?, ?) USING TTL ?", [1, "short", 2], prepared);
    assert.strictEqual((await run("SELECT v FROM narrow WHERE k = 1")).first().v, "short");
    await new Promise((resolve) => setTimeout(resolve, 3000));
    assert.strictEqual((await run("SELECT v FROM narrow WHERE k = 1")).rowLength, 0);
  });
  await check("USING TIMESTAMP", async () => {
    await run("INSERT INTO narrow (k, v) VALUES (3, 'new') USING TIMESTAMP 2000");
    await run("INSERT INTO narrow (k, v) VALUES (3, 'old') USING TIMESTAMP 1000");
    const found = (await run("SELECT v, writetime(v) AS w FROM narrow WHERE k = 3")).first();
    assert.deepStrictEqual([found.v, found.w.toString()], ["new", "2000"]);
  });
  await check("unlogged batches and 10,000 inserts in flight", async () => {
    for (let begin = 0; begin < ROWS; begin += 100) {
      const queries = Array.from({ length: 100 }, (_, i) => ({ query: "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)", params: [1, begin + i, `value ${begin + i}`] }));
      await client.batch(queries, { prepare: true, logged: false });
    }
    const values = Array.from({ length: ROWS }, (_, k) => [k, `value ${k}`]);
    await cassandra.concurrent.executeConcurrent(client, "INSERT INTO narrow (k, v) VALUES (?, ?)", values, { prepare: true, concurrencyLevel: 128 });
  });
  const collect = async (query, values, fetchSize) => {
    const rows = [];
    let pageState;
    let pages = 0;
    do {
      const result = await run(query, values, { prepare: true, fetchSize, pageState });
      rows.push(...result.rows);
      pageState = result.pageState;
      pages += 1;
    } while (pageState);
    assert.ok(pages > 10, `only ${pages} pages`);
    return rows;
  };
  await check("paging over one partition", async () => {
    const rows = await collect("SELECT c, v FROM wide WHERE p = 1", [], 97);
    assert.deepStrictEqual(rows.map((r) => r.c), Array.from({ length: ROWS }, (_, i) => ROWS - 1 - i));
    assert.ok(rows.every((r) => r.v === `value ${r.c}`));
  });
  await check("paging over a slice in reverse", async () => {
    const rows = await collect("SELECT c FROM wide WHERE p = 1 AND c >= ? AND c < ? ORDER BY c ASC", [1234, 5678], 101);
    assert.deepStrictEqual(rows.map((r) => r.c), Array.from({ length: 5678 - 1234 }, (_, i) => 1234 + i));
  });
  await check("paging over the whole table", async () => {
    const rows = await collect("SELECT k, v FROM narrow", [], 103);
    assert.deepStrictEqual(rows.map((r) => r.k).sort((a, b) => a - b), Array.from({ length: ROWS }, (_, i) => i));
    assert.ok(rows.every((r) => r.v === `value ${r.k}`));
  });
  await check("schema metadata", async () => {
    await client.metadata.refreshKeyspaces();
    const table = await client.metadata.getTable(KS, "types");
    assert.deepStrictEqual(table.columns.map((c) => c.name).sort(), ["k", ...NAMES].sort());
    const wide = await client.metadata.getTable(KS, "wide");
    assert.deepStrictEqual([wide.partitionKeys.map((c) => c.name), wide.clusteringKeys.map((c) => c.name), wide.clusteringOrder], [["p"], ["c"], ["DESC"]]);
    assert.strictEqual(client.metadata.keyspaces[KS].strategyOptions.replication_factor, "1");
  });
  await check("schema metadata after ALTER", async () => {
    await run("ALTER TABLE narrow ADD extra int");
    client.metadata.clearPrepared();
    let table;
    for (let attempt = 0; attempt < 50; attempt += 1) {
      table = await client.metadata.getTable(KS, "narrow");
      if (table.columnsByName.extra) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.fail("the new column is not in the metadata");
  });
  await check("select in a list", async () => {
    const found = await run("SELECT k FROM narrow WHERE k IN ?", [[1, 5, 9]], prepared);
    assert.deepStrictEqual(found.rows.map((r) => r.k).sort(), [1, 5, 9]);
  });
  await check("statement at QUORUM", async () => {
    const found = await run("SELECT v FROM narrow WHERE k = 7", [], { consistency: types.consistencies.quorum });
    assert.strictEqual(found.first().v, "value 7");
  });
  await check("errors", async () => {
    for (const [query, part] of [["SELECT * FROM nowhere", "does not exist"], ["SELEC", "no viable alternative"], ["INSERT INTO narrow (k) VALUES ('x')", "Invalid STRING constant"]]) {
      await assert.rejects(run(query), (error) => error.message.includes(part));
    }
  });
  await check("system.local", async () => {
    const found = (await run("SELECT * FROM system.local")).first();
    assert.deepStrictEqual([found.data_center, found.key], [datacenter, "local"]);
    assert.ok(found.tokens.length > 0 && found.host_id && found.schema_version && found.release_version);
  });
  await check("system.peers", async () => {
    assert.strictEqual((await run("SELECT * FROM system.peers")).rowLength, client.hosts.length - 1);
  });
  await check("reconnect", async () => {
    await client.shutdown();
    client = connect(KS);
    assert.strictEqual((await run("SELECT v FROM narrow WHERE k = 8", [], prepared)).first().v, "value 8");
    await run(`DROP KEYSPACE ${KS}`);
  });
  await client.shutdown();
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log(`FAILED ${error.stack}`);
  console.log(`${passed} passed, ${failed + 1} failed`);
  process.exit(1);
});
