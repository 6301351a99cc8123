// Smoke test of gocql: smoke HOST[,HOST] DATACENTER
package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

const (
	keyspace = "smoke_go"
	rows     = 10000
)

var passed, failed int

// check runs one check and prints its result; a panic is a failure like any other.
func check(name string, work func() error) {
	err := func() (err error) {
		defer func() {
			if reason := recover(); reason != nil {
				err = fmt.Errorf("panic: %v", reason)
			}
		}()
		return work()
	}()
	if err == nil {
		passed++
		fmt.Printf("ok %s\n", name)
	} else {
		failed++
		fmt.Printf("FAILED %s: %v\n", name, err)
	}
}

func same(actual, expected any) error {
	if !reflect.DeepEqual(actual, expected) {
		return fmt.Errorf("got %#v, expected %#v", actual, expected)
	}
	return nil
}

type column struct {
	name, kind string
	value      any
}

func uuid(text string) gocql.UUID {
	id, err := gocql.ParseUUID(text)
	if err != nil {
		panic(err)
	}
	return id
}

func columns() []column {
	varint, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	decimal, _ := new(inf.Dec).SetString("-123.4567890123456789")
	return []column{
		{"c_ascii", "ascii", "ascii"},
		{"c_bigint", "bigint", int64(math.MinInt64)},
		{"c_blob", "blob", []byte{0, 255, 16}},
		{"c_boolean", "boolean", true},
		{"c_date", "date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"c_decimal", "decimal", decimal},
		{"c_double", "double", 1.5e-10},
		{"c_duration", "duration", gocql.Duration{Months: 14, Days: 3, Nanoseconds: 4000000005}},
		{"c_float", "float", float32(-2.25)},
		{"c_inet", "inet", net.ParseIP("10.1.2.3").To4()},
		{"c_int", "int", math.MinInt32},
		{"c_smallint", "smallint", int16(32767)},
		{"c_text", "text", "tëxt ☃"},
		{"c_time", "time", 13*time.Hour + 14*time.Minute + 15123456789},
		{"c_timestamp", "timestamp", time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)},
		{"c_timeuuid", "timeuuid", uuid("50554d6e-29bb-11e5-b345-feff819cdc9f")},
		{"c_tinyint", "tinyint", int8(-128)},
		{"c_uuid", "uuid", uuid("550e8400-e29b-41d4-a716-446655440000")},
		{"c_varchar", "varchar", ""},
		{"c_varint", "varint", varint},
		{"c_list", "list<int>", []int{3, 1, 2, 1}},
		{"c_set", "set<text>", []string{"a", "b"}},
		{"c_map", "map<text, int>", map[string]int{"x": 1, "y": 2}},
		{"c_flist", "frozen<list<int>>", []int{9, 8}},
		{"c_fset", "frozen<set<int>>", []int{5, 6}},
		{"c_fmap", "frozen<map<int, text>>", map[int]string{1: "one"}},
		{"c_nested", "list<frozen<map<int, text>>>", []map[int]string{{1: "a"}, {2: "b", 3: "c"}}},
	}
}

// equal compares by meaning where Go's representations may differ.
func equal(actual, expected any) error {
	switch want := expected.(type) {
	case *big.Int:
		if got, ok := actual.(*big.Int); ok && got.Cmp(want) == 0 {
			return nil
		}
	case *inf.Dec:
		if got, ok := actual.(*inf.Dec); ok && got.String() == want.String() {
			return nil
		}
	case net.IP:
		if got, ok := actual.(string); ok && got == want.String() {
			return nil
		}
		if got, ok := actual.(net.IP); ok && got.Equal(want) {
			return nil
		}
	}
	return same(actual, expected)
}

func connect(hosts []string, datacenter, keyspace string) (*gocql.Session, error) {
	cluster := gocql.NewCluster(hosts...)
	cluster.Keyspace = keyspace
	cluster.Consistency = gocql.LocalQuorum
	cluster.Timeout = 30 * time.Second
	cluster.ConnectTimeout = 10 * time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(datacenter))
	return cluster.CreateSession()
}

