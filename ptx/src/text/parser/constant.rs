//! Constant expressions, by precedence.

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn integer(&mut self) -> Result<u64> {
        let token = self.peek();
        match self.constant(0)? {
            Init::Int(value) => Ok(value),
            _ => self.error(token, "an integer"),
        }
    }

    /// A constant expression, by precedence climbing.
    pub(super) fn constant(&mut self, level: u8) -> Result<Init> {
        let mut left = self.constant_unary()?;
        loop {
            let Kind::Punct(op) = self.peek().kind else { return Ok(left) };
            let strength = match op {
                "|" => 1,
                "^" => 2,
                "&" => 3,
                "==" | "!=" => 4,
                "<" | ">" | "<=" | ">=" => 5,
                "<<" | ">>" => 6,
                "+" | "-" => 7,
                "*" | "/" | "%" => 8,
                _ => return Ok(left),
            };
            if strength <= level {
                return Ok(left);
            }
            let token = self.next();
            let right = self.constant(strength)?;
            left = match (left, right) {
                (Init::Int(a), Init::Int(b)) => Init::Int(match op {
                    "|" => a | b,
                    "^" => a ^ b,
                    "&" => a & b,
                    "==" => u64::from(a == b),
                    "!=" => u64::from(a != b),
                    "<" => u64::from((a as i64) < b as i64),
                    ">" => u64::from(a as i64 > b as i64),
                    "<=" => u64::from(a as i64 <= b as i64),
                    ">=" => u64::from(a as i64 >= b as i64),
                    "<<" => a.checked_shl(b as u32).unwrap_or(0),
                    ">>" => a.checked_shr(b as u32).unwrap_or(0),
                    "+" => a.wrapping_add(b),
                    "-" => a.wrapping_sub(b),
                    "*" => a.wrapping_mul(b),
                    _ if b == 0 => return self.error(token, "a divisor that is not zero"),
                    "/" => (a as i64).wrapping_div(b as i64) as u64,
                    _ => (a as i64).wrapping_rem(b as i64) as u64,
                }),
                (Init::Symbol { name, addend, mask }, Init::Int(b)) if matches!(op, "+" | "-") => {
                    let by = if op == "+" { b as i64 } else { (b as i64).wrapping_neg() };
                    Init::Symbol { name, addend: addend.wrapping_add(by), mask }
                }
                (Init::Double(a), Init::Double(b)) if matches!(op, "+" | "-" | "*" | "/") => {
                    let (a, b) = (f64::from_bits(a), f64::from_bits(b));
                    Init::Double(
                        match op {
                            "+" => a + b,
                            "-" => a - b,
                            "*" => a * b,
                            _ => a / b,
                        }
                        .to_bits(),
                    )
                }
                _ => return self.error(token, "a constant expression"),
            };
        }
    }

    fn constant_unary(&mut self) -> Result<Init> {
        let token = self.next();
        match token.kind {
            Kind::Int(value, _) if self.is("(") && self.ahead(1).kind == Kind::Name => {
                // `0xFF00(symbol)`: one byte of an address.
                self.next();
                match self.constant(0)? {
                    Init::Symbol { name, addend, .. } => {
                        self.expect(")")?;
                        Ok(Init::Symbol { name, addend, mask: Some(value) })
                    }
                    _ => self.error(token, "an address behind a mask"),
                }
            }
            Kind::Int(value, _) => Ok(Init::Int(value)),
            Kind::Double(bits) => Ok(Init::Double(bits)),
            Kind::Single(bits) => Ok(Init::Single(bits)),
            Kind::Punct("(") => {
                if self.peek().kind == Kind::Dot && self.ahead(1).kind == Kind::Punct(")") {
                    // A cast, `(.u64)` or `(.s64)`, changes nothing in 64 bits.
                    self.next();
                    self.next();
                    return self.constant_unary();
                }
                let value = self.constant(0)?;
                self.expect(")")?;
                Ok(value)
            }
            Kind::Punct(op @ ("-" | "+" | "~" | "!")) => Ok(match (op, self.constant_unary()?) {
                ("-", Init::Int(value)) => Init::Int(value.wrapping_neg()),
                ("~", Init::Int(value)) => Init::Int(!value),
                ("!", Init::Int(value)) => Init::Int(u64::from(value == 0)),
                ("-", Init::Double(bits)) => Init::Double(bits ^ 1 << 63),
                ("-", Init::Single(bits)) => Init::Single(bits ^ 1 << 31),
                ("+", value) => value,
                _ => return self.error(token, "a number"),
            }),
            Kind::Name => {
                let text = self.text(token);
                if text == "WARP_SZ" {
                    return Ok(Init::Int(32));
                }
                if text == "generic" && self.eat("(") {
                    let value = self.constant(0)?;
                    self.expect(")")?;
                    return Ok(value);
                }
                Ok(Init::Symbol { name: token.span, addend: 0, mask: None })
            }
            _ => self.error(token, "a constant"),
        }
    }
}
