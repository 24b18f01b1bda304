//! The body of a function: labels, instructions and their operands.

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn block(&mut self, out: &mut Vec<Statement>) -> Result<()> {
        loop {
            let token = self.peek();
            match token.kind {
                Kind::Punct("}") => {
                    self.next();
                    return Ok(());
                }
                Kind::Punct("{") => {
                    self.next();
                    out.push(Statement::Open);
                    self.block(out)?;
                    out.push(Statement::Close);
                }
                Kind::Punct(";") => {
                    self.next();
                }
                Kind::Dot => match self.dot().unwrap_or_default() {
                    "loc" => self.location()?,
                    "file" => self.file()?,
                    "pragma" => self.skip_statement(),
                    "reg" | "param" | "local" | "shared" | "global" | "const" => {
                        out.extend(self.variables(Linking::default())?.into_iter().map(Statement::Variable));
                    }
                    "extern" | "visible" | "weak" | "common" => {
                        let linking = self.linking();
                        out.extend(self.variables(linking)?.into_iter().map(Statement::Variable));
                    }
                    _ => return self.error(token, "a declaration or an instruction"),
                },
                Kind::Name if self.ahead(1).kind == Kind::Punct(":") => {
                    if self.ahead(2).kind == Kind::Dot
                        && matches!(self.text(self.ahead(2)), ".callprototype" | ".branchtargets" | ".calltargets")
                    {
                        let list = self.named_list()?;
                        out.push(list);
                    } else {
                        out.push(Statement::Label(self.next().span));
                        self.next();
                    }
                }
                Kind::Name | Kind::Punct("@") => {
                    let instruction = self.instruction()?;
                    out.push(Statement::Instruction(instruction));
                }
                _ => return self.error(token, "an instruction, a label, a declaration or `}`"),
            }
        }
    }

    pub(super) fn named_list(&mut self) -> Result<Statement> {
        let name = self.name("a label")?;
        self.expect(":")?;
        let token = self.next();
        match self.text(token) {
            ".callprototype" => {
                let mut prototype = Prototype::default();
                if self.is("(") {
                    prototype.returns = self.parameters()?;
                }
                self.name("`_`")?;
                if self.is("(") {
                    prototype.params = self.parameters()?;
                }
                self.skip_statement();
                Ok(Statement::Prototype(name, prototype))
            }
            ".branchtargets" | ".calltargets" => {
                let mut targets = vec![self.name("a label")?];
                while self.eat(",") {
                    targets.push(self.name("a label")?);
                }
                self.expect(";")?;
                Ok(Statement::Targets(name, targets))
            }
            _ => self.error(token, ".callprototype, .branchtargets or .calltargets"),
        }
    }

    fn instruction(&mut self) -> Result<Instruction> {
        let start = self.peek().span.start;
        let guard = if self.eat("@") {
            let negated = self.eat("!");
            Some((self.name("a predicate")?, negated))
        } else {
            None
        };
        let mut opcode = self.name("an instruction")?;
        while self.peek().kind == Kind::Dot && self.peek().glued {
            opcode.end = self.next().span.end;
        }
        let mut operands = Vec::new();
        while !self.is(";") {
            operands.push(self.operand()?);
            // The parts of a call are separated by commas, as operands are.
            if !self.is(";") {
                self.expect(",")?;
            }
        }
        let end = self.next().span.end;
        Ok(Instruction { span: Span { start, end }, opcode, guard, operands, origin: self.origin })
    }

    fn operand(&mut self) -> Result<Operand> {
        let first = self.operand_single()?;
        if self.eat("|") {
            let second = self.operand_single()?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn operand_list(&mut self, end: &str) -> Result<Vec<Operand>> {
        let mut all = Vec::new();
        while !self.eat(end) {
            all.push(self.operand()?);
            if !self.is(end) {
                self.expect(",")?;
            }
        }
        Ok(all)
    }

    fn operand_single(&mut self) -> Result<Operand> {
        let token = self.peek();
        match token.kind {
            Kind::Punct("{") => {
                self.next();
                Ok(Operand::Vector(self.operand_list("}")?))
            }
            Kind::Punct("(") if !matches!(self.ahead(1).kind, Kind::Dot) => {
                self.next();
                Ok(Operand::Group(self.operand_list(")")?))
            }
            Kind::Punct("[") => {
                self.next();
                let base = self.operand_single()?;
                let (base, mut offset) = match base {
                    Operand::Offset(name, offset) => (Operand::Name(name), offset),
                    base => (base, 0),
                };
                let mut coordinates = Vec::new();
                if self.eat(",") {
                    coordinates.push(self.operand()?);
                    while self.eat(",") {
                        coordinates.push(self.operand()?);
                    }
                } else if self.eat("+") {
                    offset += self.integer()? as i64;
                }
                self.expect("]")?;
                Ok(Operand::Address { base: Box::new(base), offset, coordinates })
            }
            Kind::Punct("!") => {
                self.next();
                Ok(Operand::Not(self.name("a predicate")?))
            }
            Kind::Punct("-") if self.ahead(1).kind == Kind::Name => {
                self.next();
                let name = self.name("a register")?;
                let has_part = self.peek().kind == Kind::Dot && self.peek().glued;
                Ok(Operand::Minus(name, has_part.then(|| self.next().span)))
            }
            Kind::Name if self.text(token) != "WARP_SZ" => {
                self.next();
                if self.peek().kind == Kind::Dot && self.peek().glued {
                    let part = self.next();
                    let text = self.text(part);
                    if text.len() > 2 && matches!(text.as_bytes()[1], b'b' | b'h') {
                        return Ok(Operand::Parts(token.span, part.span));
                    }
                    let element = match text {
                        ".x" | ".r" => 0,
                        ".y" | ".g" => 1,
                        ".z" | ".b" => 2,
                        ".w" | ".a" => 3,
                        _ => return self.error(part, "an element (.x .y .z .w)"),
                    };
                    return Ok(Operand::Element(token.span, element));
                }
                if self.is("+") {
                    self.next();
                    return Ok(Operand::Offset(token.span, self.integer()? as i64));
                }
                if self.is("-") {
                    self.next();
                    return Ok(Operand::Offset(token.span, (self.integer()? as i64).wrapping_neg()));
                }
                // `name[4]`: an element of an array by its offset.
                if self.is("[") && matches!(self.ahead(1).kind, Kind::Int(..)) {
                    self.next();
                    let offset = self.integer()? as i64;
                    self.expect("]")?;
                    return Ok(Operand::Offset(token.span, offset));
                }
                Ok(Operand::Name(token.span))
            }
            _ => {
                // `|` would read as the separator of two destinations.
                Ok(match self.constant(1)? {
                    Init::Int(value) => Operand::Int(value),
                    Init::Double(bits) => Operand::Double(bits),
                    Init::Single(bits) => Operand::Single(bits),
                    Init::Symbol { name, addend, .. } => Operand::Offset(name, addend),
                })
            }
        }
    }
}
