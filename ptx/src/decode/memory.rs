//! Loads, stores, atomics, addresses, asynchronous copies and their barriers.

use super::*;
use crate::host::memory_ops as mem;

use Scalar::*;

pub(super) const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

impl<'a> Decoder<'a> {
    pub(super) fn space(&mut self, m: &mut Modifiers<'a>) -> Option<Space> {
        let names = [
            ("global", Space::Global),
            ("shared", Space::Shared),
            ("shared::cta", Space::Shared),
            ("shared::cluster", Space::Shared),
            ("local", Space::Local),
            ("const", Space::Const),
            ("param", Space::Param),
            ("param::entry", Space::Param),
            ("param::func", Space::Param),
        ];
        names.iter().find(|(name, _)| m.take(name)).map(|(_, space)| *space)
    }

    /// Base, offset and place of `[a + n]`.
    pub(super) fn address(&mut self, operand: &Operand, space: Option<Space>) -> Check<(Val, i64, AddressSpace)> {
        let Operand::Address { base, offset, coordinates } = operand else {
            return invalid("an address in brackets is expected");
        };
        if !coordinates.is_empty() {
            return invalid("coordinates are for tensor copies");
        }
        let symbol = match &**base {
            Operand::Name(name) | Operand::Offset(name, _) if !self.text(*name).starts_with("%tid") => {
                Some(self.lookup(*name)?)
            }
            _ => None,
        };
        let function = self.function != 0;
        let by_space = match space {
            None => AddressSpace::Generic,
            Some(Space::Global | Space::Const) => AddressSpace::Global,
            Some(Space::Shared) => AddressSpace::Shared,
            Some(Space::Local) => AddressSpace::Local,
            Some(Space::Param) if function => AddressSpace::Local,
            Some(Space::Param) => AddressSpace::KernelParam,
            Some(Space::Reg) => return invalid("registers have no address"),
        };
        let place = match &symbol {
            Some(Symbol::Local(..)) if matches!(space, Some(Space::Param | Space::Local) | None) => AddressSpace::Local,
            Some(Symbol::KernelParam(..)) if matches!(space, Some(Space::Param) | None) => AddressSpace::KernelParam,
            Some(Symbol::Shared(_)) if matches!(space, Some(Space::Shared) | None) => AddressSpace::Shared,
            Some(Symbol::Global(_)) if matches!(space, Some(Space::Global | Space::Const) | None) => {
                AddressSpace::Global
            }
            Some(Symbol::Reg(_)) | None => by_space,
            _ => return invalid("the address is of another state space"),
        };
        let value = match symbol {
            Some(Symbol::Reg(reg)) => {
                if !matches!(self.scalar_of(reg).bits(), 32 | 64)
                    || (by_space == AddressSpace::Generic && self.scalar_of(reg).bits() != 64)
                {
                    return invalid("the register of an address has 64 bits");
                }
                Val::Reg(reg)
            }
            Some(symbol) => self.symbol_address(symbol, 0)?,
            None => match &**base {
                Operand::Int(value) => Val::Imm(*value),
                Operand::Element(..) => self.src(base, B64)?,
                _ => return invalid("the base of an address"),
            },
        };
        Ok((value, *offset, place))
    }

    /// The address as one 64-bit value, for helpers.
    pub(super) fn whole_address(&mut self, operand: &Operand, space: Option<Space>) -> Check<(Val, u64)> {
        let (value, offset, place) = self.address(operand, space)?;
        let value = self.sum_of_address(value, offset);
        Ok((value, place as u64))
    }

    /// `a + n` in 64 bits. The sum of a register of 32 bits wraps in those.
    pub(super) fn sum_of_address(&mut self, base: Val, offset: i64) -> Val {
        let is_narrow = matches!(base, Val::Reg(reg) if self.scalar_of(reg).bits() == 32);
        let sum = match (offset, is_narrow) {
            (0, _) => base,
            (_, true) => self.emit(Op::Int(IntOp::Add, U32), U32, vec![base, Val::Imm(u64::from(offset as u32))]),
            (_, false) => self.emit(Op::Int(IntOp::Add, U64), B64, vec![base, Val::Imm(offset as u64)]),
        };
        if is_narrow { self.emit(Op::Int(IntOp::Extend, U32), B64, vec![sum]) } else { sum }
    }

    /// Whether the access is more than weak, and whether by `volatile` alone.
    pub(super) fn semantics(&mut self, m: &mut Modifiers<'a>) -> (bool, bool) {
        let mmio = m.take("mmio");
        let word = m.take_any(&["volatile", "relaxed", "acquire", "release", "acq_rel"]);
        m.take("weak");
        if word.is_some() {
            m.take_any(&SCOPES);
        }
        self.program.ordered |= matches!(word, Some("acquire" | "release" | "acq_rel"));
        (mmio || word.is_some(), word == Some("volatile") && !mmio)
    }

    pub(super) fn store_or_store_async(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.list.first() == Some(&"bulk") {
            return unsupported("st.bulk");
        }
        if m.take("async") {
            return self.store_async(m, ops);
        }
        self.store(m, ops)?;
        Ok(())
    }