func main() {
	hosts, datacenter := strings.Split(os.Args[1], ","), os.Args[2]
	var session *gocql.Session
	check("connect", func() (err error) {
		session, err = connect(hosts, datacenter, "")
		return err
	})
	if session != nil {
		schema(session)
		session.Close()
		check("connect with a keyspace", func() (err error) {
			session, err = connect(hosts, datacenter, keyspace)
			return err
		})
	}
	if session != nil && failed == 0 {
		values(session)
		changes(session)
		paging(session)
		others(session, datacenter)
		session.Close()
		check("reconnect", func() error {
			again, err := connect(hosts, datacenter, keyspace)
			if err != nil {
				return err
			}
			defer again.Close()
			var text string
			if err := again.Query("SELECT v FROM narrow WHERE k = ?", 8).Scan(&text); err != nil {
				return err
			}
			return errors.Join(same(text, "value 8"), again.Query("DROP KEYSPACE "+keyspace).Exec())
		})
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func schema(session *gocql.Session) {
	check("create keyspace and tables", func() error {
		kinds := []string{"k int PRIMARY KEY"}
		for _, c := range columns() {
			kinds = append(kinds, c.name+" "+c.kind)
		}
		for _, statement := range []string{
			"DROP KEYSPACE IF EXISTS " + keyspace,
			"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE " + keyspace + ".types (" + strings.Join(kinds, ", ") + ")",
			"CREATE TABLE " + keyspace + ".wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
			"CREATE TABLE " + keyspace + ".narrow (k int PRIMARY KEY, v text)",
		} {
			if err := session.Query(statement).Exec(); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

func values(session *gocql.Session) {
	names, marks, bound := []string{"k"}, []string{"?"}, []any{1}
	for _, c := range columns() {
		names, marks, bound = append(names, c.name), append(marks, "?"), append(bound, c.value)
	}
	row := map[string]any{}
	check("prepared insert and select", func() error {
		insert := "INSERT INTO types (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"
		if err := session.Query(insert, bound...).Exec(); err != nil {
			return err
		}
		return session.Query("SELECT * FROM types WHERE k = ?", 1).MapScan(row)
	})
	for _, c := range columns() {
		check("value of "+c.kind, func() error { return equal(row[c.name], c.value) })
	}
	check("null columns", func() error {
		if err := session.Query("INSERT INTO types (k) VALUES (2)").Exec(); err != nil {
			return err
		}
		var number *int
		var text *string
		var id *gocql.UUID
		if err := session.Query("SELECT c_int, c_text, c_uuid FROM types WHERE k = 2").Scan(&number, &text, &id); err != nil {
			return err
		}
		if number != nil || text != nil || id != nil {
			return fmt.Errorf("got %v %v %v", number, text, id)
		}
		return nil
	})
	check("NaN and IPv6", func() error {
		if err := session.Query("INSERT INTO types (k, c_double, c_inet) VALUES (3, ?, ?)", math.NaN(), "2001:db8::1").Exec(); err != nil {
			return err
		}
		var number float64
		var address net.IP
		if err := session.Query("SELECT c_double, c_inet FROM types WHERE k = 3").Scan(&number, &address); err != nil {
			return err
		}
		return errors.Join(same(math.IsNaN(number), true), same(address.String(), "2001:db8::1"))
	})
}

func changes(session *gocql.Session) {
	check("update of cells and collections", func() error {
		update := "UPDATE types SET c_int = ?, c_list = c_list + ?, c_set = c_set - ?, c_map[?] = ? WHERE k = ?"
		if err := session.Query(update, 7, []int{4}, []string{"a"}, "z", 26, 1).Exec(); err != nil {
			return err
		}
		var number int
		var list []int
		var set []string
		var dictionary map[string]int
		if err := session.Query("SELECT c_int, c_list, c_set, c_map FROM types WHERE k = 1").Scan(&number, &list, &set, &dictionary); err != nil {
			return err
		}
		return errors.Join(same(number, 7), same(list, []int{3, 1, 2, 1, 4}), same(set, []string{"b"}), same(dictionary, map[string]int{"x": 1, "y": 2, "z": 26}))
	})
	check("delete of cells and rows", func() error {
		if err := session.Query("DELETE c_text, c_map['x'] FROM types WHERE k = 1").Exec(); err != nil {
			return err
		}
		var text *string
		var dictionary map[string]int
		if err := session.Query("SELECT c_text, c_map FROM types WHERE k = 1").Scan(&text, &dictionary); err != nil {
			return err
		}
		if text != nil {
			return fmt.Errorf("the deleted cell is %q", *text)
		}
		if err := errors.Join(same(dictionary, map[string]int{"y": 2, "z": 26}), session.Query("DELETE FROM types WHERE k = 1").Exec()); err != nil {
			return err
		}
		var k int
		return same(session.Query("SELECT k FROM types WHERE k = 1").Scan(&k), gocql.ErrNotFound)
	})
	check("TTL", func() error {
		var text string
		err := errors.Join(session.Query("INSERT INTO narrow (k, v) VALUES (?, ?) USING TTL ?", 1, "short", 2).Exec(),
			session.Query("SELECT v FROM narrow WHERE k = 1").Scan(&text))
		time.Sleep(3 * time.Second)
		return errors.Join(err, same(text, "short"), same(session.Query("SELECT v FROM narrow WHERE k = 1").Scan(&text), gocql.ErrNotFound))
	})
	check("USING TIMESTAMP", func() error {
		var text string
		var written int64
		err := errors.Join(session.Query("INSERT INTO narrow (k, v) VALUES (3, 'new') USING TIMESTAMP 2000").Exec(),
			session.Query("INSERT INTO narrow (k, v) VALUES (3, ?)", "old").WithTimestamp(1000).Exec(),
			session.Query("SELECT v, writetime(v) FROM narrow WHERE k = 3").Scan(&text, &written))
		return errors.Join(err, same(text, "new"), same(written, int64(2000)))
	})
}

func paging(session *gocql.Session) {
	check("unlogged batches and 10,000 inserts in flight", func() error {
		for begin := 0; begin < rows; begin += 100 {
			batch := session.NewBatch(gocql.UnloggedBatch)
			for c := begin; c < begin+100; c++ {
				batch.Query("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)", 1, c, fmt.Sprintf("value %d", c))
			}
			if err := session.ExecuteBatch(batch); err != nil {
				return err
			}
		}
		var all sync.WaitGroup
		results := make([]error, 64)
		for worker := range results {
			all.Add(1)
			go func() {
				defer all.Done()
				for k := worker; k < rows && results[worker] == nil; k += len(results) {
					results[worker] = session.Query("INSERT INTO narrow (k, v) VALUES (?, ?)", k, fmt.Sprintf("value %d", k)).Exec()
				}
			}()
		}
		all.Wait()
		return errors.Join(results...)
	})
	collect := func(query *gocql.Query) (keys []int, err error) {
		iter := query.Iter()
		var key int
		var text string
		for iter.Scan(&key, &text) {
			if text != fmt.Sprintf("value %d", key) {
				return nil, fmt.Errorf("the value of %d is %q", key, text)
			}
			keys = append(keys, key)
		}
		return keys, iter.Close()
	}
	check("paging over one partition", func() error {
		keys, err := collect(session.Query("SELECT c, v FROM wide WHERE p = ?", 1).PageSize(97))
		return errors.Join(err, same(keys, sequence(0, rows, true)))
	})
	check("paging over a slice in reverse", func() error {
		keys, err := collect(session.Query("SELECT c, v FROM wide WHERE p = 1 AND c >= ? AND c < ? ORDER BY c ASC", 1234, 5678).PageSize(101))
		return errors.Join(err, same(keys, sequence(1234, 5678, false)))
	})
	check("paging over the whole table", func() error {
		keys, err := collect(session.Query("SELECT k, v FROM narrow").PageSize(103))
		sort.Ints(keys)
		return errors.Join(err, same(keys, sequence(0, rows, false)))
	})
	check("paging by a saved paging state", func() error {
		seen := map[int]bool{}
		var state []byte
		for page := 0; page == 0 || len(state) > 0; page++ {
			iter := session.Query("SELECT k FROM narrow").PageSize(4000).PageState(state).Iter()
			state = iter.PageState()
			var key int
			for left := iter.NumRows(); left > 0 && iter.Scan(&key); left-- {
				seen[key] = true
			}
			if err := iter.Close(); err != nil {
				return err
			}
		}
		return same(len(seen), rows)
	})
}

func sequence(begin, end int, down bool) []int {
	out := make([]int, 0, end-begin)
	for i := begin; i < end; i++ {
		if down {
			out = append(out, end-1-(i-begin))
		} else {
			out = append(out, i)
		}
	}
	return out
}

func others(session *gocql.Session, datacenter string) {
	check("schema metadata", func() error {
		meta, err := session.KeyspaceMetadata(keyspace)
		if err != nil {
			return err
		}
		wide := meta.Tables["wide"]
		err = errors.Join(same(len(meta.Tables), 3), same(wide.PartitionKey[0].Name, "p"), same(wide.ClusteringColumns[0].Name, "c"),
			same(wide.ClusteringColumns[0].ClusteringOrder, "desc"), same(len(meta.Tables["types"].Columns), len(columns())+1))
		for _, c := range columns() {
			kind := strings.Replace(c.kind, "varchar", "text", 1)
			err = errors.Join(err, same(meta.Tables["types"].Columns[c.name].Validator, kind))
		}
		return err
	})
	check("schema metadata after ALTER", func() error {
		if err := session.Query("ALTER TABLE narrow ADD extra int").Exec(); err != nil {
			return err
		}
		for range 100 {
			meta, err := session.KeyspaceMetadata(keyspace)
			if err != nil {
				return err
			}
			if meta.Tables["narrow"].Columns["extra"] != nil {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
		}
		return errors.New("the new column is not in the metadata")
	})
	check("select in a list", func() error {
		iter := session.Query("SELECT k FROM narrow WHERE k IN ?", []int{1, 5, 9}).Iter()
		var keys []int
		var key int
		for iter.Scan(&key) {
			keys = append(keys, key)
		}
		sort.Ints(keys)
		return errors.Join(iter.Close(), same(keys, []int{1, 5, 9}))
	})
	check("errors", func() error {
		for statement, part := range map[string]string{"SELECT * FROM nowhere": "does not exist", "SELEC": "no viable alternative", "INSERT INTO narrow (k) VALUES ('x')": "Invalid STRING constant"} {
			if err := session.Query(statement).Exec(); err == nil || !strings.Contains(err.Error(), part) {
				return fmt.Errorf("%s: %v", statement, err)
			}
		}
		return nil
	})
	check("system.local and system.peers", func() error {
		local := map[string]any{}
		if err := session.Query("SELECT * FROM system.local").MapScan(local); err != nil {
			return err
		}
		iter := session.Query("SELECT * FROM system.peers").Iter()
		return errors.Join(iter.Close(), same(local["data_center"], datacenter), same(local["key"], "local"))
	})
}
