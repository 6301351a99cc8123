//! Why a statement is refused, with the native protocol's error code and Cassandra's texts.

use helenus_types::value::ValueError;

/// A refused statement. The message is what the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CqlError {
    /// The text is no CQL (`SyntaxException`).
    #[error("{0}")]
    Syntax(String),
    /// The statement makes no sense here, or needs what is not there (`InvalidRequestException`).
    #[error("{0}")]
    Invalid(String),
    /// An option of a table or keyspace is wrong (`ConfigurationException`).
    #[error("{0}")]
    Config(String),
    /// The keyspace or table is there already.
    #[error("{message}")]
    AlreadyExists {
        /// Which keyspace.
        keyspace: String,
        /// Which table; empty when the keyspace itself exists.
        table: String,
        /// Text for the client.
        message: String,
    },
    /// Nobody may do that (`UnauthorizedException`).
    #[error("{0}")]
    Unauthorized(String),
    /// A function failed on its arguments (`FunctionExecutionException`).
    #[error("{message}")]
    FunctionFailure {
        /// Keyspace of the function.
        keyspace: String,
        /// Name of the function.
        function: String,
        /// Types of its arguments.
        arguments: Vec<String>,
        /// Text for the client.
        message: String,
    },
    /// The client broke the protocol, for instance by a paging state that is none (`ProtocolException`).
    #[error("{0}")]
    Protocol(String),
}

impl CqlError {
    /// The error code of the native protocol.
    pub fn code(&self) -> i32 {
        match self {
            Self::Protocol(_) => 0x000a,
            Self::FunctionFailure { .. } => 0x1400,
            Self::Syntax(_) => 0x2000,
            Self::Unauthorized(_) => 0x2100,
            Self::Invalid(_) => 0x2200,
            Self::Config(_) => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
        }
    }

    /// What is understood but not done by this version.
    pub fn unsupported(feature: &str) -> Self {
        Self::Invalid(format!(
            "{feature} is not supported yet by this version of Helenus"
        ))
    }
}

impl From<ValueError> for CqlError {
    fn from(error: ValueError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Builds an invalid-request error.
macro_rules! invalid {
    ($($argument:tt)*) => { $crate::error::CqlError::Invalid(format!($($argument)*)) };
}
pub(crate) use invalid;
