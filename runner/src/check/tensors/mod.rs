//! `compared: {tensors: ...}`: gradients, optimizer state and parameters of two runs, compared by name after each optimizer step.

mod difference;
mod recorded;
mod whole;

use std::path::Path;

use protocol::step_record::TensorRole;
pub use whole::{Key, Whole};

use crate::check::compared::Named;
use crate::check::{Failure, FailureKind};
use crate::source::SourceLocation;

/// The directory below [`Observation::scratch`](crate::observation::Observation::scratch) in which ranks record tensors.
pub const DIRECTORY: &str = "tensors";

/// The words of the suite language, and what each stands for.
pub const ROLES: [(&str, TensorRole); 3] =
    [("gradients", TensorRole::Gradient), ("optimizer", TensorRole::Optimizer), ("parameters", TensorRole::Parameter)];

/// The tensors to compare.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// Which ones.
    pub roles: Vec<TensorRole>,
    /// How far numbers may be apart, relative to the larger; 0 for equal bits. If absent, that depends on the relation.
    pub tolerance: Option<f64>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// Why a run has no tensors to compare.
#[derive(Debug)]
pub enum Unknown {
    /// Something is there that ftest does not understand: nobody knows whether the relation holds.
    Broken(Box<Failure>),
    /// The run has none, or its ranks contradict each other.
    Failed(Box<Failure>),
}

impl Tensors {
    /// The tensors that a run recorded in the scratch directory `scratch`; `relation` if it is that of a variant.
    ///
    /// # Errors
    /// Why there is nothing to compare.
    pub fn read(&self, scratch: &Path, relation: Option<Named<'_>>) -> Result<Vec<Whole>, Unknown> {
        let whose = relation.map_or_else(String::new, |relation| format!(" under `{}`", relation.name));
        let failure = |expected: String, got: String, next: &str| {
            Box::new(Failure {
                place: Some(relation.map_or(&self.place, |relation| relation.place).clone()),
                kind: FailureKind::Relation,
                expected,
                got,
                next: next.to_owned(),
            })
        };
        let parts = recorded::read(&scratch.join(DIRECTORY), &self.roles).map_err(|why| {
            let next = "leave what it is about out of `compared.tensors`, or compare numbers that the program prints";
            Unknown::Broken(failure(format!("the tensors of each optimizer step{whose} can be compared"), why, next))
        })?;
        if parts.is_empty() {
            let next = "a relation that compares nothing proves nothing: `tensors` sees steps of torch.optim in a program that \
                        uses simulated GPUs";
            let (expected, got) = (format!("the optimizer makes a step{whose}"), "no optimizer step was seen");
            return Err(Unknown::Failed(failure(expected, got.to_owned(), next)));
        }
        let joined = recorded::join(parts);
        joined.map_err(|got| {
            let expected = format!("the ranks{whose} hold the same tensors by name, or shards of them that are DTensors");
            let next = "either replicas have diverged (`sanitize: [replicas]` names the first step), or ranks hold parts of one \
                        tensor under one name, which ftest puts together only for DTensors";
            Unknown::Failed(failure(expected, got, next))
        })
    }

    /// The failure of a relation under which the tensors were `second`, and not `first`.
    pub fn compare(&self, relation: Named<'_>, first: &[Whole], second: &[Whole]) -> Option<Failure> {
        let differences = difference::all(first, second, self.tolerance, relation.changes_sums);
        let (earliest, rest) = differences.split_first()?;
        let more = match rest.len() {
            0 => String::new(),
            1 => "; 1 more tensor differs".to_owned(),
            count => format!("; {count} more tensors differ"),
        };
        let within = match (self.tolerance, relation.changes_sums) {
            (None, true) => {
                let (dtype, step) = (&earliest.tensor.dtype, earliest.tensor.key.step);
                let tolerance = difference::default_tolerance(dtype, step);
                format!(
                    "within {tolerance:.1e} of the larger (the default for {dtype}, times the square root of the step)"
                )
            }
            (None, false) => "bit by bit (the default where the number of ranks stays the same)".to_owned(),
            (Some(0.0), _) => "bit by bit (`compared.tolerance`)".to_owned(),
            (Some(tolerance), _) => format!("within {tolerance:e} of the larger (`compared.tolerance`)"),
        };
        let several = first.iter().chain(second).any(|whole| whole.key.optimizer > 0);
        Some(Failure {
            place: Some(relation.place.clone()),
            kind: FailureKind::Relation,
            expected: format!("under `{}`, tensors are the same after each optimizer step, {within}", relation.name),
            got: format!("{}{more}", earliest.in_words(relation.name, several)),
            next: earliest.advice(first, second, relation.changes_sums),
        })
    }
}

#[cfg(test)]
mod tests;
