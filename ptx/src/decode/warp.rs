//! Instructions that synchronize threads: shuffles, votes, reductions, barriers of warp, block and cluster.

use super::*;
use crate::runtime::sync::{BarrierKind, ReduxOp, ShflMode, VoteMode};

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn shuffle(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let sync = m.take("sync");
        let mode = match m.one_of(&["up", "down", "bfly", "idx"])? {
            "up" => ShflMode::Up,
            "down" => ShflMode::Down,
            "bfly" => ShflMode::Butterfly,
            _ => ShflMode::Index,
        };
        m.one_of(&["b32"])?;
        let Some((first, rest)) = ops.split_first() else { return invalid("operands are missing") };
        let (d, p) = pair(first);
        let dst = vec![self.dst(d, B32)?, p.map_or(Ok(SINK), |p| self.dst(p, Pred))?];
        if rest.len() != if sync { 4 } else { 3 } {
            return invalid("the number of operands");
        }
        let mut src = vec![self.src(&rest[0], B32)?, self.src(&rest[1], U32)?, self.src(&rest[2], U32)?];
        let convergence = if sync {
            src.push(self.src(&rest[3], B32)?);
            Convergence::Mask(3)
        } else {
            Convergence::Arrived
        };
        self.sync(SyncOp::Shfl(mode), convergence, dst, src);
        Ok(())
    }

    pub(super) fn vote(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let sync = m.take("sync");
        let mode = match m.one_of(&["all", "any", "uni", "ballot"])? {
            "all" => VoteMode::All,
            "any" => VoteMode::Any,
            "uni" => VoteMode::Uniform,
            _ => VoteMode::Ballot,
        };
        let scalar = if mode == VoteMode::Ballot { B32 } else { Pred };
        m.one_of(&[if mode == VoteMode::Ballot { "b32" } else { "pred" }])?;
        let [d, a, rest @ ..] = ops else { return invalid("the number of operands") };
        let dst = vec![self.dst(d, scalar)?];
        let mut src = vec![self.plain_predicate(a)?];
        let convergence = self.mask(sync, rest, &mut src)?;
        self.sync(SyncOp::Vote(mode), convergence, dst, src);
        Ok(())
    }

    pub(super) fn match_values(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let all = m.one_of(&["any", "all"])? == "all";
        m.one_of(&["sync"])?;
        let scalar = m.scalar()?;
        if !matches!(scalar, B32 | B64) {
            return invalid("match is of .b32 and .b64");
        }
        let [d, a, mask] = operands::<3>(ops)?;
        let (d, p) = pair(d);
        let dst = vec![self.dst(d, B32)?, p.map_or(Ok(SINK), |p| self.dst(p, Pred))?];
        let src = vec![self.src(a, scalar)?, self.src(mask, B32)?];
        self.sync(SyncOp::Match { all, wide: scalar == B64 }, Convergence::Mask(1), dst, src);
        Ok(())
    }

    pub(super) fn reduce(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["sync"])?;
        let names = ["add", "min", "max", "and", "or", "xor"];
        let name = m.one_of(&names)?;
        let absolute = m.take("abs");
        let nan = m.take("NaN");
        let scalar = m.scalar()?;
        let op = match (name, scalar) {
            ("add", U32 | S32) => ReduxOp::Add,
            ("min", U32 | S32) => ReduxOp::Min,
            ("max", U32 | S32) => ReduxOp::Max,
            ("min", F32) => ReduxOp::FloatMin { absolute, nan },
            ("max", F32) => ReduxOp::FloatMax { absolute, nan },
            ("and", B32) => ReduxOp::And,
            ("or", B32) => ReduxOp::Or,
            ("xor", B32) => ReduxOp::Xor,
            _ => return invalid(format!("redux.{name} of .{}", scalar.name())),
        };
        if (absolute || nan) && scalar != F32 {
            return invalid(".abs and .NaN are for .f32");
        }
        let [d, a, mask] = operands::<3>(ops)?;
        let dst = vec![self.dst(d, scalar)?];
        let src = vec![self.src(a, scalar)?, self.src(mask, B32)?];
        self.sync(SyncOp::Redux(op, scalar == S32), Convergence::Mask(1), dst, src);
        Ok(())
    }

    pub(super) fn active_mask(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["b32"])?;
        let [d] = operands::<1>(ops)?;
        let dst = vec![self.dst(d, B32)?];
        self.sync(SyncOp::ActiveMask, Convergence::Arrived, dst, vec![]);
        Ok(())
    }

    pub(super) fn elect(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["sync"])?;
        let [d, mask] = operands::<2>(ops)?;
        let (d, p) = pair(d);
        let Some(p) = p else { return invalid("elect has the destination d|p") };
        let dst = vec![self.dst(d, B32)?, self.dst(p, Pred)?];
        let src = vec![self.src(mask, B32)?];
        self.sync(SyncOp::Elect, Convergence::Mask(0), dst, src);
        Ok(())
    }

    fn mask(&mut self, sync: bool, rest: &[Operand], src: &mut Vec<Val>) -> Check<Convergence> {
        match (sync, rest) {
            (true, [mask]) => {
                src.push(self.src(mask, B32)?);
                Ok(Convergence::Mask(src.len() as u8 - 1))
            }
            (false, []) => Ok(Convergence::Arrived),
            _ => invalid("the number of operands"),
        }
    }

    pub(super) fn barrier(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("warp") {
            m.one_of(&["sync"])?;
            let [mask] = operands::<1>(ops)?;
            let src = vec![self.src(mask, B32)?];
            self.sync(SyncOp::WarpSync, Convergence::Mask(0), vec![], src);
            return Ok(());
        }
        if m.take("cluster") {
            let arrive = m.one_of(&["arrive", "wait"])? == "arrive";
            m.take_any(&["release", "acquire", "relaxed"]);
            m.take("aligned");
            operands::<0>(ops)?;
            let op = if arrive { SyncOp::ClusterArrive } else { SyncOp::ClusterWait };
            self.sync(op, Convergence::Cluster, vec![], vec![]);
            return Ok(());
        }
        m.take("cta");
        let aligned = m.take("aligned") || base == "bar";
        let kind = m.one_of(&["sync", "arrive", "red"])?;
        if kind == "red" {
            let op = m.one_of(&["popc", "and", "or"])?;
            m.one_of(&[if op == "popc" { "u32" } else { "pred" }])?;
            let kind = match op {
                "popc" => BarrierKind::Popc,
                "and" => BarrierKind::And,
                _ => BarrierKind::Or,
            };
            let (d, id, count, p) = match ops {
                [d, id, p] => (d, id, None, p),
                [d, id, count, p] => (d, id, Some(count), p),
                _ => return invalid("the number of operands"),
            };
            let dst = vec![self.dst(d, if op == "popc" { U32 } else { Pred })?];
            let count = count.map_or(Ok(Val::Imm(0)), |c| self.src(c, U32))?;
            let src = vec![self.src(id, U32)?, count, self.plain_predicate(p)?];
            self.sync(SyncOp::Barrier { kind, aligned }, Convergence::Block, dst, src);
            return Ok(());
        }
        let (id, count) = match ops {
            [id] if kind == "sync" => (id, None),
            [id, count] => (id, Some(count)),
            _ => return invalid("the number of operands"),
        };
        let count = count.map_or(Ok(Val::Imm(0)), |c| self.src(c, U32))?;
        let src = vec![self.src(id, U32)?, count];
        let kind = if kind == "sync" { BarrierKind::Sync } else { BarrierKind::Arrive };
        self.sync(SyncOp::Barrier { kind, aligned }, Convergence::Block, vec![], src);
        Ok(())
    }
}

fn pair(operand: &Operand) -> (&Operand, Option<&Operand>) {
    match operand {
        Operand::Pair(d, p) => (d, Some(p)),
        one => (one, None),
    }
}
