//! Liveness: which registers need a home in the warp's memory, and which are stored and loaded around each synchronization point.

use std::collections::{BTreeMap, BTreeSet};

use crate::helper::Helper;
use crate::ir::*;
use crate::shape::Shapes;
use crate::sync::SyncOp;

/// A set of registers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// All of so many registers.
    pub(crate) fn full(count: usize) -> Self {
        Self(vec![u64::MAX; count.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, reg: Reg) {
        if reg != SINK {
            self.0[reg as usize / 64] |= 1 << (reg % 64);
        }
    }

    fn remove(&mut self, reg: Reg) {
        if reg != SINK {
            self.0[reg as usize / 64] &= !(1 << (reg % 64));
        }
    }

    pub(crate) fn has(&self, reg: Reg) -> bool {
        reg != SINK && self.0[reg as usize / 64] >> (reg % 64) & 1 != 0
    }

    /// Adds registers. Returns whether any were new.
    fn union(&mut self, other: &Self) -> bool {
        let mut new = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            new |= *theirs & !*mine != 0;
            *mine |= theirs;
        }
        new
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= theirs);
    }

    fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= !theirs);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    word as u32 * 64 + bit
                })
            })
        })
    }
}

/// The outcome for one program.
pub(crate) struct Flow {
    pub(crate) reachable: Vec<bool>,
    /// Offset of each register's home, `None` if it does not need one; and the bytes of all homes of a warp.
    pub(crate) homes: Vec<Option<u32>>,
    pub(crate) home_bytes: u32,
    /// By block: registers stored when it ends in a synchronization or yields.
    pub(crate) stores: Vec<Set>,
    /// By block: registers loaded when a thread resumes in it.
    pub(crate) loads: Vec<Set>,
    /// Registers without a value at the beginning: set to zero.
    pub(crate) zeroed: Set,
    /// By block that ends in a call of a recursive function: what its frame keeps.
    pub(crate) saves: Vec<Vec<Reg>>,
    /// By block that continues after such a call: what is loaded again.
    pub(crate) restores: Vec<Vec<Reg>>,
    /// Blocks in which lanes that ran together continue alone, and by block what is stored where they diverge.
    pub(crate) alone: Vec<u32>,
    pub(crate) parting: Vec<Set>,
}

pub(crate) fn size_of(program: &Program, reg: Reg) -> u32 {
    program.regs[reg as usize].scalar.bytes().max(1)
}

pub(crate) fn successors(program: &Program, block: usize) -> (Vec<u32>, Option<u32>) {
    match &program.blocks[block].end {
        Terminator::Open | Terminator::Exit | Terminator::Trap(_) => (vec![], None),
        Terminator::Jump(next) => (vec![*next], None),
        Terminator::Branch { then, other, .. } => (vec![*then, *other], None),
        Terminator::Table { targets, .. } => (targets.clone(), None),
        Terminator::Sync(sync) => (vec![], Some(program.syncs[*sync as usize].resume)),
        Terminator::Yield { next, resume } => (vec![*next], Some(*resume)),
        Terminator::Call { callee, .. } => (vec![program.functions[*callee as usize].entry], None),
        Terminator::CallIndirect { callees, .. } => {
            (callees.iter().map(|c| program.functions[*c as usize].entry).collect(), None)
        }
        Terminator::Return => (program.functions[program.blocks[block].function as usize].returns.clone(), None),
    }
}

/// Whether a loop with this may wait for another thread.
pub(crate) fn waits(inst: &Inst) -> bool {
    match &inst.op {
        Op::Fence => true,
        Op::Load(memory) => memory.strong,
        Op::System(helper, _) => matches!(helper, Helper::Atomic | Helper::Mbarrier | Helper::Nanosleep),
        _ => false,
    }
}

/// A loop: the blocks from which its first one is reached again without leaving it.
pub(crate) struct Loop {
    pub(crate) header: u32,
    pub(crate) blocks: BTreeSet<u32>,
}

impl Loop {
    /// Whether it is a part of the other one.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.header != other.header && self.blocks.len() < other.blocks.len() && self.blocks.is_subset(&other.blocks)
    }
}

/// All loops of a program, one for each header.
pub(crate) fn loops(program: &Program) -> Vec<Loop> {
    let mut loops: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (_, header, blocks) in ways_back(program) {
        loops.entry(header).or_default().extend(blocks);
    }
    loops.into_iter().map(|(header, blocks)| Loop { header, blocks }).collect()
}

