//! The fields that reports have, by their schemas: a path or an expression that names another one selects nothing in any run.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use protocol::datatype::Operation;
use protocol::device_report::DeviceReport;
use protocol::suggest;
use serde_json::{Value, json};

use crate::check::report::ReportKind;
use crate::check::report_shape;
use crate::suite::path::query::{Query, Segment, Selector};

/// A report, as its schema describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    schema: &'static Value,
    /// Its items are the reports.
    is_list: bool,
}

/// A name that no report has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    /// The name.
    pub(super) name: String,
    /// Where it is in the path, in bytes.
    pub(super) at: std::ops::Range<usize>,
    /// What was meant, or what there is.
    pub(super) help: String,
}

/// What a part of a report is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// As this schema says.
    Known(&'static Value),
    /// The list of the device reports.
    Reports(&'static Value),
    /// Anything.
    Open,
}

impl Report {
    /// The report that a check reads; with `of_rank` it starts in the one of a rank.
    pub(super) fn for_kind(kind: ReportKind, of_rank: bool) -> Report {
        match kind {
            ReportKind::Cluster if !of_rank => Report { schema: cluster(), is_list: false },
            _ => Report { schema: device(), is_list: !of_rank },
        }
    }

    fn root(self) -> Place {
        if self.is_list { Place::Reports(self.schema) } else { Place::Known(self.schema) }
    }

    /// What `path` can select.
    ///
    /// # Errors
    /// The first name that no report has there.
    pub(super) fn check(self, path: &Query) -> Result<Selected, Unknown> {
        Ok(Selected { places: self.walk(path, vec![self.root()])?, schema: self.schema })
    }

    /// The path of `names`, from an expression.
    ///
    /// # Errors
    /// The first name that no report has there.
    pub(super) fn check_names(self, names: &[String]) -> Result<(), Unknown> {
        let segments = names.iter().map(|name| {
            let is_index = name.parse::<i64>().is_ok();
            let selector = if is_index { Selector::Items } else { Selector::Name(name.clone(), 0..0) };
            Segment { descends: false, selectors: vec![selector] }
        });
        let query = Query { from_root: true, segments: segments.collect() };
        self.walk(&query, vec![self.root()]).map(drop)
    }

    fn walk(self, query: &Query, from: Vec<Place>) -> Result<Vec<Place>, Unknown> {
        let mut places = if query.from_root { vec![self.root()] } else { from };
        for segment in &query.segments {
            if segment.descends {
                places = self.below(places);
            }
            let mut next: Vec<Place> = Vec::new();
            for selector in &segment.selectors {
                let found = match selector {
                    Selector::Name(name, at) => self.member(&places, name, at)?,
                    Selector::Any => places.iter().flat_map(|place| self.inside(*place, true)).collect(),
                    Selector::Items => places.iter().flat_map(|place| self.inside(*place, false)).collect(),
                    Selector::Filter(queries) => {
                        let items: Vec<Place> = places.iter().flat_map(|place| self.inside(*place, true)).collect();
                        for query in queries {
                            self.walk(query, items.clone())?;
                        }
                        items
                    }
                };
                next.extend(found);
            }
            places = distinct(next);
        }
        Ok(places)
    }

    /// The members `name` of these places.
    fn member(self, places: &[Place], name: &str, at: &std::ops::Range<usize>) -> Result<Vec<Place>, Unknown> {
        let mut found = Vec::new();
        let mut known: BTreeSet<&'static str> = BTreeSet::new();
        let mut has_items = false;
        for schema in places.iter().flat_map(|place| self.schemas(*place)) {
            let Place::Known(schema) = schema else {
                has_items |= matches!(schema, Place::Reports(_));
                found.extend((schema == Place::Open).then_some(Place::Open));
                continue;
            };
            has_items |= schema.get("items").is_some();
            let members = schema.get("properties").and_then(Value::as_object);
            match (members.and_then(|members| members.get(name)), schema.get("additionalProperties")) {
                (Some(member), _) => found.push(Place::Known(member)),
                (None, Some(any @ Value::Object(_))) => found.push(Place::Known(any)),
                (None, Some(Value::Bool(true))) => found.push(Place::Open),
                (None, _) => known.extend(members.into_iter().flatten().map(|(name, _)| name.as_str())),
            }
        }
        if !found.is_empty() || places.is_empty() {
            return Ok(found);
        }
        let help = match suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() && has_items => {
                "this is a list: write `[*]`, or the number of an item, before the name".to_owned()
            }
            None if known.is_empty() => "this is a single value".to_owned(),
            None => format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Err(Unknown { name: name.to_owned(), at: at.clone(), help })
    }

    /// The items of lists, and with `members` the values of mappings.
    fn inside(self, place: Place, members: bool) -> Vec<Place> {
        let mut found = Vec::new();
        for schema in self.schemas(place) {
            match schema {
                Place::Open => found.push(Place::Open),
                Place::Reports(schema) => found.push(Place::Known(schema)),
                Place::Known(schema) => {
                    found.extend(schema.get("items").map(Place::Known));
                    if members {
                        let properties = schema.get("properties").and_then(Value::as_object);
                        found.extend(properties.into_iter().flatten().map(|(_, member)| Place::Known(member)));
                        found
                            .extend(schema.get("additionalProperties").filter(|any| any.is_object()).map(Place::Known));
                    }
                }
            }
        }
        found
    }

    /// These places and everything below them.
    fn below(self, places: Vec<Place>) -> Vec<Place> {
        let mut all = distinct(places);
        let mut next = 0;
        while let Some(place) = all.get(next).copied() {
            for inner in self.inside(place, true) {
                if !all.contains(&inner) {
                    all.push(inner);
                }
            }
            next += 1;
        }
        all
    }

    /// The alternatives of a place, without references.
    fn schemas(self, place: Place) -> Vec<Place> {
        let Place::Known(schema) = place else { return vec![place] };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
            return target.map_or_else(|| vec![Place::Open], |target| self.schemas(Place::Known(target)));
        }
        let choices = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
        let choices: Vec<Place> = choices.flat_map(|choice| self.schemas(Place::Known(choice))).collect();
        match (choices.is_empty(), schema) {
            (false, _) => choices,
            (true, Value::Bool(_)) => vec![Place::Open],
            (true, Value::Object(keys)) if !keys.keys().any(|key| DESCRIBES.contains(&key.as_str())) => {
                vec![Place::Open]
            }
            (true, _) => vec![place],
        }
    }
}

