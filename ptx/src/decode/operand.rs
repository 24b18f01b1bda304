//! Operands as registers and values of a type.

use super::*;

impl<'a> Decoder<'a> {
    pub(super) fn scalar_of(&self, reg: Reg) -> Scalar {
        self.program.regs[reg as usize].scalar
    }

    pub(super) fn reg(&mut self, operand: &Operand) -> Check<Reg> {
        match operand {
            Operand::Name(name) if self.text(*name) == "_" => Ok(SINK),
            Operand::Name(name) => match self.lookup(*name)? {
                Symbol::Reg(reg) => Ok(reg),
                _ => invalid(format!("{} is not a register", self.text(*name))),
            },
            Operand::Element(name, element) => match self.lookup(*name)? {
                Symbol::Vector(regs) if (*element as usize) < regs.len() => Ok(regs[*element as usize]),
                _ => invalid(format!("{} has no such element", self.text(*name))),
            },
            Operand::Vector(one) if one.len() == 1 => self.reg(&one[0]),
            Operand::Parts(..) => invalid("a part of a register where all of it is expected"),
            _ => invalid("a register is expected as destination"),
        }
    }

    pub(super) fn fits(&self, reg: Reg, scalar: Scalar, wider: bool) -> Check<()> {
        if reg == SINK {
            return Ok(());
        }
        let have = self.scalar_of(reg);
        let want = scalar.bits().max(8);
        let bits = have.bits().max(8);
        let size = (have == Scalar::Pred) == (scalar == Scalar::Pred) && (bits == want || (wider && bits > want));
        // Integer registers do not hold floats, nor the reverse; untyped ones hold either.
        let clash = !wider && ((have.float() && scalar.integer()) || (scalar.float() && have.integer()));
        if !size || clash {
            return invalid(format!("a .{} register where .{} is expected", have.name(), scalar.name()));
        }
        Ok(())
    }

    /// A destination register for a value of this type.
    pub(super) fn dst(&mut self, operand: &Operand, scalar: Scalar) -> Check<Reg> {
        let reg = self.reg(operand)?;
        self.fits(reg, scalar, false)?;
        Ok(reg)
    }

    /// As `dst`, but the register may be wider, as that of a load or a conversion.
    pub(super) fn dst_wide(&mut self, operand: &Operand, scalar: Scalar) -> Check<Reg> {
        let reg = self.reg(operand)?;
        self.fits(reg, scalar, true)?;
        Ok(reg)
    }

    pub(super) fn src(&mut self, operand: &Operand, scalar: Scalar) -> Check<Val> {
        self.value(operand, scalar, false)
    }

    pub(super) fn src_wide(&mut self, operand: &Operand, scalar: Scalar) -> Check<Val> {
        self.value(operand, scalar, true)
    }

    pub(super) fn value(&mut self, operand: &Operand, scalar: Scalar, wider: bool) -> Check<Val> {
        match operand {
            Operand::Name(name) => {
                let text = self.text(*name);
                if text.starts_with('%')
                    && let Some(special) = special(text, 0)
                {
                    return Ok(Val::Special(special));
                }
                match self.lookup(*name)? {
                    Symbol::Reg(reg) => {
                        self.fits(reg, scalar, wider)?;
                        Ok(Val::Reg(reg))
                    }
                    Symbol::Vector(_) | Symbol::Targets(_) | Symbol::Prototype(_) => {
                        invalid(format!("{text} is not a scalar value"))
                    }
                    symbol => self.symbol_address(symbol, 0),
                }
            }
            Operand::Element(name, element) => {
                let text = self.text(*name);
                if let Some(special) = special(text, *element) {
                    return Ok(Val::Special(special));
                }
                let reg = self.reg(operand)?;
                self.fits(reg, scalar, wider)?;
                Ok(Val::Reg(reg))
            }
            Operand::Offset(name, offset) => {
                let symbol = self.lookup(*name)?;
                self.symbol_address(symbol, *offset)
            }
            Operand::Int(value) => {
                if scalar.float() && scalar.bits() >= 32 && *value != 0 {
                    return invalid("an integer where a floating-point number is expected");
                }
                Ok(Val::Imm(truncate(*value, scalar.bits())))
            }
            Operand::Double(bits) => match scalar {
                Scalar::F64 | Scalar::B64 => Ok(Val::Imm(*bits)),
                Scalar::F32 | Scalar::B32 => Ok(Val::Imm(u64::from((f64::from_bits(*bits) as f32).to_bits()))),
                _ => invalid("a floating-point number where none is expected"),
            },
            Operand::Single(bits) => match scalar {
                Scalar::F32 | Scalar::B32 | Scalar::F16x2 | Scalar::Bf16x2 | Scalar::Tf32 => {
                    Ok(Val::Imm(u64::from(*bits)))
                }
                Scalar::F64 | Scalar::B64 => Ok(Val::Imm(f64::from(f32::from_bits(*bits)).to_bits())),
                _ => invalid("a single-precision number where none is expected"),
            },
            Operand::Minus(_, Some(_)) => invalid("a part of a register where all of it is expected"),
            Operand::Minus(name, None) => {
                let value = self.src(&Operand::Name(*name), scalar)?;
                Ok(self.emit(Op::Int(IntOp::Neg, scalar), scalar, vec![value]))
            }
            Operand::Vector(one) if one.len() == 1 => self.value(&one[0], scalar, wider),
            Operand::Parts(..) => invalid("a part of a register where all of it is expected"),
            _ => invalid("a register or a number is expected"),
        }
    }

