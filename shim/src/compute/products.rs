//! The operations of matrix products, convolutions and attention, by the operator's name and the sizes of its arguments.

use super::cxx::IValue;
use super::libtorch::torch;
use super::object::Tensor;
use super::operator::Operator;
use super::value::Value;
use crate::device::work::timeline::Form;

/// Operations of an operator, where a multiply-add is two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flops {
    Known(u64),
    /// So many for each element of its first result.
    PerOutput(u64),
}

/// What decides how long an operator's kernels take, besides bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Products {
    pub(super) flops: Flops,
    pub(super) form: Form,
}

/// Whether an operator of this name is a matrix product.
pub(super) fn is_gemm(base: &str) -> bool {
    factors(base).is_some()
}

/// The arguments that a product multiplies.
fn factors(base: &str) -> Option<[&'static str; 2]> {
    Some(match base.trim_end_matches('_') {
        "mm" | "_scaled_mm" | "_int_mm" | "_grouped_mm" | "_scaled_grouped_mm" | "bmm" => ["self", "mat2"],
        "addmm" | "_addmm_activation" => ["mat1", "mat2"],
        "baddbmm" | "addbmm" => ["batch1", "batch2"],
        "addmv" => ["mat", "vec"],
        "mv" => ["self", "vec"],
        "dot" | "vdot" => ["self", "tensor"],
        _ => return None,
    })
}

impl Products {
    /// Those of a call.
    pub(super) fn find(operator: &Operator, arguments: &[IValue]) -> Self {
        let given = Given { operator, arguments };
        let base = operator.base_name();
        let found = if let Some(names) = factors(base) {
            given.gemm(names)
        } else if base.contains("attention") {
            given.attention(base)
        } else if base.contains("conv") {
            given.convolution(base).map(|flops| Self { flops, form: Form::Convolution })
        } else {
            None
        };
        found.unwrap_or(Self { flops: Flops::Known(0), form: Form::Other })
    }
}

/// The extents of a product of two matrices, or of two batches of them.
fn extents(left: &[u64], right: &[u64]) -> Option<Form> {
    let ([.., m, k], [.., _, n]) = (left, right) else { return None };
    let batch = product(&left[..left.len() - 2]);
    Some(Form::Product { batch, m: *m, n: *n, k: *k })
}

/// The arguments of a call by name.
struct Given<'a> {
    operator: &'a Operator,
    arguments: &'a [IValue],
}

fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

