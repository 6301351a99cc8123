//! SSTables that Apache Cassandra 5.0.5 wrote (`golden/README.md`): read here, written again, and
//! compared with the original byte by byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use helenus_rows::{ClusteringFilter, DataRange, Partition};
use helenus_schema::TableMetadata;
use helenus_seams::{Disk, SimulatedDisk};
use helenus_sstable::{
    Component, Descriptor, Format, Generation, SsTableReader, SsTableWriter, Statistics,
    WriterOptions, read_statistics, verify_digest,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Copies a folder's files into a simulated disk; the descriptors of the SSTables there.
fn load(folder: &Path, disk: &SimulatedDisk) -> Vec<Descriptor> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let Some((mut descriptor, component)) = Descriptor::parse(&path) else {
            continue;
        };
        descriptor.directory = PathBuf::from("/original");
        let file = disk.create(&descriptor.path(component)).unwrap();
        file.append(&std::fs::read(&path).unwrap()).unwrap();
        if component == Component::Data {
            found.push(descriptor);
        }
    }
    found
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

/// The table of a file, with the compression that the file has.
fn table_of(
    disk: &SimulatedDisk,
    descriptor: &Descriptor,
    statistics: &Statistics,
) -> Arc<TableMetadata> {
    let mut builder = statistics.table("g", "t").unwrap().to_builder();
    builder.params.bloom_filter_fp_chance = statistics.bloom_filter_fp_chance;
    builder.params.compression.clear();
    let info = descriptor.path(Component::CompressionInfo);
    if disk.exists(&info) {
        let content = disk.read(&info).unwrap();
        let class = String::from_utf8(content[2..2 + usize::from(content[1])].to_vec()).unwrap();
        builder.params.compression.insert("class".into(), class);
        builder
            .params
            .compression
            .insert("chunk_length_in_kb".into(), "16".into());
    } else {
        builder
            .params
            .compression
            .insert("enabled".into(), "false".into());
    }
    Arc::new(builder.build())
}

fn read_all(reader: &Arc<SsTableReader>) -> Vec<Partition> {
    let mut scanner = reader
        .scan(&DataRange::all(ClusteringFilter::all()))
        .unwrap();
    let mut partitions = Vec::new();
    while let Some(partition) = scanner.next_partition().unwrap() {
        partitions.push(partition.collect().unwrap());
    }
    partitions
}

fn check_reads(reader: &Arc<SsTableReader>, partitions: &[Partition], name: &str) {
    let stats = &reader.statistics().stats;
    assert_eq!(reader.partition_count(), partitions.len() as u64, "{name}");
    let statics = partitions
        .iter()
        .filter(|partition| !partition.static_row.is_empty())
        .count();
    let rows: usize = partitions
        .iter()
        .map(|partition| partition.rows().count())
        .sum();
    assert_eq!(
        u64::try_from(stats.total_rows).unwrap(),
        (rows + statics) as u64,
        "{name}"
    );
    for partition in partitions {
        let filter = ClusteringFilter::all();
        let found = reader
            .read_partition(&partition.key, &filter)
            .unwrap()
            .unwrap()
            .collect()
            .unwrap();
        assert_eq!(&found, partition, "{name}");
        let filter = ClusteringFilter::Slices {
            slices: vec![helenus_rows::Slice::all()],
            reversed: true,
        };
        let mut reversed = reader
            .read_partition(&partition.key, &filter)
            .unwrap()
            .unwrap()
            .collect()
            .unwrap();
        reversed.unfiltereds.reverse();
        assert_eq!(&reversed, partition, "{name} in reverse");
    }
}

