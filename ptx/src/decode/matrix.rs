//! Matrices: `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::*;
use crate::runtime::matrix::{Fragment, MatrixAccess, Mma, Role};
use crate::runtime::sync::BarrierKind;
use crate::runtime::warpgroup::WarpgroupMma;

use Scalar::*;

fn list(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(list) => list,
        one => std::slice::from_ref(one),
    }
}

/// `m16n8k16` as three numbers.
fn shape(name: &str) -> Option<(u32, u32, u32)> {
    let rest = name.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

impl<'a> Decoder<'a> {
    fn shape(&mut self, m: &mut Modifiers<'a>) -> Check<(u32, u32, u32)> {
        let Some(at) = m.list.iter().position(|m| shape(m).is_some()) else { return invalid("the shape is missing") };
        Ok(shape(m.list.remove(at)).unwrap_or_default())
    }

    pub(super) fn load_or_store_matrix(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let load = base == "ldmatrix";
        m.one_of(&["sync"])?;
        m.one_of(&["aligned"])?;
        let small = m.take("m16n16") || m.take("m16n8");
        if small {
            return unsupported("ldmatrix and stmatrix of 8-bit elements");
        }
        m.one_of(&["m8n8"])?;
        let count = match m.one_of(&["x1", "x2", "x4"])? {
            "x1" => 1,
            "x2" => 2,
            _ => 4,
        };
        let transposed = m.take("trans");
        let space = if m.take_any(&["shared", "shared::cta"]).is_some() { Some(Space::Shared) } else { None };
        m.one_of(&["b16"])?;
        let [first, second] = operands::<2>(ops)?;
        let (values, address) = if load { (first, second) } else { (second, first) };
        let values = list(values);
        if values.len() != count {
            return invalid(format!("{count} registers are expected"));
        }
        let (address, place) = self.matrix_address(address, space)?;
        let access = MatrixAccess { count: count as u32, transposed, shared: place == AddressSpace::Shared };
        if load {
            let dst = values.iter().map(|v| self.dst(v, B32)).collect::<Check<Vec<_>>>()?;
            self.sync(SyncOp::LoadMatrix(access), Convergence::Warp, dst, vec![address]);
        } else {
            let mut src = vec![address];
            for value in values {
                src.push(self.src(value, B32)?);
            }
            self.sync(SyncOp::StoreMatrix(access), Convergence::Warp, vec![], src);
        }
        Ok(())
    }

    pub(super) fn move_matrix(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        for word in ["sync", "aligned", "m8n8", "trans", "b16"] {
            if !m.take(word) {
                return invalid(format!(".{word} is missing"));
            }
        }
        let [d, a] = operands::<2>(ops)?;
        let dst = vec![self.dst(d, B32)?];
        let src = vec![self.src(a, B32)?];
        self.sync(SyncOp::MoveMatrix, Convergence::Warp, dst, src);
        Ok(())
    }

    fn matrix_address(&mut self, operand: &Operand, space: Option<Space>) -> Check<(Val, AddressSpace)> {
        let (value, offset, place) = self.address(operand, space)?;
        Ok((self.sum_of_address(value, offset), place))
    }

    pub(super) fn mma(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.list.iter().any(|m| m.starts_with("sp")) {
            return unsupported("sparse mma");
        }
        if m.list.iter().any(|m| m.starts_with("kind::") || m.starts_with("block_scale") || m.starts_with("scale_vec"))
        {
            return unsupported("mma with .kind and block scales");
        }
        m.one_of(&["sync"])?;
        m.one_of(&["aligned"])?;
        let (rows, columns, depth) = self.shape(m)?;
        let a_row = m.one_of(&["row", "col"])? == "row";
        let b_row = if m.take("col") { false } else { m.take("row") };
        let saturate = m.take("satfinite");
        let bit_op = m.take_any(&["xor", "and"]);
        let types = [m.scalar()?, m.scalar()?, m.scalar()?, m.scalar()?];
        if bit_op.is_some() {
            m.one_of(&["popc"])?;
        }
        let [d, a, b, c] = types;
        if !a_row || b_row || (rows, columns, depth, a) == (8, 8, 4, F16) {
            return unsupported("mma.m8n8k4 of .f16 (Volta's layout)");
        }
        let depths: &[u32] = match (a, rows, columns) {
            (F16 | Bf16, 16, 8) => &[8, 16],
            (Tf32, 16, 8) => &[4, 8],
            (F64, 8, 8) => &[4],
            (F64, 16, 8) => &[4, 8, 16],
            (U8 | S8, 8, 8) => &[16],
            (U8 | S8, 16, 8) => &[16, 32],
            (U4 | S4, 8, 8) => &[32],
            (U4 | S4, 16, 8) => &[32, 64],
            (B1, 8, 8) => &[128],
            (B1, 16, 8) => &[128, 256],
            (E4m3 | E5m2, 16, 8) => &[16, 32],
            _ => &[],
        };
        let types_fit = match a {
            F16 => b == F16 && matches!(c, F16 | F32) && c == d,
            Bf16 | Tf32 => b == a && c == F32 && d == F32,
            F64 => b == F64 && c == F64 && d == F64,
            U8 | S8 => matches!(b, U8 | S8) && c == S32 && d == S32,
            U4 | S4 => matches!(b, U4 | S4) && c == S32 && d == S32,
            B1 => b == B1 && c == S32 && d == S32 && bit_op.is_some(),
            E4m3 | E5m2 => matches!(b, E4m3 | E5m2) && matches!(c, F16 | F32) && c == d,
            _ => false,
        };
        if !types_fit || !depths.contains(&depth) {
            return invalid("the shape and types of mma");
        }
        let mma = Mma { m: rows, n: columns, k: depth, a, b, c, d, xor: bit_op == Some("xor"), saturate, wmma: false };
        self.multiply(mma, ops)
    }

    /// A product, whose operands d, a, b and c are lists of registers.
    fn multiply(&mut self, mma: Mma, ops: &'a [Operand]) -> Check<()> {
        let [d, a, b, c] = operands::<4>(ops)?;
        let mut src = Vec::new();
        for (role, operand) in [(Role::A, a), (Role::B, b), (Role::C, c)] {
            let (count, scalar) = mma.registers(role);
            let values = list(operand);
            if values.len() as u32 != count {
                return invalid(format!("{count} registers are expected where {} are", values.len()));
            }
            for value in values {
                let value = self.src(value, scalar)?;
                // Numbers become registers: the machine reads them from all lanes alike.
                src.push(value);
            }
        }
        let (count, scalar) = mma.registers(Role::D);
        let values = list(d);
        if values.len() as u32 != count {
            return invalid(format!("{count} destinations are expected"));
        }
        let dst = values.iter().map(|v| self.dst(v, scalar)).collect::<Check<Vec<_>>>()?;
        self.sync(SyncOp::Mma(mma), Convergence::Warp, dst, src);
        Ok(())
    }

    pub(super) fn wmma(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let action = m.one_of(&["load", "store", "mma"])?;
        if action == "mma" {
            let bit_op = m.take_any(&["xor", "and"]);
            if bit_op.is_some() {
                m.one_of(&["popc"])?;
            }
            m.one_of(&["sync"])?;
            m.one_of(&["aligned"])?;
            m.one_of(&["row", "col"])?;
            m.one_of(&["row", "col"])?;
            let (rows, columns, depth) = self.shape(m)?;
            if rounding_word(m) {
                return unsupported("wmma with directed rounding");
            }
            let saturate = m.take("satfinite");
            let mut types = Vec::new();
            while let Some(scalar) = m.scalar_if_any() {
                types.push(scalar);
            }
            let (d, a, b, c) = match types[..] {
                [d, c] => (d, F16, F16, c),
                [d, a, b, c] => (d, a, b, c),
                _ => return invalid("the types of wmma.mma"),
            };
            let mma =
                Mma { m: rows, n: columns, k: depth, a, b, c, d, xor: bit_op == Some("xor"), saturate, wmma: true };
            if !mma.wmma_shape() {
                return invalid("the shape and types of wmma");
            }
            return self.multiply(mma, ops);
        }
        let role = match m.one_of(&["a", "b", "c", "d"])? {
            "a" => Role::A,
            "b" => Role::B,
            "c" => Role::C,
            _ => Role::D,
        };
        m.one_of(&["sync"])?;
        m.one_of(&["aligned"])?;
        let row = m.one_of(&["row", "col"])? == "row";
        let (rows, columns, depth) = self.shape(m)?;
        let space = self.space_of(m);
        let scalar = m.scalar()?;
        let fragment = Fragment { m: rows, n: columns, k: depth, role, scalar, row };
        let Some((count, register)) = fragment.registers() else {
            return invalid("the shape and type of a wmma fragment");
        };
        let (value, address, stride) = match (action, ops) {
            ("load", [r, p]) => (r, p, None),
            ("load", [r, p, s]) => (r, p, Some(s)),
            ("store", [p, r]) => (r, p, None),
            ("store", [p, r, s]) => (r, p, Some(s)),
            _ => return invalid("the number of operands"),
        };
        let values = list(value);
        if values.len() as u32 != count {
            return invalid(format!("{count} registers are expected"));
        }
        let (address, place) = self.matrix_address(address, space)?;
        let stride = stride.map_or(Ok(Val::Imm(u64::from(fragment.leading()))), |s| self.src(s, U32))?;
        let shared = place == AddressSpace::Shared;
        let mut src = vec![address, stride];
        if action == "load" {
            let dst = values.iter().map(|v| self.dst(v, register)).collect::<Check<Vec<_>>>()?;
            self.sync(SyncOp::LoadFragment(fragment, shared), Convergence::Warp, dst, src);
        } else {
            for value in values {
                src.push(self.src(value, register)?);
            }
            self.sync(SyncOp::StoreFragment(fragment, shared), Convergence::Warp, vec![], src);
        }
        Ok(())
    }

    fn space_of(&mut self, m: &mut Modifiers<'a>) -> Option<Space> {
        if m.take("global") {
            Some(Space::Global)
        } else if m.take("shared") || m.take("shared::cta") {
            Some(Space::Shared)
        } else {
            None
        }
    }

    pub(super) fn warpgroup(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let action = m.one_of(&["fence", "commit_group", "wait_group", "mma_async"])?;
        if m.take("sp") {
            return unsupported("sparse wgmma");
        }
        m.one_of(&["sync"])?;
        m.one_of(&["aligned"])?;
        match action {
            "mma_async" => return self.warpgroup_mma(m, ops),
            // Products are done when a warp issues them, but no warp reports that before all four have issued them.
            "commit_group" => {
                operands::<0>(ops)?;
                let barrier = SyncOp::Barrier { kind: BarrierKind::Warpgroup, aligned: true };
                self.sync(barrier, Convergence::Block, vec![], vec![]);
            }
            "wait_group" => {
                operands::<1>(ops)?;
            }
            _ => {
                operands::<0>(ops)?;
            }
        }
        Ok(())
    }

    fn warpgroup_mma(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let (rows, n, k) = self.shape(m)?;
        let saturate = m.take("satfinite");
        let (d, a, b) = (m.scalar()?, m.scalar()?, m.scalar()?);
        if a == B1 {
            return unsupported("wgmma of .b1");
        }
        let (types, depth) = match a {
            F16 => (b == F16 && matches!(d, F16 | F32), 16),
            Bf16 => (b == Bf16 && d == F32, 16),
            Tf32 => (b == Tf32 && d == F32, 8),
            E4m3 | E5m2 => (matches!(b, E4m3 | E5m2) && matches!(d, F16 | F32), 32),
            S8 | U8 => (matches!(b, S8 | U8) && d == S32, 32),
            _ => (false, 0),
        };
        let columns = match d {
            S32 => n <= 32 && n.is_multiple_of(8) || n.is_multiple_of(16),
            _ => n.is_multiple_of(8),
        };
        if !types || (rows, k) != (64, depth) || !columns || !(8..=256).contains(&n) || saturate && d != S32 {
            return invalid("the shape and types of wgmma.mma_async");
        }
        let [results, first, second, scale, numbers @ ..] = ops else { return invalid("the number of operands") };
        let a_in_memory = !matches!(first, Operand::Vector(_));
        // Signs of the factors, then the memory order of 16-bit factors that are in shared memory.
        let signs = if d == S32 { 0 } else { 2 };
        let orders = if depth == 16 { 1 + usize::from(a_in_memory) } else { 0 };
        if numbers.len() != signs + orders {
            return invalid(format!("{} numbers are expected behind the predicate", signs + orders));
        }
        let number = |at: usize, allowed: [u64; 2]| match numbers.get(at) {
            Some(Operand::Int(value)) if allowed.contains(value) => Ok(*value == allowed[1]),
            Some(_) => invalid("signs are 1 and -1, orders in memory 0 and 1"),
            None => Ok(false),
        };
        let mma = WarpgroupMma {
            n,
            k,
            a,
            b,
            d,
            a_in_memory,
            a_negated: number(0, [1, u64::MAX])?,
            b_negated: number(1, [1, u64::MAX])?,
            a_transposed: a_in_memory && number(2, [0, 1])?,
            b_transposed: number(if a_in_memory { 3 } else { 2 }, [0, 1])?,
            saturate,
        };
        let mut src = Vec::new();
        if a_in_memory {
            src.push(self.src(first, B64)?);
        } else {
            let values = list(first);
            if values.len() != 4 {
                return invalid("A has four registers");
            }
            for value in values {
                src.push(self.src(value, B32)?);
            }
        }
        src.push(self.src(second, B64)?);
        src.push(self.plain_predicate(scale)?);
        let (count, scalar) = mma.results();
        let values = list(results);
        if values.len() as u32 != count {
            return invalid(format!("{count} results are expected"));
        }
        for value in values {
            src.push(self.src(value, scalar)?);
        }
        let dst = values.iter().map(|value| self.dst(value, scalar)).collect::<Check<Vec<_>>>()?;
        self.sync(SyncOp::WarpgroupMma(mma), Convergence::Warp, dst, src);
        Ok(())
    }
}

fn rounding_word(m: &mut Modifiers<'_>) -> bool {
    m.take("rn");
    m.take_any(&["rz", "rm", "rp"]).is_some()
}
