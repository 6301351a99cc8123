//! Types as they are written, resolved: names of user types are looked up, and what may not stand
//! inside what is refused.

use crate::ast::{QualifiedName, RawType};
use crate::error::{CqlError, invalid};
use helenus_schema::Schema;
use helenus_types::CqlType;
use std::sync::Arc;

/// A written type, resolved in a keyspace.
pub(crate) fn resolve_type(
    raw: &RawType,
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<CqlType, CqlError> {
    Resolver { schema, keyspace }.resolve(raw)
}

#[derive(Clone, Copy)]
struct Resolver<'a> {
    schema: &'a Schema,
    keyspace: Option<&'a str>,
}

impl Resolver<'_> {
    fn resolve(self, raw: &RawType) -> Result<CqlType, CqlError> {
        match raw {
            RawType::Native(native) => Ok(native.clone()),
            RawType::List(of) => Ok(list(self.element(of, &list)?)),
            RawType::Set(of) => self.set(of),
            RawType::Map(key, value) => self.map(key, value),
            RawType::Tuple(items) => self.tuple(items),
            RawType::Vector(of, dimension) => Ok(CqlType::Vector {
                element: self.frozen_inside(of)?,
                dimension: *dimension,
            }),
            RawType::Frozen(of) => self.frozen(of),
            RawType::User(name) => self.user_type(name),
            RawType::Custom(class) => CqlType::from_java_name(class)
                .map_err(|error| CqlError::Syntax(format!("Cannot parse type {class}: {error}"))),
        }
    }

    /// What a collection that is not frozen holds; `whole` makes the collection for the error.
    fn element(
        self,
        raw: &RawType,
        whole: &dyn Fn(Arc<CqlType>) -> CqlType,
    ) -> Result<Arc<CqlType>, CqlError> {
        let inner = self.resolve(raw)?;
        if inner == CqlType::Counter {
            return Err(invalid!(
                "Counters are not allowed inside collections: {}",
                whole(Arc::new(inner))
            ));
        }
        if inner.is_multi_cell() {
            let kind = if matches!(inner, CqlType::Udt(_)) {
                "UDTs"
            } else {
                "collections"
            };
            return Err(invalid!(
                "Non-frozen {kind} are not allowed inside collections: {}",
                whole(Arc::new(inner))
            ));
        }
        Ok(Arc::new(inner))
    }

    fn set(self, of: &RawType) -> Result<CqlType, CqlError> {
        let element = self.element(of, &set)?;
        if *element == CqlType::Duration {
            return Err(invalid!(
                "Durations are not allowed inside sets: set<duration>"
            ));
        }
        Ok(set(element))
    }

    fn map(self, key: &RawType, value: &RawType) -> Result<CqlType, CqlError> {
        let any_value = Arc::new(self.resolve(value)?);
        let with_key = |key| map(key, Arc::clone(&any_value));
        let key = self.element(key, &with_key)?;
        if *key == CqlType::Duration {
            return Err(invalid!(
                "Durations are not allowed as map keys: {}",
                with_key(key)
            ));
        }
        let with_value = |value| map(Arc::clone(&key), value);
        Ok(with_value(self.element(value, &with_value)?))
    }

    fn tuple(self, items: &[RawType]) -> Result<CqlType, CqlError> {
        let mut types = Vec::with_capacity(items.len());
        for item in items {
            let inner = self.resolve(item)?;
            if inner == CqlType::Counter {
                return Err(invalid!("Counters are not allowed inside tuples"));
            }
            types.push(inner.freeze());
        }
        Ok(CqlType::Tuple(types.into()))
    }

    /// What a frozen collection holds is frozen with it.
    fn frozen(self, of: &RawType) -> Result<CqlType, CqlError> {
        Ok(match of {
            RawType::Native(native) => {
                return Err(invalid!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {native})"
                ));
            }
            RawType::List(inner) => CqlType::List {
                element: self.frozen_inside(inner)?,
                frozen: true,
            },
            RawType::Set(inner) => CqlType::Set {
                element: self.frozen_inside(inner)?,
                frozen: true,
            },
            RawType::Map(key, value) => CqlType::Map {
                key: self.frozen_inside(key)?,
                value: self.frozen_inside(value)?,
                frozen: true,
            },
            other => self.resolve(other)?.freeze(),
        })
    }

    fn frozen_inside(self, of: &RawType) -> Result<Arc<CqlType>, CqlError> {
        Ok(Arc::new(self.resolve(of)?.freeze()))
    }

    fn user_type(self, name: &QualifiedName) -> Result<CqlType, CqlError> {
        let keyspace = self.keyspace.unwrap_or_default();
        if name.keyspace.is_some() && name.keyspace.as_deref() != self.keyspace {
            return Err(invalid!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {}; user types can only be used in the keyspace they are defined in",
                name.keyspace.as_deref().unwrap_or_default()
            ));
        }
        let found = self.schema.keyspace(keyspace);
        let found = found.and_then(|keyspace| keyspace.types.get(&name.name));
        let found = found.ok_or_else(|| invalid!("Unknown type {keyspace}.{}", name.name))?;
        Ok(CqlType::Udt(Arc::clone(found)))
    }
}

fn list(element: Arc<CqlType>) -> CqlType {
    CqlType::List {
        element,
        frozen: false,
    }
}

fn set(element: Arc<CqlType>) -> CqlType {
    CqlType::Set {
        element,
        frozen: false,
    }
}

fn map(key: Arc<CqlType>, value: Arc<CqlType>) -> CqlType {
    CqlType::Map {
        key,
        value,
        frozen: false,
    }
}