impl Given<'_> {
    fn slot(&self, name: &str) -> Option<&IValue> {
        self.arguments.get(self.operator.schema().place(name)?)
    }

    fn tensor(&self, name: &str) -> Option<Tensor> {
        Tensor::in_slot(self.slot(name)?)
    }

    fn sizes(&self, name: &str) -> Option<Vec<u64>> {
        Some(self.tensor(name)?.sizes_and_strides().0.iter().map(|size| *size as u64).collect())
    }

    fn flag(&self, name: &str) -> bool {
        let is_true = |slot: &IValue| slot.tag == torch().layout.tags.boolean && slot.payload & 0xff != 0;
        self.slot(name).is_some_and(is_true)
    }

    fn gemm(&self, names: [&str; 2]) -> Option<Products> {
        let [left, right] = [self.sizes(names[0])?, self.sizes(names[1])?];
        let form = extents(&left, &right).unwrap_or_default();
        Some(Products { flops: Flops::Known(gemm(&left, &right)), form })
    }

    fn attention(&self, base: &str) -> Option<Products> {
        let (query, key) = (self.sizes("query")?, self.sizes("key")?);
        let sequence = *key.get(sequence_at(base))?;
        let lengths = |names: [&str; 2]| names.iter().find_map(|name| Some(self.tensor(name)?.integers()));
        let sequences = lengths(["cum_seq_q", "cu_seqlens_q"]).zip(lengths(["cum_seq_k", "cu_seqlens_k"]));
        let elements = match sequences {
            Some((queries, keys)) => pairs(&queries, &keys).saturating_mul(product(query.get(query.len() - 2..)?)),
            None => product(&query).saturating_mul(sequence),
        };
        let is_causal = self.flag("is_causal") || self.slot("custom_mask_type").is_some_and(|slot| slot.payload != 0);
        // Two products for the forward, five for the backward; half of each where a query sees only the keys before it.
        let is_backward = base.contains("backward");
        let flops = elements.saturating_mul(if is_backward { 10 } else { 4 }) / if is_causal { 2 } else { 1 };
        let form = Form::Attention { sequence, head: *query.last()?, is_backward };
        Some(Products { flops: Flops::Known(flops), form })
    }

    /// Each element of the result is a sum over the weights of its channel; transposed, each of the input's is part of as many.
    /// The backward has one such product for each gradient but the bias's.
    fn convolution(&self, base: &str) -> Option<Flops> {
        let weight = self.sizes("weight")?;
        let per_channel = 2 * product(weight.get(1..)?);
        let is_transposed = self.flag("transposed") || base.contains("transpose");
        let input = || self.sizes("input").or_else(|| self.sizes("self")).map(|sizes| product(&sizes));
        if base.contains("backward") {
            let across = if is_transposed { input()? } else { product(&self.sizes("grad_output")?) };
            let mask = self.slot("output_mask").map(Value::another).map_or(Vec::new(), |mask| mask.as_bools());
            let wanted = mask.iter().take(2).filter(|wanted| **wanted).count() as u64;
            return Some(Flops::Known(across.saturating_mul(per_channel).saturating_mul(wanted)));
        }
        Some(match is_transposed {
            true => Flops::Known(input()?.saturating_mul(per_channel)),
            false => Flops::PerOutput(per_channel),
        })
    }
}

/// The dimension of an operator's keys that counts them: those of `scaled_dot_product_attention`, and cuDNN's, have heads before
/// the sequence, the others behind it.
fn sequence_at(base: &str) -> usize {
    if base.starts_with("_scaled_dot_product") || base.contains("cudnn") { 2 } else { 1 }
}

/// 2mnk for each matrix: every element of the first factor meets each column of the second. A batch of matrices and one matrix are a
/// grouped product: each row of a batch meets the columns of its group.
fn gemm(left: &[u64], right: &[u64]) -> u64 {
    let left = if right.len() == 2 { &left[left.len().saturating_sub(2)..] } else { left };
    let columns = if right.len() > 1 { right[right.len() - 1] } else { 1 };
    product(left).saturating_mul(columns.saturating_mul(2))
}

/// Pairs of a query and a key, of sequences that end at these places.
fn pairs(queries: &[i64], keys: &[i64]) -> u64 {
    let length = |ends: &[i64]| ends[1].saturating_sub(ends[0]) as u64;
    queries.windows(2).zip(keys.windows(2)).map(|(query, key)| length(query).saturating_mul(length(key))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_known_by_their_names() {
        assert_eq!(factors("addmm_"), Some(["mat1", "mat2"]));
        assert!(is_gemm("_scaled_mm") && !is_gemm("addcmul"));
    }

    #[test]
    fn a_multiply_add_is_two_operations() {
        for (left, right, flops) in [
            (&[2, 3][..], &[3, 5][..], 60),
            (&[7, 2, 3], &[7, 3, 5], 420),
            (&[2, 3], &[3], 12),
            (&[3], &[3], 6),
            // Four rows in two groups, and five columns in two groups.
            (&[4, 3], &[2, 3, 5], 120),
            (&[2, 4, 3], &[3, 5], 120),
        ] {
            assert_eq!(gemm(left, right), flops, "{left:?} x {right:?}");
        }
        assert_eq!(extents(&[7, 2, 3], &[7, 3, 5]), Some(Form::Product { batch: 7, m: 2, n: 5, k: 3 }));
        assert_eq!(extents(&[2, 3], &[3]), None);
        assert_eq!(pairs(&[0, 2, 5], &[0, 3, 4]), 2 * 3 + 3);
    }
}
