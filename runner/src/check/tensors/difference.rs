//! How two tensors differ: by norm, sum, largest value and single elements, bit by bit or within a tolerance.

use std::collections::HashMap;

use protocol::step_record::TensorRole;

use super::whole::{Key, Whole};

/// How far numbers may be apart by default where sums have other parts, relative to the larger: four times the distance of two
/// neighboring numbers, and for float32 what printed numbers get.
const TOLERANCES: &[(&str, f64)] = &[("float64", 1e-10), ("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3.2e-2)];

/// What is below this part of the largest number of all tensors of a step is rounded as coarsely as that part.
const FLOOR: f64 = 0.1;

/// A tensor that two runs do not share.
#[derive(Debug, PartialEq)]
pub(super) struct Difference<'a> {
    /// The tensor of the run that has it, the first if both do.
    pub(super) tensor: &'a Whole,
    /// What differs: `norm`.
    pub(super) what: String,
    /// Its value in the first run.
    pub(super) first: Option<String>,
    /// Its value in the second run.
    pub(super) second: Option<String>,
    /// How far they are apart, relative to the larger.
    pub(super) apart: Option<f64>,
}

/// How close two tensors must be.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// Relative to the larger; 0 for equal bits.
    tolerance: f64,
    /// Elements of this size and below count as if they had this size.
    floor: f64,
}

/// The tolerance for a datatype after so many steps, each of which adds its roundings; 0 for one that does not round.
pub(super) fn default_tolerance(dtype: &str, step: u64) -> f64 {
    let tolerance = TOLERANCES.iter().find(|(known, _)| *known == dtype).map_or(0.0, |(_, tolerance)| *tolerance);
    tolerance * (step.max(1) as f64).sqrt()
}

/// Every difference, in the order of the first run's tensors, before the step of the next; and then what only the second has.
pub(super) fn all<'a>(
    first: &'a [Whole],
    second: &'a [Whole],
    tolerance: Option<f64>,
    changes_sums: bool,
) -> Vec<Difference<'a>> {
    let others: HashMap<&Key, &Whole> = second.iter().map(|whole| (&whole.key, whole)).collect();
    let known: HashMap<&Key, &Whole> = first.iter().map(|whole| (&whole.key, whole)).collect();
    let largest = largest_by_kind(first.iter().chain(second));
    let rule = |whole: &Whole| Rule {
        tolerance: match tolerance {
            Some(tolerance) => tolerance,
            None if changes_sums => default_tolerance(&whole.dtype, whole.key.step),
            None => 0.0,
        },
        floor: FLOOR * largest.get(&kind(&whole.key)).copied().unwrap_or(0.0),
    };
    let of_first = first.iter().filter_map(|whole| match others.get(&whole.key) {
        Some(other) => rule(whole).find(whole, other),
        None => Some(Difference { first: Some(short(whole.summary.norm())), ..absent(whole) }),
    });
    let of_second = second.iter().filter(|whole| !known.contains_key(&whole.key));
    let of_second = of_second.map(|whole| Difference { second: Some(short(whole.summary.norm())), ..absent(whole) });
    let mut differences: Vec<Difference<'_>> = of_first.chain(of_second).collect();
    // Stable: within a step, in the order of the program.
    differences.sort_by_key(|difference| {
        let Key { step, optimizer, role, .. } = &difference.tensor.key;
        (*step, *optimizer, *role)
    });
    differences
}

fn absent(tensor: &Whole) -> Difference<'_> {
    Difference { tensor, what: "norm".to_owned(), first: None, second: None, apart: None }
}

/// What is of one size: the gradients of a step, or one sort of optimizer state.
type Kind<'a> = (u64, u32, TensorRole, &'a str);

fn kind(key: &Key) -> Kind<'_> {
    let sort = if key.role == TensorRole::Optimizer { key.name.split(" of ").next().unwrap_or_default() } else { "" };
    (key.step, key.optimizer, key.role, sort)
}

fn largest_by_kind<'a>(wholes: impl Iterator<Item = &'a Whole>) -> HashMap<Kind<'a>, f64> {
    let mut largest: HashMap<Kind<'_>, f64> = HashMap::new();
    for whole in wholes {
        let of_kind = largest.entry(kind(&whole.key)).or_default();
        *of_kind = of_kind.max(whole.summary.largest);
    }
    largest
}

/// The difference between what two ranks of one run hold.
pub(super) fn between_replicas<'a>(first: &'a Whole, second: &'a Whole) -> Option<Difference<'a>> {
    let tolerance = default_tolerance(&first.dtype, first.key.step);
    Rule { tolerance, floor: FLOOR * first.summary.largest }.find(first, second)
}