/// By back edge: its two blocks, and those of its loop.
fn ways_back(program: &Program) -> Vec<(u32, u32, BTreeSet<u32>)> {
    let count = program.blocks.len();
    let edges: Vec<Vec<u32>> = (0..count)
        .map(|block| {
            let (mut next, sync) = successors(program, block);
            next.extend(sync);
            next
        })
        .collect();
    // Depth first, without recursion: an edge to a block that is still open is a back edge.
    let mut state = vec![0u8; count];
    let mut back = Vec::new();
    let mut stack = vec![(0u32, 0usize)];
    state[0] = 1;
    while let Some((block, at)) = stack.pop() {
        if let Some(next) = edges[block as usize].get(at) {
            stack.push((block, at + 1));
            match state[*next as usize] {
                0 => {
                    state[*next as usize] = 1;
                    stack.push((*next, 0));
                }
                1 => back.push((block, *next)),
                _ => {}
            }
        } else {
            state[block as usize] = 2;
        }
    }
    let mut before = vec![Vec::new(); count];
    if !back.is_empty() {
        for (from, list) in edges.iter().enumerate() {
            for to in list {
                before[*to as usize].push(from as u32);
            }
        }
    }
    let inside = |(from, header): (u32, u32)| {
        let mut blocks = BTreeSet::from([header]);
        let mut queue = vec![from];
        while let Some(block) = queue.pop() {
            if blocks.insert(block) {
                queue.extend(&before[block as usize]);
            }
        }
        (from, header, blocks)
    };
    back.into_iter().map(inside).collect()
}

/// Adds a chance to yield to every back edge of a loop that could wait for another thread.
pub(crate) fn insert_yields(program: &mut Program) {
    for (from, header, blocks) in ways_back(program) {
        let wait = blocks.iter().any(|block| program.blocks[*block as usize].insts.iter().any(waits));
        if !wait {
            continue;
        }
        let (function, site) = (program.blocks[from as usize].function, program.blocks[from as usize].site);
        let empty = |end| Block { insts: Vec::new(), end, function, site };
        let resume = program.blocks.len() as u32;
        program.blocks.push(empty(Terminator::Jump(header)));
        program.blocks.push(empty(Terminator::Yield { next: header, resume }));
        program.syncs.push(SyncPoint {
            op: SyncOp::Yield,
            convergence: Convergence::Alone,
            dst: vec![],
            src: vec![],
            site,
            resume,
        });
        let through = resume + 1;
        let swap = |target: &mut u32| {
            if *target == header {
                *target = through;
            }
        };
        match &mut program.blocks[from as usize].end {
            Terminator::Jump(next) => swap(next),
            Terminator::Branch { then, other, .. } => {
                swap(then);
                swap(other);
            }
            Terminator::Table { targets, .. } => targets.iter_mut().for_each(swap),
            // Calls and synchronizations yield elsewhere.
            _ => {}
        }
    }
}

pub(crate) fn sync_of_yield(program: &Program, resume: u32) -> u32 {
    program.syncs.iter().position(|sync| sync.resume == resume).unwrap_or(0) as u32
}

fn use_def(program: &Program, block: usize) -> (Set, Set) {
    let (mut uses, mut defs) = (Set::new(program.regs.len()), Set::new(program.regs.len()));
    let framed = program.functions[program.blocks[block].function as usize].recursive;
    let mut read = |defs: &Set, value: &Val| match value {
        Val::Reg(reg) if !defs.has(*reg) => uses.insert(*reg),
        Val::Local(_) if framed && !defs.has(FRAME) => uses.insert(FRAME),
        _ => {}
    };
    for inst in &program.blocks[block].insts {
        inst.src.iter().for_each(|value| read(&defs, value));
        inst.dst.iter().for_each(|reg| defs.insert(*reg));
    }
    match &program.blocks[block].end {
        Terminator::Branch { reg, .. } => read(&defs, &Val::Reg(*reg)),
        Terminator::Table { index, .. } => read(&defs, index),
        Terminator::CallIndirect { pointer, .. } => read(&defs, pointer),
        _ => {}
    }
    if program.stack {
        // Calls and returns read and move both.
        match program.blocks[block].end {
            Terminator::Call { .. } | Terminator::CallIndirect { .. } | Terminator::Return => {
                read(&defs, &Val::Reg(FRAME));
                read(&defs, &Val::Reg(STACK));
                defs.insert(FRAME);
                defs.insert(STACK);
            }
            _ => {}
        }
    }
    (uses, defs)
}

