// Smoke test of the Java driver: Smoke HOST[,HOST] DATACENTER
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;

public final class Smoke {
  interface Check {
    void run() throws Exception;
  }

  record Column(String kind, Object value) {}

  static final String KEYSPACE = "smoke_java";
  static final int ROWS = 10_000;
  static int passed;
  static int failed;
  static String[] hosts;
  static String datacenter;
  static CqlSession session;
  static Row row;

  static void check(String name, Check work) {
    try {
      work.run();
      passed++;
      System.out.println("ok " + name);
    } catch (Throwable error) {
      failed++;
      System.out.println("FAILED " + name + ": " + String.valueOf(error).replace('\n', ' '));
    }
  }

  static void same(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      throw new AssertionError("got " + actual + ", expected " + expected);
    }
  }

  static CqlSession connect(String keyspace) {
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(10))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofSeconds(10))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(10))
            .build();
    CqlSessionBuilder builder = CqlSession.builder().withConfigLoader(config).withLocalDatacenter(datacenter);
    for (String host : hosts) {
      builder.addContactPoint(new InetSocketAddress(host, 9042));
    }
    return (keyspace == null ? builder : builder.withKeyspace(keyspace)).build();
  }

  static Map<String, Column> columns() throws Exception {
    Map<String, Column> all = new LinkedHashMap<>();
    all.put("c_ascii", new Column("ascii", "ascii"));
    all.put("c_bigint", new Column("bigint", Long.MIN_VALUE));
    all.put("c_blob", new Column("blob", ByteBuffer.wrap(new byte[] {0, -1, 16})));
    all.put("c_boolean", new Column("boolean", true));
    all.put("c_date", new Column("date", LocalDate.of(2024, 2, 29)));
    all.put("c_decimal", new Column("decimal", new BigDecimal("-123.4567890123456789")));
    all.put("c_double", new Column("double", 1.5e-10));
    all.put("c_duration", new Column("duration", CqlDuration.newInstance(14, 3, 4_000_000_005L)));
    all.put("c_float", new Column("float", -2.25f));
    all.put("c_inet", new Column("inet", InetAddress.getByName("10.1.2.3")));
    all.put("c_int", new Column("int", Integer.MIN_VALUE));
    all.put("c_smallint", new Column("smallint", (short) 32767));
    all.put("c_text", new Column("text", "tëxt ☃"));
    all.put("c_time", new Column("time", LocalTime.of(13, 14, 15, 123_456_789)));
    all.put("c_timestamp", new Column("timestamp", Instant.parse("2024-02-29T12:34:56.789Z")));
    all.put("c_timeuuid", new Column("timeuuid", UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f")));
    all.put("c_tinyint", new Column("tinyint", (byte) -128));
    all.put("c_uuid", new Column("uuid", UUID.fromString("550e8400-e29b-41d4-a716-446655440000")));
    all.put("c_varchar", new Column("varchar", ""));
    all.put("c_varint", new Column("varint", new BigInteger("-123456789012345678901234567890")));
    all.put("c_list", new Column("list<int>", List.of(3, 1, 2, 1)));
    all.put("c_set", new Column("set<text>", Set.of("a", "b")));
    all.put("c_map", new Column("map<text, int>", Map.of("x", 1, "y", 2)));
    all.put("c_flist", new Column("frozen<list<int>>", List.of(9, 8)));
    all.put("c_fset", new Column("frozen<set<int>>", Set.of(5, 6)));
    all.put("c_fmap", new Column("frozen<map<int, text>>", Map.of(1, "one")));
    all.put("c_nested", new Column("list<frozen<map<int, text>>>", List.of(Map.of(1, "a"), Map.of(2, "b", 3, "c"))));
    return all;
  }

  public static void main(String[] arguments) throws Exception {
    hosts = arguments[0].split(",");
    datacenter = arguments[1];
    check("connect", () -> session = connect(null));
    if (session != null) {
      schema();
      values();
      changes();
      paging();
      others();
      check("reconnect", Smoke::reconnect);
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed > 0 ? 1 : 0);
  }

  static void schema() {
    check("create keyspace and tables", () -> {
      String kinds = columns().entrySet().stream().map(e -> e.getKey() + " " + e.getValue().kind()).collect(Collectors.joining(", "));
      session.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE);
      session.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("USE " + KEYSPACE);
      session.execute("CREATE TABLE types (k int PRIMARY KEY, " + kinds + ")");
      session.execute("CREATE TABLE wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)");
      session.execute("CREATE TABLE narrow (k int PRIMARY KEY, v text)");
    });
  }

  static void values() throws Exception {
    Map<String, Column> columns = columns();
    check("prepared insert and select", () -> {
      String names = String.join(", ", columns.keySet());
      String marks = String.join(", ", Collections.nCopies(columns.size(), "?"));
      PreparedStatement insert = session.prepare("INSERT INTO types (k, " + names + ") VALUES (1, " + marks + ")");
      session.execute(insert.bind(columns.values().stream().map(Column::value).toArray()));
      row = session.execute(session.prepare("SELECT * FROM types WHERE k = ?").bind(1)).one();
      if (row == null) {
        throw new AssertionError("the row is not there");
      }
    });
    columns.forEach((name, column) -> check("value of " + column.kind(), () -> same(row.getObject(name), column.value())));
    check("null columns", () -> {
      session.execute("INSERT INTO types (k) VALUES (2)");
      Row found = session.execute("SELECT * FROM types WHERE k = 2").one();
      for (String name : columns.keySet()) {
        if (!found.isNull(name)) {
          throw new AssertionError(name + " is " + found.getObject(name));
        }
      }
    });
    check("NaN and IPv6", () -> {
      InetAddress address = InetAddress.getByName("2001:db8::1");
      session.execute(session.prepare("INSERT INTO types (k, c_double, c_inet) VALUES (3, ?, ?)").bind(Double.NaN, address));
      Row found = session.execute("SELECT c_double, c_inet FROM types WHERE k = 3").one();
      same(Double.isNaN(found.getDouble(0)), true);
      same(found.getInetAddress(1), address);
    });
  }

  static void changes() {
    check("update of cells and collections", () -> {
      PreparedStatement update = session.prepare("UPDATE types SET c_int = ?, c_list = c_list + ?, c_set = c_set - ?, c_map[?] = ? WHERE k = ?");
      session.execute(update.bind(7, List.of(4), Set.of("a"), "z", 26, 1));
      Row found = session.execute("SELECT c_int, c_list, c_set, c_map FROM types WHERE k = 1").one();
      same(found.getInt(0), 7);
      same(found.getList(1, Integer.class), List.of(3, 1, 2, 1, 4));
      same(found.getSet(2, String.class), Set.of("b"));
      same(found.getMap(3, String.class, Integer.class), Map.of("x", 1, "y", 2, "z", 26));
    });
    check("delete of cells and rows", () -> {
      session.execute("DELETE c_text, c_map['x'] FROM types WHERE k = 1");
      Row found = session.execute("SELECT c_text, c_map FROM types WHERE k = 1").one();
      same(found.getString(0), null);
      same(found.getMap(1, String.class, Integer.class), Map.of("y", 2, "z", 26));
      session.execute("DELETE FROM types WHERE k = 1");
      same(session.execute("SELECT k FROM types WHERE k = 1").one(), null);
    });
    check("TTL", () -> {
      session.execute(session.prepare("INSERT INTO narrow (k, v) VALUES (?, ?) USING TTL ?").bind(1, "short", 2));
      same(session.execute("SELECT v FROM narrow WHERE k = 1").one().getString(0), "short");
      Thread.sleep(3000);
      same(session.execute("SELECT v FROM narrow WHERE k = 1").one(), null);
    });
    check("USING TIMESTAMP", () -> {
      session.execute("INSERT INTO narrow (k, v) VALUES (3, 'new') USING TIMESTAMP 2000");
      session.execute(SimpleStatement.newInstance("INSERT INTO narrow (k, v) VALUES (3, 'old')").setQueryTimestamp(1000));
      Row found = session.execute("SELECT v, writetime(v) FROM narrow WHERE k = 3").one();
      same(found.getString(0), "new");
      same(found.getLong(1), 2000L);
    });
  }

  static void paging() {
    check("unlogged batches and 10,000 inserts in flight", () -> {
      PreparedStatement wide = session.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)");
      for (int begin = 0; begin < ROWS; begin += 100) {
        BatchStatementBuilder batch = BatchStatement.builder(DefaultBatchType.UNLOGGED);
        for (int c = begin; c < begin + 100; c++) {
          batch.addStatement(wide.bind(1, c, "value " + c));
        }
        session.execute(batch.build());
      }
      PreparedStatement narrow = session.prepare("INSERT INTO narrow (k, v) VALUES (?, ?)");
      Semaphore inFlight = new Semaphore(128);
      AtomicReference<Throwable> first = new AtomicReference<>();
      for (int k = 0; k < ROWS; k++) {
        inFlight.acquire();
        CompletionStage<?> sent = session.executeAsync(narrow.bind(k, "value " + k));
        sent.whenComplete((done, error) -> {
          inFlight.release();
          if (error != null) {
            first.compareAndSet(null, error);
          }
        });
      }
      inFlight.acquire(128);
      if (first.get() != null) {
        throw new AssertionError(first.get());
      }
    });
    check("paging over one partition", () -> {
      ResultSet found = session.execute(SimpleStatement.newInstance("SELECT c, v FROM wide WHERE p = 1").setPageSize(97));
      List<Integer> expected = sequence(0, ROWS);
      Collections.reverse(expected);
      same(found.isFullyFetched(), false);
      same(keys(found), expected);
    });
    check("paging over a slice in reverse", () -> {
      PreparedStatement slice = session.prepare("SELECT c, v FROM wide WHERE p = 1 AND c >= ? AND c < ? ORDER BY c ASC");
      same(keys(session.execute(slice.bind(1234, 5678).setPageSize(101))), sequence(1234, 5678));
    });
    check("paging over the whole table", () -> {
      List<Integer> found = keys(session.execute(SimpleStatement.newInstance("SELECT k, v FROM narrow").setPageSize(103)));
      Collections.sort(found);
      same(found, sequence(0, ROWS));
    });
  }

  static List<Integer> keys(ResultSet rows) {
    List<Integer> keys = new ArrayList<>();
    for (Row row : rows) {
      same(row.getString(1), "value " + row.getInt(0));
      keys.add(row.getInt(0));
    }
    return keys;
  }

  static List<Integer> sequence(int begin, int end) {
    List<Integer> out = new ArrayList<>();
    for (int i = begin; i < end; i++) {
      out.add(i);
    }
    return out;
  }

  static void others() throws Exception {
    Map<String, Column> columns = columns();
    check("schema metadata", () -> {
      var keyspace = session.refreshSchema().getKeyspace(KEYSPACE).orElseThrow();
      TableMetadata types = keyspace.getTable("types").orElseThrow();
      columns.forEach((name, column) ->
          same(types.getColumn(name).orElseThrow().getType().asCql(true, false), column.kind().replace("varchar", "text")));
      TableMetadata wide = keyspace.getTable("wide").orElseThrow();
      same(wide.getPartitionKey().get(0).getName().asInternal(), "p");
      same(wide.getClusteringColumns().values().iterator().next(), ClusteringOrder.DESC);
      same(wide.getColumn("s").orElseThrow().isStatic(), true);
      same(keyspace.getReplication().get("replication_factor"), "1");
    });
    check("schema metadata after ALTER", () -> {
      session.execute("ALTER TABLE narrow ADD extra int");
      same(session.getMetadata().getKeyspace(KEYSPACE).orElseThrow().getTable("narrow").orElseThrow().getColumn("extra").isPresent(), true);
      same(session.checkSchemaAgreement(), true);
    });
    check("select in a list", () -> {
      Set<Integer> found = new TreeSet<>();
      session.execute(session.prepare("SELECT k FROM narrow WHERE k IN ?").bind(List.of(1, 5, 9))).forEach(r -> found.add(r.getInt(0)));
      same(found, Set.of(1, 5, 9));
    });
    check("statement at QUORUM", () -> {
      SimpleStatement statement = SimpleStatement.newInstance("SELECT v FROM narrow WHERE k = ?", 7);
      same(session.execute(statement.setConsistencyLevel(DefaultConsistencyLevel.QUORUM)).one().getString(0), "value 7");
    });
    check("errors", () -> {
      Map<String, String> wrong = Map.of("SELECT * FROM nowhere", "does not exist", "SELEC", "no viable alternative",
          "INSERT INTO narrow (k) VALUES ('x')", "Invalid STRING constant");
      wrong.forEach((statement, part) -> {
        try {
          session.execute(statement);
        } catch (Exception error) {
          same(error.getMessage().contains(part), true);
          return;
        }
        throw new AssertionError(statement + " did not fail");
      });
    });
    check("system.local and system.peers", () -> {
      Row local = session.execute("SELECT * FROM system.local").one();
      same(local.getString("data_center"), datacenter);
      same(local.getString("key"), "local");
      int nodes = session.getMetadata().getNodes().size();
      same(session.execute("SELECT * FROM system.peers").all().size(), nodes - 1);
      same(session.execute("SELECT * FROM system.peers_v2").all().size(), nodes - 1);
    });
    check("token map", () -> {
      var replicas = session.getMetadata().getTokenMap().orElseThrow().getReplicas(KEYSPACE, ByteBuffer.wrap(new byte[] {0, 0, 0, 1}));
      same(replicas.size(), 1);
    });
  }

  static void reconnect() {
    session.close();
    try (CqlSession again = connect(KEYSPACE)) {
      same(again.execute(again.prepare("SELECT v FROM narrow WHERE k = ?").bind(8)).one().getString(0), "value 8");
      again.execute("DROP KEYSPACE " + KEYSPACE);
    }
  }
}
