//! What the parser makes of a text: names are not resolved, values not typed.

use helenus_types::CqlType;

/// A name with or without its keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedName {
    /// Keyspace, if the text names it.
    pub keyspace: Option<String>,
    /// The name.
    pub name: String,
}

/// A bind marker: its place among all, and its name if it is `:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Place among the statement's markers, from 0.
    pub index: usize,
    /// Name behind the colon.
    pub name: Option<String>,
}

/// Kinds of literals, named as Cassandra's messages name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LiteralKind {
    String,
    Integer,
    Float,
    Boolean,
    Uuid,
    Hex,
    Duration,
}

impl LiteralKind {
    /// Cassandra's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::String => "STRING",
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Boolean => "BOOLEAN",
            Self::Uuid => "UUID",
            Self::Hex => "HEX",
            Self::Duration => "DURATION",
        }
    }
}

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    /// Its sign.
    pub fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Modulo => '%',
        }
    }
}

/// A type as written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RawType {
    Native(CqlType),
    List(Box<RawType>),
    Set(Box<RawType>),
    Map(Box<RawType>, Box<RawType>),
    Tuple(Vec<RawType>),
    Vector(Box<RawType>, u32),
    Frozen(Box<RawType>),
    User(QualifiedName),
    /// A Java class name in quotes.
    Custom(String),
}

/// A value expression; in SELECT clauses also columns and what is selected of them.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Term {
    Literal(LiteralKind, String),
    Null,
    Marker(Marker),
    List(Vec<Term>),
    Set(Vec<Term>),
    /// Entries; `{}` is a map without any.
    Map(Vec<(Term, Term)>),
    Tuple(Vec<Term>),
    /// `{field: value}`.
    UserType(Vec<(String, Term)>),
    Function(QualifiedName, Vec<Term>),
    /// `(type) value`.
    Hint(RawType, Box<Term>),
    /// `CAST(value AS type)`.
    Cast(Box<Term>, CqlType),
    Arithmetic(Arithmetic, Box<Term>, Box<Term>),
    Negate(Box<Term>),
    /// A column (in SELECT clauses only).
    Column(String),
    /// `count(*)`.
    CountStar,
    /// `writetime`, `maxwritetime` or `ttl` of a column or a part of it.
    Metadata(CellFact, Box<Term>),
    /// `value.field`.
    Field(Box<Term>, String),
    /// `value[key]`.
    Element(Box<Term>, Box<Term>),
    /// `value[from..to]`.
    Range(Box<Term>, Option<Box<Term>>, Option<Box<Term>>),
}

/// What is asked of a cell besides its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CellFact {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

impl CellFact {
    /// Its function name.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteTime => "writetime",
            Self::MaxWriteTime => "maxwritetime",
            Self::Ttl => "ttl",
        }
    }
}

/// Comparison in a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Contains,
    ContainsKey,
    Like,
}

impl Comparison {
    /// Its sign or word.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Contains => "CONTAINS",
            Self::ContainsKey => "CONTAINS KEY",
            Self::Like => "LIKE",
        }
    }
}

/// What stands behind IN.
#[derive(Debug, Clone, PartialEq)]
pub enum InValues {
    /// `(a, b, …)`.
    List(Vec<Term>),
    /// One marker for the whole list.
    Marker(Marker),
}

/// One condition of a WHERE clause.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Relation {
    Column {
        column: String,
        comparison: Comparison,
        value: Term,
    },
    In {
        column: String,
        values: InValues,
    },
    Tuple {
        columns: Vec<String>,
        comparison: Comparison,
        value: Term,
    },
    TupleIn {
        columns: Vec<String>,
        values: InValues,
    },
    Token {
        columns: Vec<String>,
        comparison: Comparison,
        value: Term,
    },
    MapEntry {
        column: String,
        key: Term,
        comparison: Comparison,
        value: Term,
    },
    IsNotNull {
        column: String,
    },
    CustomIndex {
        index: String,
    },
}

/// `USING TTL … AND TIMESTAMP …`.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Attributes {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
}

/// A SELECT.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the statement"
)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Select {
    pub json: bool,
    pub distinct: bool,
    /// Selected expressions with aliases; empty means `*`.
    pub selectors: Vec<(Term, Option<String>)>,
    pub table: QualifiedName,
    pub relations: Vec<Relation>,
    pub group_by: Vec<Term>,
    /// Columns, and whether descending.
    pub order_by: Vec<(String, bool)>,
    pub ann: bool,
    pub per_partition_limit: Option<Term>,
    pub limit: Option<Term>,
    pub allow_filtering: bool,
}