impl Rule {
    /// The first respect in which two tensors of the same name differ.
    fn find<'a>(self, first: &'a Whole, second: &'a Whole) -> Option<Difference<'a>> {
        let texts = |what: String, first_value: String, second_value: String| Difference {
            tensor: first,
            what,
            first: Some(first_value),
            second: Some(second_value),
            apart: None,
        };
        if first.dtype != second.dtype || first.shape != second.shape {
            let [one, other] = [first, second].map(|whole| format!("{} {:?}", whole.dtype, whole.shape));
            return Some(texts("a tensor of".to_owned(), one, other));
        }
        let (one, other) = (&first.summary, &second.summary);
        if one.bits == other.bits && one.count == other.count {
            return None;
        }
        if one.not_finite != other.not_finite {
            let [one, other] = [one, other].map(|summary| summary.not_finite.to_string());
            return Some(texts("the number of elements that are NaN or Inf is".to_owned(), one, other));
        }
        let count = one.count as f64;
        let largest = one.largest.max(other.largest).max(self.floor);
        let in_sum = one.absolute.max(other.absolute).max(self.floor * count);
        let in_norm = one.norm().max(other.norm()).max(self.floor * count.sqrt());
        let number = |what: String, values: [f64; 2], size: f64| {
            let distance = (values[0] - values[1]).abs();
            let apart = distance / values[0].abs().max(values[1].abs());
            let [first_value, second_value] = values.map(short);
            (distance > self.tolerance * size)
                .then(|| Difference { apart: Some(apart), ..texts(what, first_value, second_value) })
        };
        let of_elements = || {
            one.samples.iter().zip(&other.samples).find_map(|((index, mine), (_, others))| match (mine, others) {
                (Some(mine), Some(others)) => number(format!("element {index}"), [*mine, *others], largest),
                (None, None) => None,
                _ => {
                    let [mine, others] = [mine, others].map(|value| value.map_or("NaN or Inf".to_owned(), short));
                    Some(texts(format!("element {index}"), mine, others))
                }
            })
        };
        let bits = || texts("bits".to_owned(), format!("{:016x}", one.bits), format!("{:016x}", other.bits));
        number("norm".to_owned(), [one.norm(), other.norm()], in_norm)
            .or_else(|| number("sum".to_owned(), [one.sum, other.sum], in_sum))
            .or_else(|| number("largest element".to_owned(), [one.largest, other.largest], largest))
            .or_else(of_elements)
            .or_else(|| (self.tolerance == 0.0).then(bits))
    }
}

/// Enough digits to compare.
fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:.7e}");
    }
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Difference<'_> {
    /// "optimizer step 1 (train.py:7), gradient of `0.weight`: norm 2, but 4 under `ranks: 1`: they differ by 5.0e-1 of the larger".
    pub(super) fn in_words(&self, relation: &str, several: bool) -> String {
        let Key { step, optimizer, .. } = &self.tensor.key;
        let whose = if several { format!(" of optimizer {}", optimizer + 1) } else { String::new() };
        let name = |file: &'_ str| file.rsplit('/').next().unwrap_or(file).to_owned();
        let line = self.tensor.site.as_ref();
        let line = line.map_or_else(String::new, |site| format!(" ({}:{})", name(&site.file), site.line));
        let values = match (&self.first, &self.second) {
            (Some(first), Some(second)) => {
                let apart =
                    self.apart.map_or_else(String::new, |apart| format!(": they differ by {apart:.1e} of the larger"));
                format!("{} {first}, but {second} under `{relation}`{apart}", self.what)
            }
            (Some(first), None) => format!("{} {first}, but nothing under `{relation}`", self.what),
            (None, second) => {
                let second = second.as_deref().unwrap_or_default();
                format!("nothing, but {} {second} under `{relation}`", self.what)
            }
        };
        format!("optimizer step {step}{whose}{line}, {}: {values}", self.tensor.key.title())
    }

    /// What to do next, where more is known than that it differs.
    pub(super) fn advice(&self, first: &[Whole], second: &[Whole], changes_sums: bool) -> String {
        let Key { step, optimizer, .. } = &self.tensor.key;
        let is_homeless = |whole: &&Whole| {
            let key = &whole.key;
            key.name.ends_with("which no module has") && (key.step, key.optimizer) == (*step, *optimizer)
        };
        let only_one = self.first.is_none() || self.second.is_none();
        if let Some(whole) = first.iter().chain(second).find(is_homeless).filter(|_| only_one) {
            let name = &whole.key.name;
            return format!(
                "one of the runs steps {name}: its optimizer was made for another model than the one that trains"
            );
        }
        if self.tensor.key.role == TensorRole::Parameter && !only_one && changes_sums {
            return "if gradients agree, an optimizer that divides by their size (Adam) makes a full step of one that is only \
                    rounding: compare `[gradients]`, or set `compared.tolerance`"
                .to_owned();
        }
        String::new()
    }
}
