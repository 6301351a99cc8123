//! Mutations as messages and the commit log carry them: a count, then that many updates.

use super::partition::{decode_update, encode_update};
use super::{CodecError, Version};
use crate::partition::Mutation;
use bytes::BufMut;
use helenus_schema::Schema;
use helenus_types::{Reader, vint};

/// Writes a mutation.
pub fn encode(
    mutation: &Mutation,
    version: Version,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    if mutation.updates.is_empty() {
        return Err(CodecError::Invalid("a mutation has no updates"));
    }
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for update in &mutation.updates {
        encode_update(update, version, out)?;
    }
    Ok(())
}

/// Reads what [`encode`] writes.
pub fn decode(
    reader: &mut Reader,
    schema: &Schema,
    version: Version,
) -> Result<Mutation, CodecError> {
    let count = reader.vint_length()?;
    if count == 0 {
        return Err(CodecError::Invalid("a mutation has no updates"));
    }
    let mut mutation = Mutation::of(decode_update(reader, schema, version)?);
    for _ in 1..count {
        let update = decode_update(reader, schema, version)?;
        if update.partition.key != mutation.key || update.table.keyspace != mutation.keyspace {
            return Err(CodecError::Invalid(
                "a mutation's updates have different keys or keyspaces",
            ));
        }
        mutation.updates.push(update);
    }
    Ok(mutation)
}