pub(crate) fn analyse(program: &Program, owners: &[u32], shapes: Option<&Shapes>) -> Flow {
    let (blocks, regs) = (program.blocks.len(), program.regs.len());
    let edges: Vec<_> = (0..blocks).map(|block| successors(program, block)).collect();
    let mut reachable = vec![false; blocks];
    let mut order = Vec::new();
    let mut stack = vec![0u32];
    while let Some(block) = stack.pop() {
        if std::mem::replace(&mut reachable[block as usize], true) {
            continue;
        }
        order.push(block as usize);
        stack.extend(&edges[block as usize].0);
        stack.extend(edges[block as usize].1);
    }
    let empty = Set::new(regs);
    let mut uses = vec![empty.clone(); blocks];
    let mut defs = vec![empty.clone(); blocks];
    for block in &order {
        (uses[*block], defs[*block]) = use_def(program, *block);
    }
    let sync_at = |block: usize| match program.blocks[block].end {
        Terminator::Sync(sync) => Some(&program.syncs[sync as usize]),
        _ => None,
    };
    let mut live = vec![empty.clone(); blocks];
    let live_behind = |live: &[Set], block: usize| {
        let mut out = Set::new(regs);
        for next in &edges[block].0 {
            out.union(&live[*next as usize]);
        }
        if let Some(resume) = edges[block].1 {
            let mut over = live[resume as usize].clone();
            if let Some(sync) = sync_at(block) {
                sync.dst.iter().for_each(|reg| over.remove(*reg));
                for value in &sync.src {
                    if let Val::Reg(reg) = value {
                        over.insert(*reg);
                    }
                }
            }
            out.union(&over);
        }
        out
    };
    loop {
        let mut changed = false;
        for block in order.iter().rev() {
            let mut set = live_behind(&live, *block);
            set.subtract(&defs[*block]);
            set.union(&uses[*block]);
            if set != live[*block] {
                live[*block] = set;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    // Recursive calls keep what the functions of their cycle have in registers.
    let mut saves = vec![Vec::new(); blocks];
    let mut restores = vec![Vec::new(); blocks];
    for block in &order {
        let (callees, back) = match &program.blocks[*block].end {
            Terminator::Call { callee, back } => (vec![*callee], *back),
            Terminator::CallIndirect { callees, back, .. } => (callees.clone(), *back),
            _ => continue,
        };
        let own = &program.functions[program.blocks[*block].function as usize];
        if !callees.iter().any(|c| own.component.contains(c)) {
            continue;
        }
        let kept: Vec<Reg> = live[back as usize]
            .iter()
            .filter(|reg| *reg > STACK && own.component.contains(&owners[*reg as usize]))
            .collect();
        for reg in &kept {
            // They are read here and written after the call.
            if !defs[*block].has(*reg) {
                uses[*block].insert(*reg);
            }
            defs[back as usize].insert(*reg);
            uses[back as usize].remove(*reg);
        }
        restores[back as usize] = kept.clone();
        saves[*block] = kept;
    }
    let mut homes = empty.clone();
    for block in &order {
        if let Some(resume) = edges[*block].1 {
            homes.union(&live[resume as usize]);
        }
        if let Some(sync) = sync_at(*block) {
            sync.dst.iter().for_each(|reg| homes.insert(*reg));
            for value in &sync.src {
                if let Val::Reg(reg) = value {
                    homes.insert(*reg);
                }
            }
        }
    }
    // Lanes that run together diverge if they do not all take the same path.
    let mut alone = Vec::new();
    let mut parting = vec![empty.clone(); blocks];
    for block in &order {
        let Terminator::Branch { reg, then, other, .. } = program.blocks[*block].end else { continue };
        if shapes.is_none_or(|shapes| shapes.register(reg).is_same() || shapes.guarded(*block).is_some()) {
            continue;
        }
        for next in [then, other] {
            parting[*block].union(&live[next as usize]);
            if !alone.contains(&next) {
                alone.push(next);
            }
        }
        homes.union(&parting[*block]);
    }
    // Registers that could differ from their homes.
    let mut dirty = vec![empty.clone(); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for block in &order {
            let mut out = dirty[*block].clone();
            out.union(&defs[*block]);
            for next in &edges[*block].0 {
                changed |= dirty[*next as usize].union(&out);
            }
        }
    }
    let mut stores = vec![empty.clone(); blocks];
    for block in &order {
        let Some(resume) = edges[*block].1 else { continue };
        let mut wanted = live[resume as usize].clone();
        if let Some(sync) = sync_at(*block) {
            sync.dst.iter().for_each(|reg| wanted.remove(*reg));
            for value in &sync.src {
                if let Val::Reg(reg) = value {
                    wanted.insert(*reg);
                }
            }
        }
        let mut out = dirty[*block].clone();
        out.union(&defs[*block]);
        wanted.intersect(&out);
        stores[*block] = wanted;
    }
    for block in &order {
        let mut out = dirty[*block].clone();
        out.union(&defs[*block]);
        parting[*block].intersect(&out);
    }
    let mut need = vec![empty.clone(); blocks];
    loop {
        let mut changed = false;
        for block in order.iter().rev() {
            let mut set = stores[*block].clone();
            set.union(&parting[*block]);
            for next in &edges[*block].0 {
                set.union(&need[*next as usize]);
            }
            set.subtract(&defs[*block]);
            set.union(&uses[*block]);
            if set != need[*block] {
                need[*block] = set;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut loads = vec![empty.clone(); blocks];
    for block in &order {
        if let Some(resume) = edges[*block].1 {
            loads[resume as usize] = need[resume as usize].clone();
        }
    }
    for block in &alone {
        loads[*block as usize] = need[*block as usize].clone();
    }
    let mut offsets = vec![None; regs];
    let mut at = 0;
    // The widest first, so that all are aligned.
    for size in [16, 8, 4, 2, 1] {
        for reg in homes.iter().filter(|reg| size_of(program, *reg) == size) {
            offsets[reg as usize] = Some(at);
            at += size * 32;
        }
    }
    let zeroed = need[0].clone();
    Flow { reachable, homes: offsets, home_bytes: at, stores, loads, zeroed, saves, restores, alone, parting }
}
