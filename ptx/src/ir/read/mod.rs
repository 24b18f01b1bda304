//! Programs from the text that `print` makes of them. What the text leaves out follows from the rest: which function a block and a register
//! belong to, where calls return to, and where shared variables are.

mod cursor;
mod operation;
mod synchronization;

use super::layout::{find_components, find_returns, place_shared};
use super::program::*;
use super::verify::verify;
use crate::number::Scalar;
use crate::text::error::{ParseError, Place, Span};

use cursor::{Cursor, Read};

/// A program, and the function of each register. There are `above` lines over the text in its file.
pub(crate) fn read(text: &str, above: u32) -> Result<(Program, Vec<u32>), ParseError> {
    let mut reader = Reader::default();
    let mut last = above;
    for (line, number) in text.lines().zip(above + 1..) {
        last = number;
        reader.line(line, number)?;
    }
    let whole = |message: String| ParseError { place: Place { line: last, column: 1 }, message };
    let mut program = reader.finish().map_err(whole)?;
    verify(&program).map_err(whole)?;
    settle_functions(&mut program);
    let places: Vec<u64> = program.shared.iter().map(|variable| variable.offset).collect();
    place_shared(&mut program);
    if let Some(number) = (0..places.len()).find(|number| program.shared[*number].offset != places[*number]) {
        return Err(whole(format!("shared{number} is at {}", program.shared[number].offset)));
    }
    let owners = owners(&program);
    Ok((program, owners))
}

#[derive(Default)]
struct Reader {
    program: Program,
    registers: Vec<Option<Scalar>>,
    /// Whether the last block has its end.
    ended: bool,
    /// The line of the PTX that the operations come from.
    line: u32,
}

impl Reader {
    fn line(&mut self, line: &str, number: u32) -> Read<()> {
        let text = match line.rfind(';') {
            Some(at) => {
                let mut origin = Cursor::behind(line, number, at + 1);
                origin.expect("line")?;
                self.line = origin.number()?;
                origin.end()?;
                line[..at].trim_end()
            }
            None => line.trim_end(),
        };
        let mut cursor = Cursor::behind(text, number, 0);
        if cursor.is_at_end() {
            return Ok(());
        }
        if text.starts_with(' ') {
            self.statement(&mut cursor)?;
        } else {
            self.declaration(&mut cursor)?;
        }
        cursor.end()
    }

    fn declaration(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        if cursor.eat("local memory of") {
            self.program.local = cursor.number()?;
            cursor.expect("bytes")?;
            self.program.stack = cursor.eat(", a stack");
            self.program.ordered = cursor.eat(", ordered");
            Ok(())
        } else if cursor.eat("registers .") {
            self.registers(cursor)
        } else if cursor.eat("function") {
            self.function(cursor)
        } else if cursor.clone().numbered("shared").is_ok() {
            self.shared(cursor)
        } else if cursor.clone().numbered("s").is_ok() {
            follows(cursor, "s", self.program.syncs.len())?;
            cursor.expect(":")?;
            let site = self.site();
            self.program.syncs.push(synchronization::point(cursor, site)?);
            Ok(())
        } else {
            self.block(cursor)
        }
    }

    fn registers(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        let scalar = cursor.meaning("a type", Scalar::named)?;
        for reg in operation::ranges(cursor)? {
            let count = self.registers.len().max(reg as usize + 1);
            self.registers.resize(count, None);
            self.registers[reg as usize] = Some(scalar);
        }
        Ok(())
    }

    fn shared(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        follows(cursor, "shared", self.program.shared.len())?;
        let dynamic = cursor.eat("sized at launch");
        let size = if dynamic { 0 } else { cursor.number()? };
        if !dynamic {
            cursor.expect("bytes")?;
        }
        cursor.expect(", aligned to")?;
        let align = cursor.number()?;
        if align == 0 {
            return cursor.fail("a variable is aligned to 1 byte or more");
        }
        cursor.expect(", at")?;
        self.program.shared.push(SharedVariable { size, align, dynamic, offset: cursor.number()? });
        Ok(())
    }

