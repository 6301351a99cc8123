//! Reads an SSTable and writes it again, as version `da`, into another folder: for comparing what
//! Cassandra's own tools say of both.
//!
//! `cargo run -p helenus-sstable --example rewrite -- FILE-Data.db FOLDER`

use helenus_rows::{ClusteringFilter, DataRange};
use helenus_seams::{Disk, RealDisk};
use helenus_sstable::{
    Descriptor, Generation, SsTableError, SsTableReader, SsTableWriter, WriterOptions,
    read_statistics,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn rewrite(path: &Path, folder: PathBuf) -> Result<(), SsTableError> {
    let invalid = |what: &str| SsTableError::Invalid(format!("{}: {what}", path.display()));
    let (descriptor, _) = Descriptor::parse(path).ok_or_else(|| invalid("is no SSTable"))?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let statistics = read_statistics(&*disk, &descriptor)?;
    let table = Arc::new(
        statistics
            .table("g", "t")
            .ok_or_else(|| invalid("has unknown types"))?,
    );
    let reader = SsTableReader::open(&*disk, descriptor, Arc::clone(&table))?;
    let options = WriterOptions {
        estimated_partitions: reader.partition_count(),
        stats: statistics.header.stats,
        ..WriterOptions::default()
    };
    let copy = Descriptor::new(folder, Generation::Number(1));
    let mut writer = SsTableWriter::create(Arc::clone(&disk), copy, table, options)?;
    let mut scanner = reader.scan(&DataRange::all(ClusteringFilter::all()))?;
    while let Some(partition) = scanner.next_partition()? {
        writer.append_partition(&partition.collect()?)?;
    }
    writer.finish().map(|_| ())
}

fn main() -> Result<(), SsTableError> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(path), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err(SsTableError::Invalid(
            "usage: rewrite FILE-Data.db FOLDER".into(),
        ));
    };
    rewrite(&path, folder)
}
