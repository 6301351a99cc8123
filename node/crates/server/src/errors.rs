//! Errors as clients see them.

use crate::RequestError;
use helenus_coordinator::{CoordinatorError, FailureReason, WriteKind};
use helenus_cql::CqlError;
use helenus_native::{ErrorResponse, FailureReasons, WriteType};
use helenus_types::{ConsistencyLevel, Endpoint};

pub(crate) fn response(error: &RequestError) -> ErrorResponse {
    match error {
        RequestError::Cql(error) => cql(error),
        RequestError::Coordinator(error) => coordinator(error),
    }
}

pub(crate) fn cql(error: &CqlError) -> ErrorResponse {
    let message = error.to_string();
    match error {
        CqlError::Syntax(_) => ErrorResponse::Syntax { message },
        CqlError::Invalid(_) => ErrorResponse::Invalid { message },
        CqlError::Config(_) => ErrorResponse::Config { message },
        CqlError::Unauthorized(_) => ErrorResponse::Unauthorized { message },
        CqlError::Protocol(_) => ErrorResponse::Protocol { message },
        CqlError::AlreadyExists {
            keyspace, table, ..
        } => ErrorResponse::AlreadyExists {
            message,
            keyspace: keyspace.clone(),
            table: table.clone(),
        },
        CqlError::FunctionFailure {
            keyspace,
            function,
            arguments,
            ..
        } => ErrorResponse::FunctionFailure {
            message,
            keyspace: keyspace.clone(),
            function: function.clone(),
            argument_types: arguments.clone(),
        },
    }
}

fn unavailable(
    message: String,
    consistency: ConsistencyLevel,
    required: usize,
    alive: usize,
) -> ErrorResponse {
    ErrorResponse::Unavailable {
        message,
        consistency,
        required: count(required),
        alive: count(alive),
    }
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn reasons(failures: &[(Endpoint, FailureReason)]) -> FailureReasons {
    failures
        .iter()
        .map(|(endpoint, reason)| (endpoint.address(), reason.code()))
        .collect()
}

fn write_type(kind: WriteKind) -> WriteType {
    match kind {
        WriteKind::Simple => WriteType::Simple,
        WriteKind::Batch => WriteType::Batch,
        WriteKind::UnloggedBatch => WriteType::UnloggedBatch,
        WriteKind::Counter => WriteType::Counter,
        WriteKind::BatchLog => WriteType::BatchLog,
        WriteKind::Cas => WriteType::Cas,
    }
}

fn coordinator(error: &CoordinatorError) -> ErrorResponse {
    let message = error.to_string();
    match error {
        CoordinatorError::Unavailable {
            level,
            required,
            alive,
        } => unavailable(message, *level, *required, *alive),
        CoordinatorError::WriteTimeout {
            level,
            received,
            required,
            kind,
        } => ErrorResponse::WriteTimeout {
            message,
            consistency: *level,
            received: count(*received),
            block_for: count(*required),
            write_type: write_type(*kind),
            contentions: None,
        },
        CoordinatorError::ReadTimeout {
            level,
            received,
            required,
            data_present,
        } => ErrorResponse::ReadTimeout {
            message,
            consistency: *level,
            received: count(*received),
            block_for: count(*required),
            data_present: *data_present,
        },
        CoordinatorError::WriteFailure { .. } | CoordinatorError::ReadFailure { .. } => {
            failure(error, message)
        }
        CoordinatorError::Overloaded(_) => ErrorResponse::Overloaded { message },
        CoordinatorError::Invalid(_) => ErrorResponse::Invalid { message },
        CoordinatorError::Server(_) => ErrorResponse::Server { message },
    }
}

/// An error of replicas that answered with a failure.
fn failure(error: &CoordinatorError, message: String) -> ErrorResponse {
    match error {
        CoordinatorError::WriteFailure {
            level,
            received,
            required,
            kind,
            failures,
        } => ErrorResponse::WriteFailure {
            message,
            consistency: *level,
            received: count(*received),
            block_for: count(*required),
            failures: reasons(failures),
            write_type: write_type(*kind),
        },
        CoordinatorError::ReadFailure {
            level,
            received,
            required,
            data_present,
            failures,
        } => ErrorResponse::ReadFailure {
            message,
            consistency: *level,
            received: count(*received),
            block_for: count(*required),
            failures: reasons(failures),
            data_present: *data_present,
        },
        _ => ErrorResponse::Server { message },
    }
}
