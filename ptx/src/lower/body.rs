//! What differs between the bodies of a kernel: which lanes an operation is for, and where their registers are.

use super::*;

/// A lane of the warp.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// From 0 to 31, with 64 bits.
    pub(super) number: Value,
    /// The host's address of its local memory.
    pub(super) local: Value,
}

/// A body of code that is being lowered, for one lane or for four at once. The operations of a program are lowered by what both have.
pub(super) trait Body {
    /// The lane that operations are for: of several, the first.
    fn lane(&self) -> Lane;

    /// A register's value.
    fn read(&mut self, reg: Reg) -> Value;

    /// Sets a register to a value that has its type.
    fn define(&mut self, reg: Reg, value: Value);

    /// Sets a register to an integer of any width (cut or zero-extended) or a float of its width.
    fn set(&mut self, reg: Reg, value: Value);

    /// As `set`, for a result of f32 arithmetic, in which NaN becomes PTX's canonical NaN.
    fn set_float(&mut self, reg: Reg, value: Value);

    /// An operand as an integer of `bits`.
    fn int(&mut self, value: Val, bits: u32) -> Value;

    /// An operand as a float.
    fn float(&mut self, value: Val, double: bool) -> Value;

    /// By how much numbers are shifted: an operand that is the same for all lanes of a vector.
    fn amount(&mut self, value: Val) -> Value;

    /// Stores a register to its home.
    fn store_home(&mut self, reg: Reg);

    /// Lowers an operation of the program.
    fn carry_out(&mut self, inst: &Inst);

    /// Lowers a branch at the end of a block of the program.
    fn branch(&mut self, block: usize, reg: Reg, yes: u32, no: u32);

    /// Sets where the lanes continue when they run again.
    fn set_resume(&mut self, place: u32);

    /// Ends the run of the lanes; others are next.
    fn go_to_head(&mut self);

    /// How many lanes' places are checked at once in a group of loads; none if each lane's is checked.
    fn lanes_of_group(&self, base: Val, bytes: u32) -> Option<u32>;
}

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    /// Lowers all blocks of the program.
    pub(super) fn program_blocks(&mut self) {
        let first = self.blocks[self.program.functions[0].entry as usize];
        self.jump(first, &[]);
        for index in 0..self.program.blocks.len() {
            if self.flow.reachable[index] {
                self.block(index);
            }
        }
    }

    /// The address of the warp plus four bytes for each lane before this one: with the offset of an array of words in the warp, that of
    /// the lane's word.
    pub(super) fn home_base4(&mut self) -> Value {
        let lane = self.lane().number;
        let scaled = self.b.ins().ishl_imm_u(lane, 2);
        self.b.ins().iadd(self.warp, scaled)
    }

    /// Tells a helper which lane it is called for.
    pub(super) fn store_lane(&mut self) {
        let lane = self.lane().number;
        self.b.ins().store(trusted(), lane, self.context, offset_of!(Context, lane) as i32);
    }
}
