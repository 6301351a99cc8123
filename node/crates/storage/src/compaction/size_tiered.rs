//! Which SSTables to compact: those of similar size (Cassandra's `SizeTieredCompactionStrategy`).

use std::collections::BTreeMap;

/// The options of the strategy, with Cassandra's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeTieredOptions {
    /// Fewest SSTables to compact at once.
    pub min_threshold: usize,
    /// Most SSTables to compact at once.
    pub max_threshold: usize,
    /// SSTables from this part of the mean size of a bucket belong to it.
    pub bucket_low: f64,
    /// SSTables up to this multiple of the mean size of a bucket belong to it.
    pub bucket_high: f64,
    /// All SSTables smaller than this many bytes share a bucket.
    pub min_sstable_size: u64,
    /// Whether SSTables are compacted without being asked.
    pub enabled: bool,
}

impl Default for SizeTieredOptions {
    fn default() -> Self {
        Self {
            min_threshold: 4,
            max_threshold: 32,
            bucket_low: 0.5,
            bucket_high: 1.5,
            min_sstable_size: 50 << 20,
            enabled: true,
        }
    }
}

impl SizeTieredOptions {
    /// The options in a table's `compaction` map; what cannot be read is as by default.
    pub fn of(map: &BTreeMap<String, String>) -> Self {
        fn read<T: std::str::FromStr>(map: &BTreeMap<String, String>, name: &str, default: T) -> T {
            map.get(name)
                .and_then(|text| text.parse().ok())
                .unwrap_or(default)
        }
        let default = Self::default();
        let min_threshold = read(map, "min_threshold", default.min_threshold).max(2);
        Self {
            min_threshold,
            max_threshold: read(map, "max_threshold", default.max_threshold).max(min_threshold),
            bucket_low: read(map, "bucket_low", default.bucket_low),
            bucket_high: read(map, "bucket_high", default.bucket_high),
            min_sstable_size: read(map, "min_sstable_size", default.min_sstable_size),
            enabled: read(map, "enabled", default.enabled),
        }
    }
}

/// Chooses among SSTables of these sizes in bytes: indexes of those to compact, smallest first; none
/// when no bucket has enough.
pub fn choose(sizes: &[u64], options: &SizeTieredOptions) -> Vec<usize> {
    if !options.enabled {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&at| sizes[at]);
    let mut buckets: Vec<(f64, Vec<usize>)> = Vec::new();
    for at in order {
        #[expect(
            clippy::cast_precision_loss,
            reason = "sizes are compared only roughly"
        )]
        let (size, small) = (sizes[at] as f64, options.min_sstable_size as f64);
        let fits = |mean: f64| {
            (size >= mean * options.bucket_low && size <= mean * options.bucket_high)
                || (size < small && mean < small)
        };
        match buckets.iter_mut().find(|(mean, _)| fits(*mean)) {
            Some((mean, members)) => {
                #[expect(clippy::cast_precision_loss, reason = "there are few SSTables")]
                let count = members.len() as f64;
                *mean = (*mean * count + size) / (count + 1.0);
                members.push(at);
            }
            None => buckets.push((size, vec![at])),
        }
    }
    buckets.retain(|(_, members)| members.len() >= options.min_threshold);
    // the bucket of most SSTables; among equals the one that costs least
    let best = buckets.into_iter().min_by(|(a_mean, a), (b_mean, b)| {
        b.len()
            .min(options.max_threshold)
            .cmp(&a.len().min(options.max_threshold))
            .then(a_mean.total_cmp(b_mean))
    });
    let mut chosen = best.map(|(_, members)| members).unwrap_or_default();
    chosen.truncate(options.max_threshold);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[track_caller]
    fn check(sizes: &[u64], expected: &[usize]) {
        assert_eq!(choose(sizes, &SizeTieredOptions::default()), expected);
    }

    #[test]
    fn similar_sizes_are_compacted_together() {
        check(&[], &[]);
        check(&[MIB, MIB, MIB], &[]);
        check(&[1, MIB, 2 * MIB, 40 * MIB], &[0, 1, 2, 3]);
        check(&[100 * MIB, 110 * MIB, 90 * MIB, 1000 * MIB], &[]);
        check(
            &[100 * MIB, 110 * MIB, 1000 * MIB, 90 * MIB, 120 * MIB],
            &[3, 0, 1, 4],
        );
        // of two buckets of the same count the smaller
        check(
            &[
                1000 * MIB,
                1000 * MIB,
                1000 * MIB,
                1000 * MIB,
                MIB,
                MIB,
                MIB,
                MIB,
            ],
            &[4, 5, 6, 7],
        );
    }

    #[test]
    fn options_are_read_and_limits_kept() {
        let map = |entries: &[(&str, &str)]| {
            entries
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let options =
            SizeTieredOptions::of(&map(&[("min_threshold", "2"), ("max_threshold", "3")]));
        assert_eq!(choose(&[1, 1, 1, 1, 1], &options).len(), 3);
        let off = SizeTieredOptions::of(&map(&[("enabled", "false")]));
        assert_eq!(choose(&[1; 10], &off), Vec::<usize>::new());
    }
}
