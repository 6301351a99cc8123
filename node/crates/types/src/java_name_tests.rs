//! Names that Cassandra 5.0.5 printed or stored.

use super::*;

fn check(name: &str) {
    let parsed = CqlType::from_java_name(name).unwrap();
    assert_eq!(parsed.java_name(), name);
}

#[test]
fn names_round_trip() {
    for (simple, class) in &SIMPLE[..21] {
        let name = format!("{PACKAGE}{class}");
        assert_eq!(&CqlType::from_java_name(&name).unwrap(), simple);
        assert_eq!(&CqlType::from_java_name(class).unwrap(), simple);
        check(&name);
    }
    let p = PACKAGE;
    check(&format!("{p}VectorType({p}FloatType , 3)"));
    check(&format!(
        "{p}ListType({p}FrozenType({p}MapType({p}Int32Type,{p}UTF8Type)))"
    ));
    check(&format!(
        "{p}FrozenType({p}ListType({p}SetType({p}Int32Type)))"
    ));
    check(&format!(
        "{p}TupleType({p}Int32Type,{p}ListType({p}UTF8Type))"
    ));
    check(&format!(
        "{p}UserType(ks,61646472,737472656574:{p}UTF8Type,7a6970:{p}Int32Type)"
    ));
    check(&format!(
        "{p}FrozenType({p}UserType(ks,61646472,6c:{p}ListType({p}UTF8Type)))"
    ));
    check("com.example.Strange(a=>b,(c))");
    check(&format!("{p}DynamicCompositeType(a=>{p}BytesType)"));
}

#[test]
fn frozen_goes_all_the_way_down() {
    let parsed = CqlType::from_java_name("FrozenType(ListType(SetType(Int32Type)))").unwrap();
    let CqlType::List {
        element,
        frozen: true,
    } = parsed
    else {
        panic!("{parsed:?}")
    };
    assert!(matches!(*element, CqlType::Set { frozen: true, .. }));
}

#[test]
fn order_and_keys() {
    let (parsed, reversed) =
        CqlType::from_java_name_with_order(&format!("{PACKAGE}ReversedType({PACKAGE}UUIDType)"))
            .unwrap();
    assert_eq!((parsed, reversed), (CqlType::Uuid, true));
    let key = [CqlType::Int, CqlType::Text];
    assert_eq!(parse_key_type(&key_type_name(&key)).unwrap(), key);
    assert_eq!(parse_key_type(&key_type_name(&key[..1])).unwrap(), key[..1]);
}

#[test]
fn nonsense_is_refused() {
    for name in [
        "",
        "(",
        "ListType",
        "ListType(",
        "ListType()",
        "VectorType(Int32Type , 0)",
        "UserType(ks,6)",
        "MapType(Int32Type)",
        "Int32Type)",
    ] {
        assert!(CqlType::from_java_name(name).is_err(), "{name}");
    }
    let deep = "ListType(".repeat(1000);
    assert!(CqlType::from_java_name(&deep).is_err());
}
