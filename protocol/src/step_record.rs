//! What an optimizer's step left in the tensors of a program, in a few numbers for each: what ranks write and relations between
//! runs compare. Shards of one tensor add up to its whole.

use serde::{Deserialize, Serialize};

use crate::site::CallSite;

/// The most that one process writes, bytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// How many elements of each tensor are recorded as they are.
pub const SAMPLES: u64 = 4;

/// A line of a process's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// After a step of an optimizer.
    Step(StepRecord),
    /// Something that could not be recorded.
    Refused {
        /// All tensors with this role, or any.
        role: Option<TensorRole>,
        /// What, and why.
        why: String,
    },
}

/// The tensors of one optimizer after one of its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The rank, if the process has one.
    pub rank: Option<u32>,
    /// The position of the optimizer among those of the process, by their first steps, from 0.
    pub optimizer: u32,
    /// How many steps it has made.
    pub step: u64,
    /// Where the program called the step.
    pub site: Option<CallSite>,
    /// Its parameters, their gradients and its state.
    pub tensors: Vec<TensorRecord>,
}

/// What a tensor is to its optimizer, in the order in which a step computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorRole {
    /// The gradient that the step used.
    Gradient,
    /// What the optimizer remembers.
    Optimizer,
    /// A parameter after the step.
    Parameter,
}

/// A tensor, or this rank's shard of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// What it is to its optimizer.
    pub role: TensorRole,
    /// The parameter as its model's `state_dict` names it, without wrappers; for state, `exp_avg of NAME`.
    pub name: String,
    /// PyTorch's word for the datatype, such as `float32`.
    pub dtype: String,
    /// The shape of the whole tensor.
    pub shape: Vec<u64>,
    /// The shard, if this is not all of it.
    pub part: Option<Part>,
    /// The numbers of this shard.
    pub summary: Summary,
}

/// Which part of a tensor a shard is: a box.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Where it starts, by dimension.
    pub offset: Vec<u64>,
    /// How large it is, by dimension.
    pub shape: Vec<u64>,
}

/// A tensor in a few numbers, which add up over shards in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many elements.
    pub count: u64,
    /// How many of them are NaN or Inf; the sums leave those out.
    pub not_finite: u64,
    /// The sum.
    pub sum: f64,
    /// The sum of the absolute values.
    pub absolute: f64,
    /// The sum of the squares.
    pub squares: f64,
    /// The largest absolute value.
    pub largest: f64,
    /// A sum over positions and bits, equal only for equal bits at equal places.
    pub bits: u64,
    /// Some elements by their index in the whole tensor, row by row; `None` for NaN and Inf.
    pub samples: Vec<(u64, Option<f64>)>,
}

impl Summary {
    /// The element at `index` of the whole tensor, which has these `bits`.
    pub fn add_element(&mut self, index: u64, value: f64, bits: u64) {
        self.count += 1;
        self.bits = self.bits.wrapping_add(mixed(index, bits));
        if value.is_finite() {
            let absolute = value.abs();
            self.sum += value;
            self.absolute += absolute;
            self.squares += value * value;
            self.largest = self.largest.max(absolute);
        } else {
            self.not_finite += 1;
        }
    }

    /// The numbers of another shard of the same tensor.
    pub fn add_shard(&mut self, other: &Self) {
        self.count += other.count;
        self.not_finite += other.not_finite;
        self.sum += other.sum;
        self.absolute += other.absolute;
        self.squares += other.squares;
        self.largest = self.largest.max(other.largest);
        self.bits = self.bits.wrapping_add(other.bits);
        self.samples.extend(other.samples.iter().copied());
        self.samples.sort_unstable_by_key(|(index, _)| *index);
    }

    /// The square root of the sum of the squares.
    pub fn norm(&self) -> f64 {
        self.squares.sqrt()
    }
}

/// The indices of the elements that are recorded as they are, ascending: a function of the tensor's name and size alone, so that
/// every run picks the same.
pub fn sampled(name: &str, count: u64) -> Vec<u64> {
    let pick = |seed: u64| xxhash_rust::xxh64::xxh64(name.as_bytes(), seed) % count.max(1);
    let mut indices: Vec<u64> = (0..SAMPLES.min(count)).map(pick).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}

/// The finalizer of MurmurHash3, after the index has been spread over all bits.
fn mixed(index: u64, bits: u64) -> u64 {
    let mut hash = bits ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(first: u64, values: &[f64]) -> Summary {
        let mut summary = Summary::default();
        for (index, value) in (first..).zip(values) {
            summary.add_element(index, *value, value.to_bits());
            summary.samples.push((index, value.is_finite().then_some(*value)));
        }
        summary
    }

    #[test]
    fn shards_add_up_to_the_whole_in_any_order() {
        let values = [3.0, -4.0, f64::NAN, 0.5, 12.0];
        let whole = summary(0, &values);
        assert_eq!((whole.count, whole.not_finite, whole.sum, whole.absolute), (5, 1, 11.5, 19.5));
        assert_eq!((whole.norm(), whole.largest), (13.0_f64.mul_add(13.0, 0.25).sqrt(), 12.0));
        let parts = [summary(0, &values[..2]), summary(2, &values[2..4]), summary(4, &values[4..])];
        for order in [[0, 1, 2], [2, 0, 1]] {
            let mut sum = Summary::default();
            order.iter().for_each(|part| sum.add_shard(&parts[*part]));
            assert_eq!(sum, whole);
        }
    }

    #[test]
    fn bits_know_their_places() {
        assert_ne!(summary(0, &[1.0, 2.0]).bits, summary(0, &[2.0, 1.0]).bits);
        assert_ne!(summary(0, &[1.0, 2.0]).bits, summary(1, &[1.0, 2.0]).bits);
        assert_ne!(summary(0, &[0.0]).bits, summary(0, &[-0.0]).bits);
        assert_ne!(summary(0, &[0.0; 2]).bits, summary(0, &[0.0; 3]).bits);
    }

    #[test]
    fn samples_depend_on_name_and_size_alone() {
        assert_eq!(sampled("weight", 1000), sampled("weight", 1000));
        assert_ne!(sampled("weight", 1000), sampled("bias", 1000));
        assert_eq!([sampled("weight", 1), sampled("weight", 0)], [vec![0], vec![]]);
        assert!(sampled("weight", 1000).iter().all(|index| *index < 1000));
    }
}