    fn function(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        follows(cursor, "f", self.program.functions.len())?;
        let name = cursor.take_while(|c| c != ',').to_owned();
        cursor.expect(",")?;
        let image = cursor.number()?;
        cursor.expect("in the image,")?;
        let entry = self.program.blocks.len() as u32;
        let mut function = FunctionInfo { image, name, entry, ..FunctionInfo::default() };
        if cursor.eat("recursive, a frame of") {
            function.recursive = true;
            function.frame = cursor.number()?;
            cursor.expect("bytes")?;
        } else {
            cursor.expect("variables at")?;
            function.base = cursor.number()?;
        }
        self.program.functions.push(function);
        Ok(())
    }

    fn block(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.needs_end(cursor)?;
        follows(cursor, "b", self.program.blocks.len())?;
        cursor.expect(":")?;
        self.ended = false;
        self.program.blocks.push(Block { insts: Vec::new(), end: Terminator::Open, function: 0, site: 0 });
        Ok(())
    }

    fn needs_end(&self, cursor: &Cursor<'_>) -> Read<()> {
        if self.program.blocks.is_empty() || self.ended { Ok(()) } else { cursor.fail("the block before has no end") }
    }

    fn statement(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        let site = self.site();
        if self.program.blocks.is_empty() || self.ended {
            return cursor.fail("a block is expected, as in `b0:`");
        }
        let block = self.program.blocks.len() - 1;
        match operation::terminator(cursor)? {
            Some(end) => {
                (self.program.blocks[block].end, self.program.blocks[block].site) = (end, site);
                self.ended = true;
            }
            None => {
                let inst = operation::inst(cursor, site)?;
                self.program.blocks[block].insts.push(inst);
            }
        }
        Ok(())
    }

    /// The site of operations from the current line.
    fn site(&mut self) -> u32 {
        let sites = &mut self.program.sites;
        if sites.last().is_none_or(|site| site.place.line != self.line) {
            let place = Place { line: self.line, column: 1 };
            sites.push(Site { module: 0, span: Span::default(), place, origin: None });
        }
        sites.len() as u32 - 1
    }

    fn finish(mut self) -> Result<Program, String> {
        if !self.ended {
            return Err("the last block has no end".into());
        }
        if self.program.functions.is_empty() {
            return Err("there is no function".into());
        }
        for (number, scalar) in self.registers.iter().enumerate() {
            let scalar = scalar.ok_or_else(|| format!("%{number} has no type"))?;
            self.program.regs.push(RegInfo { scalar });
        }
        Ok(self.program)
    }
}

/// Reads the next number of something that is numbered in order.
fn follows(cursor: &mut Cursor<'_>, prefix: &str, expected: usize) -> Read<()> {
    let before = cursor.clone();
    match cursor.numbered(prefix)? {
        number if number as usize == expected => Ok(()),
        _ => before.fail(format!("`{prefix}{expected}` is expected")),
    }
}

/// Finds which function each block belongs to, and which functions call each other. A block that no function reaches stays with the one
/// before it.
fn settle_functions(program: &mut Program) {
    let mut owners: Vec<Option<u32>> = vec![None; program.blocks.len()];
    for (function, info) in (0..).zip(&program.functions) {
        let mut open = vec![info.entry];
        while let Some(block) = open.pop() {
            if owners[block as usize].replace(function).is_none() {
                open.extend(next_in_function(program, block));
            }
        }
    }
    let mut last = 0;
    let mut calls = Vec::new();
    for (block, owner) in program.blocks.iter_mut().zip(owners) {
        last = owner.unwrap_or(last);
        block.function = last;
        match &block.end {
            Terminator::Call { callee, .. } => calls.push((last, *callee)),
            Terminator::CallIndirect { callees, .. } => calls.extend(callees.iter().map(|callee| (last, *callee))),
            _ => {}
        }
    }
    find_components(program, &calls);
    find_returns(program);
}