    pub(super) fn atomic_or_reduction(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("async") {
            return self.red_async(m, ops);
        }
        self.atomic(base == "red", m, ops)?;
        Ok(())
    }

    pub(super) fn prefetch(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("tensormap");
        m.take_any(&["L1", "L2"]);
        m.take_any(&["L2::evict_last", "L2::evict_normal"]);
        m.hints();
        self.space(m);
        operands::<1>(ops)?;
        Ok(())
    }

    pub(super) fn cache_priority(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("global");
        m.hints();
        m.take("L2");
        operands::<2>(ops)?;
        Ok(())
    }

    pub(super) fn create_policy(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.list.clear();
        let Some(d) = ops.first() else { return invalid("a destination is expected") };
        let dst = self.dst(d, B64)?;
        self.push(Op::Mov, vec![dst], vec![Val::Imm(0)]);
        Ok(())
    }

    pub(super) fn is_space(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let cluster = m.list.contains(&"shared::cluster");
        let Some(space) = self.space(m) else { return invalid("the state space is missing") };
        let [p, a] = operands::<2>(ops)?;
        let dst = self.dst(p, Pred)?;
        let a = self.src(a, B64)?;
        let mode = match space {
            Space::Shared if cluster => mem::IS_SHARED_CLUSTER,
            Space::Shared => mem::IS_SHARED,
            Space::Local => mem::IS_LOCAL,
            Space::Global => mem::IS_GLOBAL,
            _ => mem::IS_NONE,
        };
        self.push(Op::System(Helper::IsSpace, mode), vec![dst], vec![a]);
        Ok(())
    }

    pub(super) fn map_address(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let window = m.take("shared::cluster");
        let scalar = m.scalar()?;
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let (a, b) = (self.src(a, scalar)?, self.src(b, U32)?);
        let a = self.emit(Op::Int(IntOp::Extend, scalar), U64, vec![a]);
        self.push(Op::System(Helper::MapAddress, u64::from(window)), vec![dst], vec![a, b]);
        Ok(())
    }