/// Words of a schema that restrict a value.
const DESCRIBES: [&str; 6] = ["type", "properties", "items", "const", "enum", "additionalProperties"];

/// What a path selects.
#[derive(Debug)]
pub(super) struct Selected {
    places: Vec<Place>,
    schema: &'static Value,
}

impl Selected {
    /// The types that the values can have, as JSON Schema calls them; `None` if anything is possible.
    pub(super) fn types(&self) -> Option<BTreeSet<&'static str>> {
        let report = Report { schema: self.schema, is_list: false };
        let mut types = BTreeSet::new();
        for place in self.places.iter().flat_map(|place| report.schemas(*place)) {
            match place {
                Place::Open => return None,
                Place::Reports(_) => drop(types.insert("array")),
                Place::Known(schema) => match (schema.get("type"), schema.get("const"), schema.get("enum")) {
                    (Some(Value::String(one)), ..) => drop(types.insert(one.as_str())),
                    (Some(Value::Array(several)), ..) => types.extend(several.iter().filter_map(Value::as_str)),
                    (None, Some(value), _) => drop(types.insert(type_of(value))),
                    (None, None, Some(Value::Array(values))) => types.extend(values.iter().map(type_of)),
                    _ => return None,
                },
            }
        }
        (!types.is_empty()).then_some(types)
    }
}

/// The type of a value, as JSON Schema calls it.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a place in a schema")
    }
}

fn distinct(places: Vec<Place>) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for place in places {
        if !found.contains(&place) {
            found.push(place);
        }
    }
    found
}

/// The cluster report. Only operations are names of collectives.
fn cluster() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = report_shape::schema();
        if let Some(collectives) = schema.pointer_mut("/properties/collectives") {
            let each = collectives["additionalProperties"].take();
            let names = Operation::ALL.iter().map(|operation| (operation.name().to_owned(), each.clone()));
            collectives["properties"] = Value::Object(names.collect());
            collectives["additionalProperties"] = json!(false);
        }
        schema
    })
}

fn device() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = schemars::schema_for!(DeviceReport).to_value();
        if cfg!(test) {
            // For tests of comparisons: no field can be of every type.
            schema["properties"]["value"] = json!({});
        }
        schema
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::path::query;

    fn check(kind: ReportKind, of_rank: bool, path: &str) -> Result<Option<BTreeSet<&'static str>>, String> {
        let query = query::read(path).unwrap();
        Report::for_kind(kind, of_rank)
            .check(&query)
            .map(|selected| selected.types())
            .map_err(|unknown| format!("{} at {:?}: {}", unknown.name, unknown.at, unknown.help))
    }

    #[test]
    fn names_are_those_of_the_schema() {
        use ReportKind::{Cluster, Device};
        for (kind, of_rank, path, says) in [
            (Cluster, false, "$.collective", "collective at 2..12: did you mean `collectives`?"),
            (Cluster, false, "$.cluster.world_sise", "world_sise at 10..20: did you mean `world_size`?"),
            (Cluster, false, "$.collectives.all_redcue.calls", "did you mean `all_reduce`?"),
            (Cluster, false, "$.links.bytes", "this is a list: write `[*]`"),
            (Cluster, false, "$.links[?@.byts > 0]", "did you mean `bytes`?"),
            (Cluster, false, "$..callz", "callz at 3..8"),
            (Cluster, false, "$.cluster.world_size.x", "a single value"),
            (Device, false, "$[*].sumary", "did you mean `summary`?"),
            (Device, false, "$.summary", "this is a list"),
            (Device, true, "$.sumary", "did you mean `summary`?"),
        ] {
            let said = check(kind, of_rank, path).unwrap_err();
            assert!(said.contains(says), "{path}: {said}");
        }
        let types = |kind, of_rank, path| check(kind, of_rank, path).unwrap_or_else(|said| panic!("{path}: {said}"));
        assert_eq!(types(Cluster, false, "$.cluster.world_size"), Some(BTreeSet::from(["integer"])));
        assert_eq!(types(Cluster, false, "$.model"), Some(BTreeSet::from(["string"])));
        assert_eq!(types(Cluster, false, "$.collectives.all_reduce.calls"), Some(BTreeSet::from(["integer"])));
        assert_eq!(types(Device, true, "$.operators['aten::add']"), Some(BTreeSet::from(["integer"])));
        types(Cluster, false, "$.ranks[?@.rank == $.cluster.world_size]..*");
        types(Device, false, "$[0].devices[*]");
    }
}
