//! Copies made by other parts of the machine: `cp.async`, bulk and tensor copies, `mbarrier`.

use super::memory::SCOPES;
use super::*;
use crate::host::memory_ops as mem;
use crate::host::tensor_map::{FIELDS, Field};

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn red_async(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
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

    /// Stores into shared memory, and tells a barrier there how many bytes have arrived.
    pub(super) fn store_async(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("weak");
        m.take("shared::cluster");
        if !m.take("mbarrier::complete_tx::bytes") {
            return unsupported("st.async without a barrier in memory");
        }
        let count = match m.take_any(&["v2", "v4"]) {
            Some("v2") => 2,
            Some(_) => 4,
            None => 1,
        };
        let scalar = m.scalar()?;
        let is_legal = matches!(scalar, B32 | B64 | U32 | U64 | S32 | S64 | F32 | F64);
        if !is_legal || scalar.bytes() as usize * count > 16 {
            return invalid(format!("st.async of {count} elements of .{}", scalar.name()));
        }
        let [a, values, barrier] = operands::<3>(ops)?;
        let list = match values {
            Operand::Vector(list) => &list[..],
            one => std::slice::from_ref(one),
        };
        if list.len() != count {
            return invalid(format!("{count} sources are expected"));
        }
        let (value, offset, space) = self.address(a, Some(Space::Shared))?;
        let mut src = vec![value];
        for value in list {
            src.push(self.src(value, scalar)?);
        }
        self.push(Op::Store(Memory { offset, strong: true, ..Memory::weak(space, scalar) }), vec![], src);
        let (barrier, _) = self.whole_address(barrier, Some(Space::Shared))?;
        let bytes = Val::Imm(u64::from(scalar.bytes()) * count as u64);
        self.push(Op::System(Helper::Mbarrier, mem::MBARRIER_COMPLETE_TX), vec![], vec![barrier, bytes]);
        Ok(())
    }

    pub(super) fn copy(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
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

    pub(super) fn bulk(&mut self, reduce: bool, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
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
                return invalid("the coordinates must be in braces");
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

    /// Changes a field of a tensor map, or publishes one that was made in shared memory.
    pub(super) fn tensor_map(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("cp_fenceproxy") {
            for word in ["global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"] {
                m.one_of(&[word])?;
            }
            m.one_of(&SCOPES)?;
            let [to, from, Operand::Int(128)] = operands::<3>(ops)? else { return invalid("the size is 128") };
            let (to, _) = self.whole_address(to, Some(Space::Global))?;
            let (from, _) = self.whole_address(from, Some(Space::Shared))?;
            self.sync(SyncOp::WarpSync, Convergence::Warp, vec![], vec![]);
            self.push(Op::System(Helper::PublishMap, 0), vec![], vec![to, from]);
            return Ok(());
        }
        m.one_of(&["replace"])?;
        m.one_of(&["tile"])?;
        if m.take("interleave_layout") {
            let (Some(Operand::Int(0)), true) = (ops.get(1), ops.len() == 2) else {
                return unsupported("tensor maps with interleaved elements");
            };
            self.space(m);
            m.list.retain(|m| !matches!(*m, "b1024" | "b32"));
            return Ok(());
        }
        let Some((_, field)) = FIELDS.iter().find(|(name, _)| m.take(name)) else {
            return unsupported("this field of a tensor map");
        };
        let space = self.space(m);
        m.one_of(&["b1024"])?;
        let wide = matches!(field, Field::GlobalAddress | Field::GlobalStride);
        let scalar = if wide { B64 } else { B32 };
        m.one_of(&[if wide { "b64" } else { "b32" }])?;
        let ordered = matches!(field, Field::BoxDim | Field::GlobalDim | Field::GlobalStride | Field::ElementStride);
        let (address, ordinal, value) = match ops {
            [address, value] if !ordered => (address, 0, value),
            [address, Operand::Int(ordinal), value] if ordered && *ordinal < 5 => (address, *ordinal, value),
            _ => return invalid("the operands of tensormap.replace"),
        };
        match (field, value) {
            (Field::ElementType, Operand::Int(13..)) => return unsupported("tensor maps of packed elements"),
            (Field::SwizzleMode, Operand::Int(4..)) => return unsupported("this swizzle of a tensor map"),
            _ => {}
        }
        let (address, place) = self.whole_address(address, space)?;
        let value = self.src(value, scalar)?;
        let mode = *field as u64 | place << 16;
        self.push(Op::System(Helper::ReplaceMap, mode), vec![], vec![address, Val::Imm(ordinal), value]);
        Ok(())
    }

    pub(super) fn mbarrier(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
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
            // A wait that is not over lets the other threads run first.
            let [p] = dst[..] else { return invalid("a predicate is expected") };
            let (done, wait) = (self.new_block(), self.new_block());
            self.end(Terminator::Branch { reg: p, negated: false, then: done, other: wait });
            self.block = wait;
            self.sync(SyncOp::Yield, Convergence::Alone, vec![], vec![]);
            self.end(Terminator::Jump(done));
            self.block = done;
        }
        Ok(())
    }
}