    pub(super) fn cta_rank(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let window = m.take("shared::cluster");
        let scalar = m.scalar()?;
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, U32)?;
        let a = self.src(a, scalar)?;
        let a = self.emit(Op::Int(IntOp::Extend, scalar), U64, vec![a]);
        self.push(Op::System(Helper::CtaRank, u64::from(window)), vec![dst], vec![a]);
        Ok(())
    }

    pub(super) fn fence(&mut self, base: &str, m: &mut Modifiers<'a>) -> Check<()> {
        let proxy = m.take("proxy");
        if proxy || base == "membar" || m.list.contains(&"mbarrier_init") {
            // The modifiers name proxies and levels; a single memory order serves all of them.
            m.list.clear();
        } else {
            m.take_any(&["sc", "acq_rel", "acquire", "release"]);
            m.take_any(&["sync_restrict::shared::cta", "sync_restrict::shared::cluster"]);
            m.take_any(&SCOPES);
        }
        self.program.ordered = true;
        self.push(Op::Fence, vec![], vec![]);
        Ok(())
    }

    fn vector(&mut self, m: &mut Modifiers<'a>) -> usize {
        ["v2", "v4", "v8"].iter().position(|v| m.take(v)).map_or(1, |at| 2 << at)
    }

    pub(super) fn load(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let (strong, volatile) = self.semantics(m);
        let space = self.space(m);
        m.take_any(&["ca", "cg", "cs", "lu", "cv"]);
        m.take("nc");
        m.take("unified");
        let policy = m.hints();
        let vector = self.vector(m);
        let scalar = m.scalar()?;
        self.memory_type(scalar)?;
        if ops.len() != 2 + usize::from(policy) && !(policy && ops.len() == 2) {
            return invalid("a destination and an address are expected");
        }
        let destinations: Vec<&Operand> = match &ops[0] {
            Operand::Vector(list) => list.iter().collect(),
            one => vec![one],
        };
        if destinations.len() != vector {
            return invalid(format!("{vector} destinations are expected"));
        }
        if vector as u32 * scalar.bytes() > 32 {
            return invalid("more than 32 bytes");
        }
        let dst = destinations.into_iter().map(|d| self.dst_wide(d, untyped(scalar))).collect::<Check<Vec<_>>>()?;
        let (value, offset, space) = self.address(&ops[1], space)?;
        self.push(Op::Load(Memory { offset, strong, volatile, ..Memory::weak(space, scalar) }), dst, vec![value]);
        Ok(())
    }

    fn memory_type(&self, scalar: Scalar) -> Check<()> {
        let plain = scalar.integer() || scalar.untyped() || matches!(scalar, F32 | F64 | F16 | Bf16 | F16x2 | Bf16x2);
        if plain { Ok(()) } else { invalid(format!("the type .{} in memory", scalar.name())) }
    }

    fn store(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let (strong, volatile) = self.semantics(m);
        let space = self.space(m);
        m.take_any(&["wb", "cg", "cs", "wt"]);
        let policy = m.hints();
        let vector = self.vector(m);
        let scalar = m.scalar()?;
        self.memory_type(scalar)?;
        if ops.len() != 2 && !(policy && ops.len() == 3) {
            return invalid("an address and a source are expected");
        }
        let sources: Vec<&Operand> = match &ops[1] {
            Operand::Vector(list) => list.iter().collect(),
            one => vec![one],
        };
        if sources.len() != vector {
            return invalid(format!("{vector} sources are expected"));
        }
        let (value, offset, space) = self.address(&ops[0], space)?;
        let mut src = vec![value];
        for source in sources {
            src.push(self.src_wide(source, untyped_keep_float(scalar))?);
        }
        self.push(Op::Store(Memory { offset, strong, volatile, ..Memory::weak(space, scalar) }), vec![], src);
        Ok(())
    }

    fn atomic(&mut self, reduce: bool, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        self.semantics(m);
        m.take_any(&SCOPES);
        let space = self.space(m);
        let vector = ["v2", "v4", "v8"].iter().position(|v| m.take(v)).map_or(1usize, |at| 2 << at);
        let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];
        let name = m.one_of(&names)?;
        let policy = m.hints();
        m.take("noftz");
        let scalar = m.scalar()?;
        let op = names.iter().position(|n| *n == name).unwrap_or(0) as u64;
        let legal = match name {
            "add" => matches!(scalar, U32 | S32 | U64 | S64 | F32 | F64 | F16 | F16x2 | Bf16 | Bf16x2),
            "min" | "max" => {
                matches!(scalar, U32 | S32 | U64 | S64) || (vector > 1 && matches!(scalar, F16 | F16x2 | Bf16 | Bf16x2))
            }
            "inc" | "dec" => scalar == U32,
            "and" | "or" | "xor" => matches!(scalar, B32 | B64),
            "exch" => matches!(scalar, B32 | B64 | B128),
            _ => matches!(scalar, B16 | B32 | B64 | B128),
        };
        if !legal || (reduce && matches!(name, "exch" | "cas")) {
            return invalid(format!("{name} of .{}", scalar.name()));
        }
        let mut rest = ops;
        let destinations: Vec<&Operand> = if reduce {
            Vec::new()
        } else {
            let Some((d, tail)) = rest.split_first() else { return invalid("operands are missing") };
            rest = tail;
            list(d)
        };
        let expected = if name == "cas" { 3 } else { 2 };
        if rest.len() != expected && !(policy && rest.len() == expected + 1) {
            return invalid(format!("{} operands are expected", expected + usize::from(!reduce)));
        }
        let sources = list(&rest[1]);
        if sources.len() != vector || (!reduce && destinations.len() != vector) {
            return invalid(format!("{vector} elements are expected"));
        }
        let (address, place) = self.whole_address(&rest[0], space)?;
        for (index, source) in sources.into_iter().enumerate() {
            let b = self.src(source, scalar)?;
            let at = if index == 0 {
                address
            } else {
                let offset = Val::Imm(index as u64 * u64::from(scalar.bytes()));
                self.emit(Op::Int(IntOp::Add, U64), B64, vec![address, offset])
            };
            let mut src = vec![at, b];
            if name == "cas" {
                src.push(self.src(&rest[2], scalar)?);
            }
            let dst = match destinations.get(index) {
                Some(d) => vec![self.dst(d, scalar)?],
                None => vec![],
            };
            let whole = if index == 0 { u64::from(vector.trailing_zeros()) } else { 0 };
            let mode = op | (scalar as u64) << 8 | place << 16 | whole << 24;
            self.push(Op::System(Helper::Atomic, mode), dst, src);
        }
        Ok(())
    }

    pub(super) fn convert_address(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let to = m.take("to");
        let Some(space) = self.space(m) else { return invalid("the state space is missing") };
        let scalar = m.scalar()?;
        if scalar != U64 {
            return invalid("cvta is of .u64");
        }
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, U64)?;
        let a = self.src(a, U64)?;
        let base = match space {
            Space::Shared => mem::SHARED_WINDOW,
            Space::Local => mem::LOCAL_WINDOW,
            Space::Param if self.function != 0 => mem::LOCAL_WINDOW,
            _ => 0,
        };
        if space == Space::Param && self.function == 0 {
            let op = if to { IntOp::Sub } else { IntOp::Add };
            self.push(Op::Int(op, U64), vec![dst], vec![a, Val::Special(Special::ParamBase)]);
        } else if base == 0 {
            self.push(Op::Mov, vec![dst], vec![a]);
        } else {
            let op = if to { IntOp::Sub } else { IntOp::Add };
            self.push(Op::Int(op, U64), vec![dst], vec![a, Val::Imm(base)]);
        }
        Ok(())
    }
}

pub(super) fn list(operand: &Operand) -> Vec<&Operand> {
    match operand {
        Operand::Vector(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// The untyped scalar of the same width, because memory takes registers of any class.
fn untyped(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        8 => B8,
        16 => B16,
        32 => B32,
        64 => B64,
        _ => B128,
    }
}

/// As `untyped`, but floats stay floats, so that an operand that is written as a float keeps its meaning.
fn untyped_keep_float(scalar: Scalar) -> Scalar {
    if scalar.float() { scalar } else { untyped(scalar) }
}