/// Writes the partitions again; what differs from the original is a failure.
fn check_rewritten(
    folder: &Path,
    disk: &Arc<SimulatedDisk>,
    original: &Descriptor,
    reader: &SsTableReader,
    partitions: &[Partition],
) {
    let name = folder.display().to_string();
    let statistics = reader.statistics();
    let options = WriterOptions {
        estimated_partitions: partitions.len() as u64,
        stats: statistics.header.stats,
        level: statistics.stats.level,
        repaired_at: statistics.stats.repaired_at,
        originating_host_id: statistics.stats.originating_host_id,
        commit_log_intervals: statistics.stats.commit_log_intervals.clone(),
        ..WriterOptions::default()
    };
    let copy = Descriptor::new("/copy", Generation::Number(1));
    let shared: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let mut writer =
        SsTableWriter::create(shared, copy.clone(), Arc::clone(reader.table()), options).unwrap();
    for partition in partitions {
        writer.append_partition(partition).unwrap();
    }
    writer.finish().unwrap();
    let mut exact = vec![Component::Partitions, Component::Rows, Component::Filter];
    if disk.exists(&original.path(Component::Crc)) {
        exact.extend([Component::Data, Component::Crc, Component::Digest]);
    }
    for component in exact {
        let (theirs, ours) = (
            disk.read(&original.path(component)).unwrap(),
            disk.read(&copy.path(component)).unwrap(),
        );
        assert!(
            theirs == ours,
            "{name}: {component:?} differs: {} and {} bytes",
            theirs.len(),
            ours.len()
        );
    }
    let mut again = read_statistics(&**disk, &copy).unwrap();
    assert_eq!(again.header, statistics.header, "{name}");
    // Ratio and coverage are the writer's own; the estimator has two forms.
    again.stats.compression_ratio = statistics.stats.compression_ratio;
    again.stats.token_space_coverage = 0.0;
    let mut expected = statistics.stats.clone();
    expected.token_space_coverage = 0.0;
    let lines = |stats: &helenus_sstable::statistics::Stats| {
        format!("{stats:#?}")
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (at, (ours, theirs)) in lines(&again.stats).iter().zip(lines(&expected)).enumerate() {
        assert_eq!(*ours, theirs, "{name}: statistics, line {at}");
    }
    assert_eq!(again.stats, expected, "{name}");
    let reader = SsTableReader::open(&**disk, copy, Arc::clone(reader.table())).unwrap();
    assert_eq!(read_all(&reader), partitions, "{name}");
}

fn check(folder: &Path) -> usize {
    let disk = Arc::new(SimulatedDisk::default());
    let descriptors = load(folder, &disk);
    for descriptor in &descriptors {
        let statistics = read_statistics(&*disk, descriptor).unwrap();
        let table = table_of(&disk, descriptor, &statistics);
        verify_digest(&*disk, descriptor).unwrap();
        let reader = SsTableReader::open(&*disk, descriptor.clone(), table).unwrap();
        let partitions = read_all(&reader);
        check_reads(&reader, &partitions, &folder.display().to_string());
        if descriptor.format == Format::Bti {
            check_rewritten(folder, &disk, descriptor, &reader, &partitions);
        }
    }
    descriptors.len()
}

#[test]
fn files_of_cassandra_are_read_and_written_alike() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut count = 0;
    for version in folders(&root).into_iter().filter(|path| path.is_dir()) {
        for folder in folders(&version) {
            count += check(&folder);
        }
    }
    assert!(count >= 13, "{count}");
}

/// Reads the data alone: Cassandra's test data is of another partitioner.
fn check_data(folder: &Path) -> usize {
    let disk = Arc::new(SimulatedDisk::default());
    let descriptors = load(folder, &disk);
    for descriptor in &descriptors {
        let statistics = read_statistics(&*disk, descriptor).unwrap();
        let table = table_of(&disk, descriptor, &statistics);
        verify_digest(&*disk, descriptor).unwrap();
        let reader = SsTableReader::open_without_index(&*disk, descriptor.clone(), table).unwrap();
        let partitions = read_all(&reader);
        let name = folder.display();
        assert_eq!(reader.partition_count(), partitions.len() as u64, "{name}");
        let rows: usize = partitions
            .iter()
            .map(|partition| partition.rows().count())
            .sum();
        let statics = partitions
            .iter()
            .filter(|partition| !partition.static_row.is_empty())
            .count();
        assert_eq!(
            u64::try_from(statistics.stats.total_rows).unwrap(),
            (rows + statics) as u64,
            "{name}"
        );
    }
    descriptors.len()
}

/// Test data of Cassandra's own repository, versions `ma` to `da`; not part of this one.
#[test]
fn files_of_every_version_are_read() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/fixtures/legacy-sstables");
    if !root.is_dir() {
        println!("skipped: {} is not there", root.display());
        return;
    }
    for version in folders(&root).into_iter().filter(|path| path.is_dir()) {
        for folder in folders(&version.join("legacy_tables")) {
            assert!(check_data(&folder) > 0, "{}", folder.display());
        }
    }
}