/// An INSERT.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Insert {
    pub table: QualifiedName,
    pub values: InsertValues,
    pub if_not_exists: bool,
    pub attributes: Attributes,
}

/// What an INSERT writes.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertValues {
    /// Columns and values.
    Columns(Vec<String>, Vec<Term>),
    /// A JSON document; `default_unset` leaves missing columns alone instead of deleting them.
    Json {
        /// The document.
        value: Term,
        /// `DEFAULT UNSET`.
        default_unset: bool,
    },
}

/// One assignment of an UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub enum Assignment {
    /// `c = value`.
    Set(String, Term),
    /// `c = c + value`, `c += value`.
    Append(String, Term),
    /// `c = c - value`, `c -= value`.
    Subtract(String, Term),
    /// `c = value + c`.
    Prepend(String, Term),
    /// `c[key] = value`.
    Element(String, Term, Term),
    /// `c.field = value`.
    Field(String, String, Term),
}

/// An UPDATE.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Update {
    pub table: QualifiedName,
    pub attributes: Attributes,
    pub assignments: Vec<Assignment>,
    pub relations: Vec<Relation>,
    pub conditional: bool,
}

/// What a DELETE removes of a row.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Deletion {
    Column(String),
    Element(String, Term),
    Field(String, String),
}

/// A DELETE.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Delete {
    pub table: QualifiedName,
    pub attributes: Attributes,
    pub deletions: Vec<Deletion>,
    pub relations: Vec<Relation>,
    pub conditional: bool,
}

/// Kinds of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// A batch.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Batch {
    pub kind: BatchKind,
    pub attributes: Attributes,
    pub statements: Vec<Statement>,
}

/// Value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant or keyword.
    Simple(String),
    /// A map of constants.
    Map(Vec<(String, String)>),
}

/// `WITH` properties in the order of the text.
pub type Properties = Vec<(String, PropertyValue)>;

/// A CREATE TABLE.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CreateTable {
    pub keyspace: Option<String>,
    pub name: String,
    pub if_not_exists: bool,
    /// Name, type, static.
    pub columns: Vec<(String, RawType, bool)>,
    /// PRIMARY KEY clauses: partition key and clustering columns.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    pub properties: Properties,
    pub compact_storage: bool,
    /// Column, and whether descending.
    pub clustering_order: Vec<(String, bool)>,
    pub masked: bool,
}

/// What an ALTER TABLE does.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AlterTableAction {
    /// Name, type, static.
    Add {
        columns: Vec<(String, RawType, bool)>,
        if_not_exists: bool,
    },
    Drop {
        columns: Vec<String>,
        if_exists: bool,
        timestamp: Option<i64>,
    },
    Rename {
        renames: Vec<(String, String)>,
        if_exists: bool,
    },
    AlterType,
    DropCompactStorage,
    Mask,
    With(Properties),
}

/// What an ALTER TYPE does.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AlterTypeAction {
    Add {
        name: String,
        field_type: RawType,
        if_not_exists: bool,
    },
    Rename {
        renames: Vec<(String, String)>,
        if_exists: bool,
    },
    AlterType,
}

/// What DESCRIBE describes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DescribeTarget {
    Cluster,
    Schema {
        full: bool,
    },
    Keyspaces,
    Keyspace {
        name: Option<String>,
        only: bool,
    },
    Tables,
    Table(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(QualifiedName),
    Aggregates,
    Aggregate(QualifiedName),
    Index(QualifiedName),
    View(QualifiedName),
    /// A keyspace, table or other thing of that name.
    Any(QualifiedName),
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are CQL's")]
pub enum Statement {
    Use(String),
    Select(Box<Select>),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    Truncate(QualifiedName),
    CreateKeyspace {
        name: String,
        if_not_exists: bool,
        properties: Properties,
    },
    AlterKeyspace {
        name: String,
        if_exists: bool,
        properties: Properties,
    },
    DropKeyspace {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    AlterTable {
        table: QualifiedName,
        if_exists: bool,
        action: AlterTableAction,
    },
    DropTable {
        table: QualifiedName,
        if_exists: bool,
    },
    CreateType {
        name: QualifiedName,
        if_not_exists: bool,
        fields: Vec<(String, RawType)>,
    },
    AlterType {
        name: QualifiedName,
        if_exists: bool,
        action: AlterTypeAction,
    },
    DropType {
        name: QualifiedName,
        if_exists: bool,
    },
    Describe {
        target: DescribeTarget,
        internals: bool,
    },
    /// Understood, but not done by this version.
    Unsupported(&'static str),
}

/// A parsed text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// Names of the bind markers in order; `None` for `?`.
    pub markers: Vec<Option<String>>,
}