/// The blocks of its function to which a block leads. A call leads to the block behind it, not to the function that is called.
fn next_in_function(program: &Program, block: u32) -> Vec<u32> {
    match &program.blocks[block as usize].end {
        Terminator::Jump(next) | Terminator::Call { back: next, .. } | Terminator::CallIndirect { back: next, .. } => {
            vec![*next]
        }
        Terminator::Branch { then, other, .. } => vec![*then, *other],
        Terminator::Table { targets, .. } => targets.clone(),
        Terminator::Sync(sync) => vec![program.syncs[*sync as usize].resume],
        Terminator::Yield { next, resume } => vec![*next, *resume],
        Terminator::Open | Terminator::Return | Terminator::Exit | Terminator::Trap(_) => Vec::new(),
    }
}

/// The function of each register, which is that of a block that uses it.
fn owners(program: &Program) -> Vec<u32> {
    let mut owners = vec![0; program.regs.len()];
    let mut own = |reg: Reg, function: u32| {
        if reg != SINK && reg > STACK {
            owners[reg as usize] = function;
        }
    };
    for block in &program.blocks {
        for inst in &block.insts {
            inst.dst.iter().for_each(|reg| own(*reg, block.function));
            for value in &inst.src {
                if let Val::Reg(reg) = value {
                    own(*reg, block.function);
                }
            }
        }
        match &block.end {
            Terminator::Branch { reg, .. } => own(*reg, block.function),
            Terminator::Table { index: Val::Reg(reg), .. }
            | Terminator::CallIndirect { pointer: Val::Reg(reg), .. } => own(*reg, block.function),
            Terminator::Sync(sync) => {
                let sync = &program.syncs[*sync as usize];
                sync.dst.iter().for_each(|reg| own(*reg, block.function));
                for value in &sync.src {
                    if let Val::Reg(reg) = value {
                        own(*reg, block.function);
                    }
                }
            }
            _ => {}
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
local memory of 4096 bytes
registers .b64 %0-%1
registers .pred %2
registers .u32 %3-%4
shared0 64 bytes, aligned to 16, at 0
shared1 sized at launch, aligned to 4, at 64
function f0 k, 0 in the image, variables at 4096
b0:
    %3 = load.shared.strong.volatile.u32 [shared0+4]         ; line 7
    %2, _ = addc.u32 %3, 1, 0
    branch !%2, b1, b2
b1:
    store.global.u32 [%frame-8], %tid.x, %lanemask.le, 0x10000 ; line 8
    %3 = system.Atomic(0x10104) global1-4, param+8, local, %workspace.1
    sync s0
b2:
    table %3 [b0, b3]                                        ; line 0
b3:
    exit
s0: %4, _ = Shfl(Butterfly) %3, 16, 31, 0xffffffff, mask in source 3, resume b3 ; line 9
";

    #[test]
    fn a_text_is_printed_as_it_was_read() {
        let (program, owners) = read(TEXT, 0).unwrap();
        assert_eq!(program.to_string(), TEXT);
        assert_eq!((program.static_shared, program.dynamic_shared, owners), (64, 64, vec![0; 5]));
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let rows = [
            ("registers .u32 %3-%4", "registers .u33 %3-%4", "4:12: `u33` is not a type"),
            ("%3, 1, 0", "%3, one, 0", "10:26: `one` is not a number that fits here"),
            ("addc.u32", "addd.u32", "10:13: `addd.u32` is not an operation"),
            ("    exit", "    exit now", "19:10: the end of the line is expected"),
            ("    exit", "    %3 = mov 1", "20:1: the last block has no end"),
            ("b1:", "b5:", "12:1: `b1` is expected"),
            ("Butterfly", "Sideways", "20:18: `Sideways` is not a ShflMode"),
            ("[b0, b3]", "[b0, b9]", "20:1: b2: `table %3 [b0, b9]`: there is no block b9"),
            ("at 64", "at 60", "20:1: shared1 is at 64"),
        ];
        for (good, bad, expected) in rows {
            assert_eq!(read(&TEXT.replacen(good, bad, 1), 0).unwrap_err().to_string(), expected);
        }
        let below = read(&TEXT.replacen("addc.u32", "addd.u32", 1), 30).unwrap_err();
        assert_eq!(below.to_string(), "40:13: `addd.u32` is not an operation");
    }
}
