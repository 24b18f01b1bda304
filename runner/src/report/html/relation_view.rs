//! What became of the relations of an attempt: a table, and both curves of what differs.

use serde::Serialize;

use crate::record::event::Attempt;
use crate::report::chart::curves;
use crate::report::words;

/// The relations of an attempt.
#[derive(Debug, Serialize)]
pub(super) struct RelationsView {
    /// Relation, whether it holds, the first difference, and the time of its runs.
    rows: Vec<[String; 4]>,
    /// Titles and drawings.
    curves: Vec<(String, String)>,
}

impl RelationsView {
    /// `None` without any. `id` is that of the attempt in the page, where there may be no room for drawings.
    pub(super) fn new(attempt: &Attempt, id: &str, draws: bool) -> Option<RelationsView> {
        let rows = attempt.relations.iter().map(|one| {
            [one.relation.clone(), one.word().to_owned(), one.got.clone(), words::time(one.duration_us as f64)]
        });
        let drawn = attempt
            .relations
            .iter()
            .filter(|_| draws)
            .flat_map(|one| one.curves.iter().map(|curve| (&one.relation, curve)));
        let drawn = drawn.enumerate().map(|(index, (relation, curve))| {
            let title = format!("`{}` by step, with dashes under `{relation}`", curve.name);
            (title, curves::draw(curve, &format!("{id}r{index}")))
        });
        let view = RelationsView { rows: rows.collect(), curves: drawn.collect() };
        (!view.rows.is_empty()).then_some(view)
    }
}
