//! Reads a cluster report without its two long lists if nothing asks for them. They grow with the number of operations,
//! and as JSON values they take five times the space of the file. Their items are checked while they are read.

use std::fmt;
use std::marker::PhantomData;

use protocol::report::{MeasuredOperation, TimelineEntry};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::check::need::Need;

/// Reads a report. A list that is left out is null.
///
/// # Errors
/// It does not parse, or an item of a left-out list does not match the report's schema.
pub(in crate::execute) fn read(bytes: &[u8], need: Need) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let report = Report(need).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(report)
}

struct Report(Need);

impl<'de> DeserializeSeed<'de> for Report {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Report {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cluster report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut report = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match key.as_str() {
                "operation_timeline" if !self.0.entries => {
                    entries.next_value_seed(Without::<TimelineEntry>::new("entries"))?
                }
                "measured" if !self.0.operations => {
                    entries.next_value_seed(Without::<MeasuredOperation>::new("operations"))?
                }
                _ => entries.next_value()?,
            };
            report.insert(key, value);
        }
        Ok(Value::Object(report))
    }
}

/// A mapping without the items of its list `list`, each of which is a `T`.
struct Without<T> {
    list: &'static str,
    items: PhantomData<T>,
}

impl<T> Without<T> {
    fn new(list: &'static str) -> Without<T> {
        Without { list, items: PhantomData }
    }
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Without<T> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Without<T> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut section = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = if key == self.list {
                entries.next_value_seed(Checked::<T>(PhantomData))?;
                Value::Null
            } else {
                entries.next_value()?
            };
            section.insert(key, value);
        }
        Ok(Value::Object(section))
    }
}

/// A list of `T`, each dropped after it was read.
struct Checked<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Checked<T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Checked<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Item::<T>(PhantomData))?.is_some() {}
        Ok(())
    }
}

/// A `T` from a mapping; serde would also accept a list of its fields.
struct Item<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Item<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Item<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::report_shape;

    const REPORT: &str = include_str!("../../../tests/reports/cluster_report.json");
    const ALL: Need = Need { entries: true, operations: true };
    const NOTHING: Need = Need { entries: false, operations: false };

    fn whole() -> Value {
        serde_json::from_str(REPORT).unwrap()
    }

    #[test]
    fn what_is_left_out_is_null_and_the_rest_is_there() {
        assert_eq!(read(REPORT.as_bytes(), ALL).unwrap(), whole());
        let lean = read(REPORT.as_bytes(), NOTHING).unwrap();
        let mut expected = whole();
        assert!(expected["operation_timeline"]["entries"].as_array().is_some_and(|entries| !entries.is_empty()));
        expected["operation_timeline"]["entries"] = Value::Null;
        expected["measured"]["operations"] = Value::Null;
        assert_eq!(lean, expected);
        assert_eq!(report_shape::mistakes(&lean), [""; 0]);
        let half = read(REPORT.as_bytes(), Need { entries: true, operations: false }).unwrap();
        assert_eq!(half["operation_timeline"], whole()["operation_timeline"]);
        assert_eq!(half["measured"]["operations"], Value::Null);
    }

    /// Anything that the schema refuses in an item is refused here as well.
    #[test]
    fn a_wrong_item_is_an_error_although_it_is_left_out() {
        for (list, item, change) in [
            ("/operation_timeline/entries", 1, json!({"count": "many"})),
            ("/operation_timeline/entries", 1, json!({"count": -1})),
            ("/operation_timeline/entries", 0, json!({"kind": "sideways"})),
            ("/operation_timeline/entries", 0, json!({"more": 1})),
            ("/operation_timeline/entries", 0, json!({"ranks": null})),
            ("/measured/operations", 0, json!({"index": null})),
            ("/measured/operations", 0, json!({"began_us": ["soon"]})),
            ("/measured/operations", 0, json!({"more": 1})),
        ] {
            let mut report = whole();
            let entry = report.pointer_mut(&format!("{list}/{item}")).unwrap().as_object_mut().unwrap();
            entry.extend(change.as_object().unwrap().clone());
            assert!(!report_shape::mistakes(&report).is_empty(), "{list}: {change}");
            let error = read(report.to_string().as_bytes(), NOTHING).unwrap_err().to_string();
            assert!(error.contains("at line 1 column"), "{error}");
        }
        for list in ["/operation_timeline/entries", "/measured/operations"] {
            for wrong in [json!({}), json!(3), json!([[]]), json!([null])] {
                let mut report = whole();
                *report.pointer_mut(list).unwrap() = wrong;
                assert!(!report_shape::mistakes(&report).is_empty());
                assert!(read(report.to_string().as_bytes(), NOTHING).is_err(), "{list}");
            }
        }
        assert!(read(format!("{REPORT} x").as_bytes(), NOTHING).is_err());
        assert!(read(b"[]", NOTHING).is_err());
    }
}
