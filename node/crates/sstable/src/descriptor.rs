//! Names of SSTables and their files: `<version>-<generation>-<format>-<component>`.

use helenus_rows::codec::Version as RowVersion;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// How partitions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Index.db and Summary.db.
    Big,
    /// Tries: Partitions.db and Rows.db.
    Bti,
}

/// A version of the files, such as `da`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileVersion(pub [u8; 2]);

impl FileVersion {
    /// Cassandra 4.0.
    pub const NB: Self = Self(*b"nb");
    /// Cassandra 5.0, BIG.
    pub const OA: Self = Self(*b"oa");
    /// Cassandra 5.0, BTI.
    pub const DA: Self = Self(*b"da");

    /// The letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("??")
    }

    /// How rows are encoded in it.
    pub fn rows(self) -> RowVersion {
        if self >= Self::OA || self.0[0] == b'd' {
            RowVersion::SSTABLE_OA
        } else {
            RowVersion::SSTABLE_NB
        }
    }

    /// Whether bloom filters have big-endian words.
    pub fn has_old_bloom_filter(self) -> bool {
        self.0[0] == b'm'
    }

    /// Whether a file of this version and format can be read by this code.
    pub fn is_readable(self, format: Format) -> bool {
        match format {
            Format::Bti => self == Self::DA,
            Format::Big => {
                (*b"ma"..=*b"me").contains(&self.0)
                    || matches!(&self.0, b"na" | b"nb" | b"nc" | b"oa")
            }
        }
    }
}

/// What distinguishes the SSTables of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    /// Counted up from 1.
    Number(u64),
    /// A time UUID as Cassandra's base 36 text of 28 characters.
    Unique(String),
}

impl Generation {
    /// The generation of a time UUID (version 1).
    pub fn of_time_uuid(uuid: &Uuid) -> Self {
        let ticks = helenus_types::timeuuid::ticks(uuid).unwrap_or(0);
        let (days, rest) = (ticks / (86_400 * 10_000_000), ticks % (86_400 * 10_000_000));
        let (seconds, nanos) = (rest / 10_000_000, rest % 10_000_000);
        let low = uuid.as_u64_pair().1;
        Self::Unique(format!(
            "{:0>4}_{:0>4}_{:0>5}{:0>13}",
            base36(days),
            base36(seconds),
            base36(nanos),
            base36(low)
        ))
    }

    fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(Self::Number);
        }
        let unique = text.len() == 28
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 9 => byte == b'_',
                _ => byte.is_ascii_digit() || byte.is_ascii_lowercase(),
            });
        unique.then(|| Self::Unique(text.to_owned()))
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Unique(text) => text.fmt(f),
        }
    }
}

fn base36(mut value: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(value % 36).unwrap_or(0);
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        value /= 36;
        if value == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

/// The files of an SSTable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the files")]
pub enum Component {
    Data,
    Partitions,
    Rows,
    Index,
    Summary,
    Filter,
    CompressionInfo,
    Crc,
    Statistics,
    Digest,
    Toc,
}

impl Component {
    /// Every component.
    pub const ALL: [Self; 11] = [
        Self::Data,
        Self::Partitions,
        Self::Rows,
        Self::Index,
        Self::Summary,
        Self::Filter,
        Self::CompressionInfo,
        Self::Crc,
        Self::Statistics,
        Self::Digest,
        Self::Toc,
    ];

    /// The end of the file's name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Data => "Data.db",
            Self::Partitions => "Partitions.db",
            Self::Rows => "Rows.db",
            Self::Index => "Index.db",
            Self::Summary => "Summary.db",
            Self::Filter => "Filter.db",
            Self::CompressionInfo => "CompressionInfo.db",
            Self::Crc => "CRC.db",
            Self::Statistics => "Statistics.db",
            Self::Digest => "Digest.crc32",
            Self::Toc => "TOC.txt",
        }
    }
}

/// Names an SSTable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Descriptor {
    /// The folder.
    pub directory: PathBuf,
    /// Version of the files.
    pub version: FileVersion,
    /// What distinguishes it in its folder.
    pub generation: Generation,
    /// How partitions are found.
    pub format: Format,
}

impl Descriptor {
    /// A new BTI SSTable of version `da`.
    pub fn new(directory: impl Into<PathBuf>, generation: Generation) -> Self {
        Self {
            directory: directory.into(),
            version: FileVersion::DA,
            generation,
            format: Format::Bti,
        }
    }

    /// Reads the name of any of its files; `None` for a name that is no SSTable's.
    pub fn parse(path: &Path) -> Option<(Self, Component)> {
        let mut parts = path.file_name()?.to_str()?.splitn(4, '-');
        let version = FileVersion(parts.next()?.as_bytes().try_into().ok()?);
        let generation = Generation::parse(parts.next()?)?;
        let format = match parts.next()? {
            "big" => Format::Big,
            "bti" => Format::Bti,
            _ => return None,
        };
        let last = parts.next()?;
        let component = Component::ALL
            .into_iter()
            .find(|component| component.file_name() == last)?;
        let directory = path.parent()?.to_owned();
        Some((
            Self {
                directory,
                version,
                generation,
                format,
            },
            component,
        ))
    }

    /// The path of one of its files.
    pub fn path(&self, component: Component) -> PathBuf {
        let format = match self.format {
            Format::Big => "big",
            Format::Bti => "bti",
        };
        self.directory.join(format!(
            "{}-{}-{format}-{}",
            self.version.as_str(),
            self.generation,
            component.file_name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "da-1-bti-Data.db",
            "nb-12-big-TOC.txt",
            "da-3gpt_0bd5_1ekq82cmoqxmvzzzzz-bti-Rows.db",
        ] {
            let path = Path::new("/d").join(name);
            let (descriptor, component) = Descriptor::parse(&path).unwrap();
            assert_eq!(descriptor.path(component), path);
        }
        for name in [
            "x",
            "da-1-bti-Other.db",
            "da--bti-Data.db",
            "da-1-foo-Data.db",
            "daa-1-big-Data.db",
        ] {
            assert_eq!(
                Descriptor::parse(&Path::new("/d").join(name)),
                None,
                "{name}"
            );
        }
        let uuid =
            helenus_types::timeuuid::from_micros(1_700_000_000_000_000, 1, [1, 2, 3, 4, 5, 6]);
        let unique = Generation::of_time_uuid(&uuid);
        assert_eq!(Generation::parse(&unique.to_string()), Some(unique));
    }
}