    pub(super) fn symbol_address(&mut self, symbol: Symbol, offset: i64) -> Check<Val> {
        Ok(match symbol {
            Symbol::Global(index) => Val::Global(index, offset),
            Symbol::Shared(index) => Val::Shared(index, offset),
            Symbol::Local(at, _) if at < 0 => Val::Imm((-at - 1 + offset) as u64),
            Symbol::Local(at, _) => Val::Local(at + offset),
            Symbol::KernelParam(at) => Val::Param(at + offset),
            Symbol::Function(index) => Val::Function(index),
            _ => return invalid("an address is expected"),
        })
    }

    pub(super) fn predicate(&mut self, operand: &Operand) -> Check<(Val, bool)> {
        match operand {
            Operand::Not(name) => Ok((self.src(&Operand::Name(*name), Scalar::Pred)?, true)),
            Operand::Int(value) => Ok((Val::Imm(u64::from(*value != 0)), false)),
            other => Ok((self.src(other, Scalar::Pred)?, false)),
        }
    }

    /// A predicate as a value, already negated if the operand asks for it.
    pub(super) fn plain_predicate(&mut self, operand: &Operand) -> Check<Val> {
        let (value, negated) = self.predicate(operand)?;
        Ok(if negated { self.emit(Op::Int(IntOp::Cnot, Scalar::Pred), Scalar::Pred, vec![value]) } else { value })
    }
}

/// Exactly `N` operands.
pub(crate) fn operands<const N: usize>(ops: &[Operand]) -> Check<&[Operand; N]> {
    match ops.try_into() {
        Ok(array) => Ok(array),
        Err(_) => invalid(format!("{N} operands are expected, found {}", ops.len())),
    }
}

fn special(text: &str, element: u8) -> Option<Special> {
    use Special::*;
    Some(match text {
        "%tid" => Tid(element),
        "%ntid" => Ntid(element),
        "%ctaid" => Ctaid(element),
        "%nctaid" => Nctaid(element),
        "%clusterid" => ClusterId(element),
        "%nclusterid" => NclusterId(element),
        "%cluster_ctaid" => ClusterCtaid(element),
        "%cluster_nctaid" => ClusterNctaid(element),
        "%cluster_ctarank" => ClusterCtarank,
        "%cluster_nctarank" => ClusterNctarank,
        "%is_explicit_cluster" => IsExplicitCluster,
        "%laneid" => Lane,
        "%warpid" => Warp,
        "%nwarpid" => Nwarp,
        "%smid" => Sm,
        "%nsmid" => Nsm,
        "%gridid" => Grid,
        "%lanemask_eq" => LaneMask(Mask::Eq),
        "%lanemask_lt" => LaneMask(Mask::Lt),
        "%lanemask_le" => LaneMask(Mask::Le),
        "%lanemask_gt" => LaneMask(Mask::Gt),
        "%lanemask_ge" => LaneMask(Mask::Ge),
        "%dynamic_smem_size" => DynamicShared,
        "%total_smem_size" => TotalShared,
        "%aggr_smem_size" => AggrShared,
        "%clock" => Clock(0),
        "%clock_hi" => Clock(1),
        "%clock64" => Clock(2),
        "%globaltimer" => Clock(3),
        "%globaltimer_lo" => Clock(4),
        "%globaltimer_hi" => Clock(5),
        "%current_graph_exec" => CurrentGraphExec,
        // cooperative_groups finds the barrier of its grid through these two (driver_abi.h of CUDA's headers).
        "%envreg1" => Workspace(1),
        "%envreg2" => Workspace(0),
        _ if text.starts_with("%pm") || text.starts_with("%envreg") => Zero,
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_end" => ReservedShared(0),
        "%reserved_smem_offset_cap" => ReservedShared(1),
        _ => return None,
    })
}
