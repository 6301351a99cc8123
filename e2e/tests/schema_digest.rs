//! The schema version of a real Cassandra, computed by us from the SSTables of its `system_schema`: a
//! mixed ring agrees on its schema only if both sides digest the same rows to the same version.

use anyhow::{Context, Result};
use helenus_cql::schema_rows::{SchemaPartitions, keyspaces_of, schema_version};
use helenus_e2e::oracle::wire::{Connection, Outcome};
use helenus_e2e::oracle::{Cassandra, CassandraOptions};
use helenus_rows::{ClusteringFilter, DataRange, Partition, merge_partitions};
use helenus_schema::Schema;
use helenus_schema::system::{SCHEMA_TABLES, system_keyspaces};
use helenus_seams::{Disk, SimulatedDisk};
use helenus_sstable::{Component, Descriptor, SsTableReader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STATEMENTS: &[&str] = &[
    "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE a.address (street text, zip int)",
    "CREATE TABLE a.t (p int, c timeuuid, s text static, v map<text, frozen<address>>, l list<int>, PRIMARY KEY (p, c)) \
     WITH CLUSTERING ORDER BY (c DESC) AND comment = 'one' AND compression = {'class': 'ZstdCompressor'}",
    "CREATE TABLE a.gone (p int PRIMARY KEY)",
    "DROP TABLE a.gone",
    "ALTER TABLE a.t ADD w double",
    "ALTER TABLE a.t DROP w",
    "ALTER TABLE a.t WITH gc_grace_seconds = 100 AND extensions = {'x': 0x01}",
    "CREATE KEYSPACE b WITH replication = {'class': 'NetworkTopologyStrategy', 'DC1': 3} AND durable_writes = false",
    "CREATE TABLE b.c (k text PRIMARY KEY, n counter)",
];

/// Cassandra's version now.
fn theirs(connection: &mut Connection) -> Result<Vec<u8>> {
    let Outcome::Rows(rows) = connection.run("SELECT schema_version FROM system.local")? else {
        anyhow::bail!("no rows of system.local");
    };
    rows.rows[0][0].clone().context("no schema version")
}

/// The SSTables of a folder, copied to a disk in memory.
fn load(folder: &Path, disk: &SimulatedDisk) -> Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some((mut descriptor, component)) = Descriptor::parse(&path) else {
            continue;
        };
        descriptor.directory = PathBuf::from("/").join(folder.file_name().context("a name")?);
        let file = disk.create(&descriptor.path(component))?;
        file.append(&std::fs::read(&path)?)?;
        if component == Component::Data {
            found.push(descriptor);
        }
    }
    Ok(found)
}

/// Everything that Cassandra's `system_schema` holds on disk.
fn stored(oracle: &Cassandra, base: &Schema) -> Result<SchemaPartitions> {
    let mut all = SchemaPartitions::new();
    for name in SCHEMA_TABLES {
        let table = base
            .table("system_schema", name)
            .context("a system table")?;
        let mut versions: BTreeMap<_, Vec<Partition>> = BTreeMap::new();
        for folder in oracle.table_directories("system_schema", name)? {
            let disk = SimulatedDisk::default();
            for descriptor in load(&folder, &disk)? {
                let reader = SsTableReader::open(&disk, descriptor, Arc::clone(table))?;
                let mut scanner = reader.scan(&DataRange::all(ClusteringFilter::all()))?;
                while let Some(source) = scanner.next_partition()? {
                    let partition = source.collect()?;
                    versions
                        .entry(partition.key.clone())
                        .or_default()
                        .push(partition);
                }
            }
        }
        let merged = versions
            .into_values()
            .filter_map(|versions| merge_partitions(table, versions, false));
        all.insert((*name).to_owned(), merged.collect());
    }
    Ok(all)
}

#[test]
fn our_digest_of_cassandras_schema_is_its_version() -> Result<()> {
    let oracle = Cassandra::start("127.0.20.13", &CassandraOptions::default())?;
    let mut connection = Connection::open(oracle.ip(), 4)?;
    let base = Schema::new(
        system_keyspaces().into_iter().map(Arc::new),
        uuid::Uuid::nil(),
    );
    let now = i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs())?;
    for statement in [None].into_iter().chain(STATEMENTS.iter().map(Some)) {
        if let Some(statement) = statement {
            connection.run(statement)?;
        }
        oracle.nodetool(&["flush", "system_schema"])?;
        let rows = stored(&oracle, &base)?;
        let ours = schema_version(&base, &rows, now);
        assert_eq!(
            ours.as_bytes()[..],
            theirs(&mut connection)?[..],
            "after {statement:?}"
        );
        keyspaces_of(&base, &rows, now).context("understand Cassandra's rows")?;
    }
    Ok(())
}
