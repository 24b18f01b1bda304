//! Loads, stores, atomics, addresses, asynchronous copies and their barriers.

use super::*;
use crate::memory_ops as mem;

use Scalar::*;

const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

impl<'a> Decoder<'a> {
    fn space(&mut self, m: &mut Modifiers<'a>) -> Option<Space> {
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
    pub(super) fn address(&mut self, operand: &Operand, space: Option<Space>) -> Check<(Val, i64, Place3)> {
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
            None => Place3::Generic,
            Some(Space::Global | Space::Const) => Place3::Global,
            Some(Space::Shared) => Place3::Shared,
            Some(Space::Local) => Place3::Local,
            Some(Space::Param) if function => Place3::Local,
            Some(Space::Param) => Place3::KernelParam,
            Some(Space::Reg) => return invalid("registers have no address"),
        };
        let place = match &symbol {
            Some(Symbol::Local(..)) if matches!(space, Some(Space::Param | Space::Local) | None) => Place3::Local,
            Some(Symbol::KernelParam(..)) if matches!(space, Some(Space::Param) | None) => Place3::KernelParam,
            Some(Symbol::Shared(_)) if matches!(space, Some(Space::Shared) | None) => Place3::Shared,
            Some(Symbol::Global(_)) if matches!(space, Some(Space::Global | Space::Const) | None) => Place3::Global,
            Some(Symbol::Reg(_)) | None => by_space,
            _ => return invalid("the address is of another state space"),
        };
        let value = match symbol {
            Some(Symbol::Reg(reg)) => {
                if !matches!(self.scalar_of(reg).bits(), 32 | 64)
                    || (by_space == Place3::Generic && self.scalar_of(reg).bits() != 64)
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
    fn whole_address(&mut self, operand: &Operand, space: Option<Space>) -> Check<(Val, u64)> {
        let (value, offset, place) = self.address(operand, space)?;
        let value = match value {
            Val::Reg(reg) if self.scalar_of(reg).bits() == 32 => {
                self.emit(Op::Int(IntOp::Extend, U32), B64, vec![value])
            }
            other => other,
        };
        let value = if offset == 0 {
            value
        } else {
            self.emit(Op::Int(IntOp::Add, U64), B64, vec![value, Val::Imm(offset as u64)])
        };
        Ok((value, place as u64))
    }

    /// Whether the access is more than weak.
    fn semantics(&mut self, m: &mut Modifiers<'a>) -> bool {
        let mmio = m.take("mmio");
        let strong = m.take_any(&["volatile", "relaxed", "acquire", "release", "acq_rel"]).is_some();
        m.take("weak");
        if strong {
            m.take_any(&SCOPES);
        }
        mmio || strong
    }

    pub(super) fn memory(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<bool> {
        match base {
            "ld" | "ldu" => self.load(m, ops)?,
            "st" => {
                if m.list.first() == Some(&"async") || m.list.first() == Some(&"bulk") {
                    return unsupported("st.async and st.bulk");
                }
                self.store(m, ops)?;
            }
            "atom" | "red" => {
                if m.take("async") {
                    return self.red_async(m, ops).map(|()| true);
                }
                self.atomic(base == "red", m, ops)?;
            }
            "prefetch" | "prefetchu" => {
                m.take("tensormap");
                m.take_any(&["L1", "L2"]);
                m.take_any(&["L2::evict_last", "L2::evict_normal"]);
                m.hints();
                self.space(m);
                operands::<1>(ops)?;
            }
            "applypriority" | "discard" => {
                m.take("global");
                m.hints();
                m.take("L2");
                operands::<2>(ops)?;
            }
            "createpolicy" => {
                m.list.clear();
                let Some(d) = ops.first() else { return invalid("a destination is expected") };
                let dst = self.dst(d, B64)?;
                self.push(Op::Mov, vec![dst], vec![Val::Imm(0)]);
            }
            "isspacep" => {
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
            }
            "cvta" => self.convert_address(m, ops)?,
            "mapa" => {
                let window = m.take("shared::cluster");
                let scalar = m.scalar()?;
                let [d, a, b] = operands::<3>(ops)?;
                let dst = self.dst(d, scalar)?;
                let (a, b) = (self.src(a, scalar)?, self.src(b, U32)?);
                let a = self.emit(Op::Int(IntOp::Extend, scalar), U64, vec![a]);
                self.push(Op::System(Helper::MapAddress, u64::from(window)), vec![dst], vec![a, b]);
            }
            "getctarank" => {
                let window = m.take("shared::cluster");
                let scalar = m.scalar()?;
                let [d, a] = operands::<2>(ops)?;
                let dst = self.dst(d, U32)?;
                let a = self.src(a, scalar)?;
                let a = self.emit(Op::Int(IntOp::Extend, scalar), U64, vec![a]);
                self.push(Op::System(Helper::CtaRank, u64::from(window)), vec![dst], vec![a]);
            }
            "membar" | "fence" => {
                let proxy = m.take("proxy");
                if proxy || base == "membar" || m.list.contains(&"mbarrier_init") {
                    // Proxies and levels: one order of memory serves all.
                    m.list.clear();
                } else {
                    m.take_any(&["sc", "acq_rel", "acquire", "release"]);
                    m.take_any(&["sync_restrict::shared::cta", "sync_restrict::shared::cluster"]);
                    m.take_any(&SCOPES);
                }
                self.push(Op::Fence, vec![], vec![]);
            }
            "cp" => self.copy(m, ops)?,
            "mbarrier" => self.mbarrier(m, ops)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn vector(&mut self, m: &mut Modifiers<'a>) -> usize {
        ["v2", "v4", "v8"].iter().position(|v| m.take(v)).map_or(1, |at| 2 << at)
    }

    fn load(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let strong = self.semantics(m);
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
        self.push(Op::Load(Memory { space, scalar, offset, strong }), dst, vec![value]);
        Ok(())
    }

    fn memory_type(&self, scalar: Scalar) -> Check<()> {
        let plain = scalar.integer() || scalar.untyped() || matches!(scalar, F32 | F64 | F16 | Bf16 | F16x2 | Bf16x2);
        if plain { Ok(()) } else { invalid(format!("the type .{} in memory", scalar.name())) }
    }

    fn store(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let strong = self.semantics(m);
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
        self.push(Op::Store(Memory { space, scalar, offset, strong }), vec![], src);
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
            let mode = op | (scalar as u64) << 8 | place << 16;
            self.push(Op::System(Helper::Atomic, mode), dst, src);
        }
        Ok(())
    }

    fn red_async(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        self.semantics(m);
        m.take_any(&SCOPES);
        self.space(m);
        m.one_of(&["mbarrier::complete_tx::bytes"])?;
        let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
        let name = m.one_of(&names)?;
        let scalar = m.scalar()?;
        let [a, b, barrier] = operands::<3>(ops)?;
        let (address, place) = self.whole_address(a, Some(Space::Shared))?;
        let b = self.src(b, scalar)?;
        let op = names.iter().position(|n| *n == name).unwrap_or(0) as u64;
        self.push(Op::System(Helper::Atomic, op | (scalar as u64) << 8 | place << 16), vec![], vec![address, b]);
        let (barrier, _) = self.whole_address(barrier, Some(Space::Shared))?;
        let bytes = Val::Imm(u64::from(scalar.bytes()));
        self.push(Op::System(Helper::Mbarrier, mem::MBARRIER_COMPLETE_TX), vec![], vec![barrier, bytes]);
        Ok(())
    }

    fn convert_address(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
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

    fn copy(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let reduce = m.take("reduce");
        m.one_of(&["async"])?;
        if m.take("bulk") {
            return self.bulk(reduce, m, ops);
        }
        if m.take("commit_group") || m.take("wait_all") {
            operands::<0>(ops)?;
            return Ok(());
        }
        if m.take("wait_group") {
            operands::<1>(ops)?;
            return Ok(());
        }
        if m.take("mbarrier::arrive") {
            let no_increment = m.take("noinc");
            self.space(m);
            m.one_of(&["b64"])?;
            let [a] = operands::<1>(ops)?;
            let (address, place) = self.whole_address(a, Some(Space::Shared))?;
            // Copies are done when they are issued; without .noinc the pending count goes up and down again.
            if no_increment {
                let mode = mem::MBARRIER_ARRIVE | place << 16;
                self.push(Op::System(Helper::Mbarrier, mode), vec![], vec![address, Val::Imm(1)]);
            }
            return Ok(());
        }
        let kind = m.one_of(&["ca", "cg"])?;
        if !(m.take("shared") || m.take("shared::cta")) || !m.take("global") {
            return invalid("cp.async copies from .global to .shared");
        }
        let policy = m.hints();
        if ops.len() < 3 || ops.len() > 5 {
            return invalid("the operands of cp.async");
        }
        let Operand::Int(size) = ops[2] else { return invalid("the size is a number") };
        if !(size == 16 || (kind == "ca" && matches!(size, 4 | 8))) {
            return invalid("the size is 4, 8 or 16 (.cg: 16)");
        }
        let (to, _) = self.whole_address(&ops[0], Some(Space::Shared))?;
        let (from, _) = self.whole_address(&ops[1], Some(Space::Global))?;
        let mut valid = Val::Imm(size);
        if let Some(extra) = ops.get(3).filter(|_| ops.len() == 5 || !policy) {
            valid = match extra {
                Operand::Name(name) if matches!(self.lookup(*name)?, Symbol::Reg(r) if self.scalar_of(r) == Pred) => {
                    let ignore = self.src(extra, Pred)?;
                    self.emit(Op::Select, B32, vec![Val::Imm(0), Val::Imm(size), ignore])
                }
                other => self.src(other, U32)?,
            };
        }
        self.push(Op::System(Helper::CopyAsync, size), vec![], vec![to, from, valid]);
        Ok(())
    }

    fn bulk(&mut self, reduce: bool, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("commit_group") {
            operands::<0>(ops)?;
            return Ok(());
        }
        if m.take("wait_group") {
            m.take("read");
            operands::<1>(ops)?;
            return Ok(());
        }
        let prefetch = m.take("prefetch");
        let tensor = m.take("tensor");
        if prefetch {
            m.take("L2");
            m.take("global");
            m.take("tile");
            m.list.retain(|m| !m.ends_with('d'));
            m.hints();
            return Ok(());
        }
        let dims = ["1d", "2d", "3d", "4d", "5d"].iter().position(|d| m.take(d)).map(|at| at as u64 + 1);
        let im2col = m.list.iter().any(|m| m.starts_with("im2col") || m.starts_with("tile::"));
        if im2col {
            return unsupported("tensor copies in im2col, gather and scatter modes");
        }
        m.take("tile");
        if m.list.iter().any(|m| m.starts_with("cta_group") || *m == "cp_mask" || *m == "ignore_oob") {
            return unsupported("this form of bulk copy");
        }
        let shared_target = m.take("shared::cluster");
        let mut from_cta = m.take("shared::cta");
        let mut to_shared = shared_target;
        let global = m.take("global");
        if !shared_target && from_cta && global && m.list.contains(&"mbarrier::complete_tx::bytes") {
            // `.shared::cta.global`: the destination is this block's own memory.
            to_shared = true;
            from_cta = false;
        }
        let barrier = m.take("mbarrier::complete_tx::bytes");
        let group = m.take("bulk_group");
        let multicast = m.take("multicast::cluster");
        let policy = m.hints();
        if barrier == group || (to_shared && !global && !from_cta) || (multicast && !to_shared) {
            return invalid("the state spaces or the completion of a bulk copy");
        }
        let mut mode = u64::from(to_shared)
            | u64::from(global) << 1
            | u64::from(barrier) << 2
            | u64::from(multicast) << 3
            | dims.unwrap_or(0) << 4
            | u64::from(reduce) << 7;
        if reduce {
            let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
            let name = m.one_of(&names)?;
            mode |= (names.iter().position(|n| *n == name).unwrap_or(0) as u64) << 8;
            m.take("noftz");
            if !tensor {
                let scalar = m.scalar()?;
                mode |= (scalar as u64) << 12;
            }
        }
        let shared = Some(Space::Shared);
        let global_space = Some(Space::Global);
        let mut src = Vec::new();
        let mut used;
        if tensor {
            let Some(dims) = dims else { return invalid("the number of dimensions is missing") };
            let (map, memory, rest) = if to_shared {
                let [memory, map, rest @ ..] = ops else { return invalid("the operands of a tensor copy") };
                (map, memory, rest)
            } else {
                let [map, memory, rest @ ..] = ops else { return invalid("the operands of a tensor copy") };
                (map, memory, rest)
            };
            let Operand::Address { base, coordinates, .. } = map else { return invalid("[map, {x, ...}] is expected") };
            let [Operand::Vector(coordinates)] = &coordinates[..] else {
                return invalid("the coordinates stand in braces");
            };
            if coordinates.len() as u64 != dims {
                return invalid(format!("{dims} coordinates are expected"));
            }
            let (memory, _) = self.whole_address(memory, shared)?;
            let map = match &**base {
                Operand::Name(name) => match self.lookup(*name)? {
                    Symbol::KernelParam(at) => {
                        let offset = Val::Imm(at as u64);
                        let base = Val::Special(Special::ParamBase);
                        self.emit(Op::Int(IntOp::Add, U64), U64, vec![offset, base])
                    }
                    _ => self.src(base, B64)?,
                },
                other => self.src(other, B64)?,
            };
            src.push(memory);
            src.push(map);
            for coordinate in coordinates {
                src.push(self.src(coordinate, S32)?);
            }
            src.resize(7, Val::Imm(0));
            used = rest;
        } else {
            let [to, from, size, rest @ ..] = ops else { return invalid("the operands of a bulk copy") };
            let (to, _) = self.whole_address(to, if to_shared { shared } else { global_space })?;
            let (from, _) = self.whole_address(from, if to_shared && global { global_space } else { shared })?;
            let size = self.src(size, U32)?;
            src.extend([to, from, size]);
            used = rest;
        }
        if barrier {
            let [address, rest @ ..] = used else { return invalid("the mbarrier is missing") };
            let (address, _) = self.whole_address(address, shared)?;
            src.push(address);
            used = rest;
        } else {
            src.push(Val::Imm(0));
        }
        if multicast {
            let [mask, rest @ ..] = used else { return invalid("the mask of blocks is missing") };
            src.push(self.src(mask, U16)?);
            used = rest;
        } else {
            src.push(Val::Imm(0));
        }
        if used.len() != usize::from(policy) {
            return invalid("the number of operands");
        }
        let helper = if tensor { Helper::CopyTensor } else { Helper::CopyBulk };
        self.push(Op::System(helper, mode), vec![], src);
        Ok(())
    }

    fn mbarrier(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        // The operation before its qualifier: `arrive.expect_tx`.
        let names = [
            "init",
            "inval",
            "arrive_drop",
            "arrive",
            "test_wait",
            "try_wait",
            "pending_count",
            "expect_tx",
            "complete_tx",
        ];
        let name = m.one_of(&names)?;
        if name == "pending_count" {
            m.one_of(&["b64"])?;
            let [d, state] = operands::<2>(ops)?;
            let dst = self.dst(d, U32)?;
            let state = self.src(state, B64)?;
            self.push(Op::System(Helper::Mbarrier, mem::MBARRIER_PENDING), vec![dst], vec![state]);
            return Ok(());
        }
        let expect = name != "expect_tx" && m.take("expect_tx");
        let no_complete = m.take("noComplete");
        let parity = m.take("parity");
        self.semantics(m);
        m.take_any(&SCOPES);
        let space = self.space(m);
        m.one_of(&["b64"])?;
        let mut rest = ops;
        let destination = if matches!(name, "arrive" | "arrive_drop" | "test_wait" | "try_wait") {
            let (first, tail) = match rest.split_first() {
                Some(pair) if !matches!(pair.0, Operand::Address { .. }) => (Some(pair.0), pair.1),
                _ => (None, rest),
            };
            rest = tail;
            first
        } else {
            None
        };
        let [address, rest @ ..] = rest else { return invalid("the mbarrier is missing") };
        let (address, place) = self.whole_address(address, space)?;
        let mut src = vec![address];
        let count = |this: &mut Self, at: usize| rest.get(at).map(|o| this.src(o, U32)).transpose();
        let op = match name {
            "init" => {
                let [count] = operands::<1>(rest)?;
                src.push(self.src(count, U32)?);
                mem::MBARRIER_INIT
            }
            "inval" => mem::MBARRIER_INVAL,
            "expect_tx" | "complete_tx" => {
                let [bytes] = operands::<1>(rest)?;
                src.push(self.src(bytes, U32)?);
                if name == "expect_tx" { mem::MBARRIER_EXPECT_TX } else { mem::MBARRIER_COMPLETE_TX }
            }
            "arrive" | "arrive_drop" => {
                if expect {
                    let [bytes] = operands::<1>(rest)?;
                    src.push(Val::Imm(1));
                    src.push(self.src(bytes, U32)?);
                } else {
                    src.push(count(self, 0)?.unwrap_or(Val::Imm(1)));
                    src.push(Val::Imm(0));
                }
                let _ = no_complete;
                if name == "arrive" { mem::MBARRIER_ARRIVE } else { mem::MBARRIER_DROP }
            }
            _ => {
                let [state, ..] = rest else { return invalid("the state or the parity is missing") };
                src.push(self.src(state, if parity { U32 } else { B64 })?);
                if parity { mem::MBARRIER_TEST_PARITY } else { mem::MBARRIER_TEST }
            }
        };
        let mode = op | place << 16;
        let dst = match destination {
            None => vec![],
            Some(Operand::Name(name)) if self.text(*name) == "_" => vec![],
            Some(d) => vec![self.dst(d, if matches!(name, "test_wait" | "try_wait") { Pred } else { B64 })?],
        };
        self.push(Op::System(Helper::Mbarrier, mode), dst.clone(), src.clone());
        if name == "try_wait" {
            // A wait that has to go on lets the other threads run first.
            let [p] = dst[..] else { return invalid("a predicate is expected") };
            let (done, wait) = (self.new_block(), self.new_block());
            self.end(Terminator::Branch { reg: p, negated: false, then: done, other: wait });
            self.block = wait;
            self.sync(SyncOp::Yield, Meeting::Alone, vec![], vec![]);
            self.end(Terminator::Jump(done));
            self.block = done;
        }
        Ok(())
    }
}

fn list(operand: &Operand) -> Vec<&Operand> {
    match operand {
        Operand::Vector(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// Memory takes registers of any class.
fn untyped(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        8 => B8,
        16 => B16,
        32 => B32,
        64 => B64,
        _ => B128,
    }
}

/// As `untyped`, but numbers written as floats keep their meaning.
fn untyped_keep_float(scalar: Scalar) -> Scalar {
    if scalar.float() { scalar } else { untyped(scalar) }
}
