//! `multimem`: loads, stores and reductions at a multicast address, which stands for memory of every device of a team.

use super::memory::{SCOPES, list};
use super::*;
use crate::runtime::helper::MulticastMode;

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn multicast(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let action = m.one_of(&["ld_reduce", "st", "red"])?;
        let order = m.take_any(&["weak", "relaxed", "acquire", "release"]);
        let fits = match order {
            Some("weak") => action != "red",
            Some("acquire") => action == "ld_reduce",
            Some("release") => action != "ld_reduce",
            _ => true,
        };
        if !fits {
            return invalid(format!("multimem.{action} is not .{}", order.unwrap_or_default()));
        }
        if !matches!(order, None | Some("weak")) {
            m.take_any(&SCOPES);
        }
        self.program.ordered |= matches!(order, Some("acquire" | "release"));
        let space = self.space(m);
        if !matches!(space, None | Some(Space::Global)) {
            return invalid("a multicast address is in global memory");
        }
        // The numbers are those of atomics.
        let names = ["add", "min", "max", "and", "or", "xor"];
        let op = match action {
            "st" => None,
            _ => Some(m.one_of(&names)?),
        };
        let wide_sum = m.take("acc::f32");
        let vector = ["v2", "v4", "v8"].iter().position(|v| m.take(v)).map_or(1usize, |at| 2 << at);
        if m.list.iter().any(|name| name.starts_with("e4m3") || name.starts_with("e5m2")) {
            return unsupported(format!("multimem.{action} of numbers with 8 bits"));
        }
        let scalar = m.scalar()?;
        let is_half = matches!(scalar, F16 | F16x2 | Bf16 | Bf16x2);
        let legal = match op {
            None => matches!(scalar, B32 | B64 | U32 | S32 | U64 | S64 | F32 | F64) || is_half,
            Some("add") => matches!(scalar, U32 | S32 | U64 | F32 | F64) || is_half,
            Some("min" | "max") => matches!(scalar, U32 | S32 | U64 | S64) || (is_half && action == "ld_reduce"),
            Some(_) => matches!(scalar, B32 | B64),
        };
        let is_vector_legal = match vector {
            1 => true,
            8 => matches!(scalar, F16 | Bf16),
            _ => is_half || scalar == F32,
        };
        if !legal || !is_vector_legal || (wide_sum && !(is_half && action == "ld_reduce")) {
            return invalid(format!("multimem.{action} of this operation, vector and .{}", scalar.name()));
        }
        let [first, second] = operands::<2>(ops)?;
        let (elements, address) = if action == "ld_reduce" { (first, second) } else { (second, first) };
        let elements = list(elements);
        if elements.len() != vector {
            return invalid(format!("{vector} elements are expected"));
        }
        let (address, _) = self.whole_address(address, space)?;
        let op = op.and_then(|op| names.iter().position(|name| *name == op)).unwrap_or_default();
        // Atomics have two operations between the third and the fourth.
        let op = if op > 2 { op + 2 } else { op } as u64;
        for (index, element) in elements.into_iter().enumerate() {
            let at = match index {
                0 => address,
                _ => {
                    let offset = Val::Imm(index as u64 * u64::from(scalar.bytes()));
                    self.emit(Op::Int(IntOp::Add, U64), B64, vec![address, offset])
                }
            };
            let alignment = if index == 0 { vector.trailing_zeros() } else { 0 };
            let mode = MulticastMode { action: action.into(), op, scalar, alignment, wide_sum }.encode();
            let (dst, src) = match action {
                "ld_reduce" => (vec![self.dst(element, scalar)?], vec![at]),
                _ => (vec![], vec![at, self.src(element, scalar)?]),
            };
            self.push(Op::System(Helper::Multicast, mode), dst, src);
        }
        Ok(())
    }
}
