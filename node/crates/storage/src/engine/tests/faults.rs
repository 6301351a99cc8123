//! The disk fails at every single operation of a flush, a compaction, a truncation and a restart:
//! what was acknowledged is there afterwards.

use super::*;
use helenus_seams::DiskFile;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};

/// A disk that does so many more operations that change something, then none.
#[derive(Clone)]
struct FailingDisk {
    disk: SimulatedDisk,
    left: Arc<AtomicI64>,
}

struct FailingFile {
    file: Arc<dyn DiskFile>,
    left: Arc<AtomicI64>,
}

fn spend(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::SeqCst) > 0 {
        Ok(())
    } else {
        Err(io::Error::other("injected"))
    }
}

impl DiskFile for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let result = spend(&self.left);
        if result.is_err() {
            // half of it is written all the same
            self.file.append(&bytes[..bytes.len() / 2])?;
        } else {
            self.file.append(bytes)?;
        }
        result
    }

    fn sync(&self) -> io::Result<()> {
        spend(&self.left)?;
        self.file.sync()
    }
}

impl FailingDisk {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FailingFile {
            file,
            left: Arc::clone(&self.left),
        })
    }
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        spend(&self.left)?;
        Ok(self.file(self.disk.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.disk.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.disk.hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.disk.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.disk.exists(path)
    }

    fn space(&self, path: &Path) -> io::Result<(u64, u64)> {
        self.disk.space(path)
    }
}

fn open_on(fixture: &Fixture, disk: &FailingDisk) -> Result<Engine, OpenError> {
    fixture.clock.advance(Duration::from_millis(10));
    let clock = Arc::new(fixture.clock.clone());
    let mut engine = Engine::open(
        fixture.settings.clone(),
        Arc::clone(&fixture.schema),
        Arc::new(disk.clone()),
        clock,
    )?;
    engine.finish_replay()?;
    Ok(engine)
}

/// Writes three SSTables and a deletion, then lets the disk fail after `operations` while `work` is
/// done. Returns whether it failed at all.
fn fail_after(operations: i64, power_loss: bool, work: impl Fn(&mut Engine)) -> bool {
    let fixture = Fixture::new();
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let disk = FailingDisk {
        disk: fixture.disk.clone(),
        left: Arc::clone(&left),
    };
    let mut engine = open_on(&fixture, &disk).unwrap();
    let mut model = Model::default();
    for round in 0..4 {
        for p in 0..3 {
            model.write(p, round, round, i64::from(round));
            acknowledge(
                &mut engine,
                &fixture.write(p, round, round, i64::from(round)),
            );
        }
        model.delete(0, 0..=ROWS, i64::from(round));
        acknowledge(&mut engine, &fixture.delete_partition(0, i64::from(round)));
        if round < 3 {
            engine.request_flush_all();
            engine.run_tasks();
        }
    }
    // tombstones are purged as soon as they may be
    fixture.clock.advance(Duration::from_secs(864_001));
    left.store(operations, Ordering::SeqCst);
    work(&mut engine);
    let failed = left.load(Ordering::SeqCst) < 0;
    let mut last = 0;
    // the restart fails too, ever later
    for restart in 0.. {
        if power_loss {
            fixture.disk.crash();
        }
        left.store(
            if failed { restart * 3 } else { i64::MAX },
            Ordering::SeqCst,
        );
        let opened = open_on(&fixture, &disk);
        left.store(i64::MAX, Ordering::SeqCst);
        if let Ok(mut engine) = opened {
            check_reads(&fixture, &mut engine, &model, operations.unsigned_abs());
            engine.run_tasks();
            check_reads(&fixture, &mut engine, &model, operations.unsigned_abs());
            break;
        }
        last = restart;
    }
    assert!(last < 1000);
    failed
}

#[test]
fn every_failure_of_flush_and_compaction_is_survived() {
    for power_loss in [true, false] {
        let mut operations = 0;
        while fail_after(operations, power_loss, |engine| {
            engine.request_flush_all();
            for _ in 0..6 {
                let Some(task) = engine.next_task() else {
                    break;
                };
                let output = task.run(&Arc::clone(&engine.disk));
                engine.complete(output);
            }
        }) {
            operations += 1;
        }
        assert!(operations > 60, "{operations} operations");
    }
}

#[test]
fn a_failure_while_truncating_loses_nothing_that_is_newer() {
    for operations in 0..80 {
        let fixture = Fixture::new();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let disk = FailingDisk {
            disk: fixture.disk.clone(),
            left: Arc::clone(&left),
        };
        let mut engine = open_on(&fixture, &disk).unwrap();
        acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
        engine.request_flush_all();
        engine.run_tasks();
        acknowledge(&mut engine, &fixture.write(1, 2, 2, 2));
        left.store(operations, Ordering::SeqCst);
        let truncated = engine.truncate(fixture.table().id).is_ok();
        engine.run_tasks();
        left.store(i64::MAX, Ordering::SeqCst);
        let newer = engine.apply(&fixture.write(1, 3, 3, 3)).is_ok() && engine.sync_log().is_ok();
        fixture.disk.crash();
        let mut engine = open_on(&fixture, &disk).unwrap();
        let found = fixture.read(&mut engine, 1, ClusteringFilter::all());
        assert!(
            !truncated || found.iter().all(|(c, _)| *c == 3),
            "{operations}: {found:?}"
        );
        assert!(!newer || found.contains(&(3, 3)), "{operations}: {found:?}");
    }
}
