//! The operations of four lanes, in whichever view they are lowered: one of the lanes, or vectors of them.

use super::*;

impl Body for Lowering<'_, FourLanes> {
    fn lane(&self) -> Lane {
        match self.body.view {
            View::Lane(lane) => self.body.lanes[lane as usize],
            View::Four | View::Half(_) => self.body.lanes[0],
        }
    }

    fn read(&mut self, reg: Reg) -> Value {
        match self.body.view {
            View::Lane(lane) => self.of_lane(reg, lane),
            View::Four => self.vector(reg, 0),
            View::Half(half) => self.vector(reg, half),
        }
    }

    fn define(&mut self, reg: Reg, value: Value) {
        match self.body.view {
            View::Lane(lane) => self.body.results.push((reg, lane, value)),
            View::Four => self.define_vector(reg, 0, value),
            View::Half(half) => self.define_vector(reg, half, value),
        }
    }

    fn set(&mut self, reg: Reg, value: Value) {
        match self.body.view {
            View::Four => self.set_four(reg, value, false),
            View::Half(half) => self.set_half(reg, half, value),
            View::Lane(_) => self.set_of_lane(reg, value),
        }
    }

    fn set_float(&mut self, reg: Reg, value: Value) {
        match self.body.view {
            View::Four => self.set_four(reg, value, true),
            View::Half(half) => self.set_half(reg, half, value),
            View::Lane(_) => self.set_float_of_lane(reg, value),
        }
    }

    fn int(&mut self, value: Val, bits: u32) -> Value {
        match self.body.view {
            View::Four => self.four_int(value, bits),
            View::Half(half) if bits == 1 => self.half_mask(value, half),
            View::Half(half) => self.half_int(value, half),
            View::Lane(_) => self.int_of_lane(value, bits),
        }
    }

    fn float(&mut self, value: Val, double: bool) -> Value {
        match self.body.view {
            View::Four => self.four_float(value),
            View::Half(half) => self.half_float(value, half),
            View::Lane(_) => self.float_of_lane(value, double),
        }
    }

    fn amount(&mut self, value: Val) -> Value {
        match self.body.view {
            View::Four | View::Half(_) => self.with_lane(0, |this| this.int(value, 32)),
            View::Lane(_) => self.int(value, 32),
        }
    }

    fn store_home(&mut self, reg: Reg) {
        self.store_homes(reg);
    }

    fn carry_out(&mut self, inst: &Inst) {
        self.inst_together(inst);
    }

    fn branch(&mut self, block: usize, reg: Reg, yes: u32, no: u32) {
        if self.shape(reg).is_same() {
            self.branch_alike(reg, yes, no);
        } else {
            self.branch_together(block, reg, yes, no);
        }
    }

    fn set_resume(&mut self, place: u32) {
        let place = self.b.ins().iconst(types::I32, i64::from(place));
        let four = self.b.ins().splat(types::I32X4, place);
        self.store_resume(four);
    }

    fn go_to_head(&mut self) {
        let after = self.body.rows.after;
        self.jump(after, &[]);
    }

    fn lanes_of_group(&self, base: Val, bytes: u32) -> Option<u32> {
        match self.shapes?.shape_of(self.program, base, 64) {
            Shape::Steps { step: 0, .. } => Some(1),
            Shape::Steps { step, .. } if step == u64::from(bytes) => Some(LANES),
            _ => None,
        }
    }
}
