//! Declarations of variables with their initializers.

use super::*;

impl<'a> Parser<'a> {
    /// A variable from its space, alignment, type and declarator, and whether more declarators may follow.
    pub(super) fn variable_head(&mut self, linking: Linking) -> Result<(Variable, bool)> {
        let token = self.next();
        let space = match &self.text(token)[1..] {
            "reg" => Space::Reg,
            "param" => Space::Param,
            "local" => Space::Local,
            "shared" => Space::Shared,
            "global" => Space::Global,
            "const" => Space::Const,
            _ => return self.error(token, "a state space"),
        };
        if space == Space::Const && self.is("[") {
            self.next();
            self.integer()?;
            self.expect("]")?;
        }
        let mut variable = Variable {
            name: token.span,
            space,
            linking,
            align: 0,
            scalar: Scalar::B8,
            vector: 1,
            dims: Vec::new(),
            init: Vec::new(),
            managed: false,
            count: None,
        };
        let mut typed = false;
        loop {
            if let Some(managed) = self.attribute()? {
                variable.managed |= managed;
                continue;
            }
            let Some(word) = self.dot() else { break };
            let token = self.next();
            match word {
                "align" => variable.align = self.integer()?,
                "v2" => variable.vector = 2,
                "v4" => variable.vector = 4,
                "v8" => variable.vector = 8,
                // Facts about what a pointer parameter points to: `.ptr .global .align 16`.
                "ptr" => {
                    while let Some(word) = self.dot() {
                        self.next();
                        if word == "align" {
                            self.integer()?;
                        }
                    }
                }
                "texref" | "samplerref" | "surfref" => {
                    variable.scalar = Scalar::B64;
                    typed = true;
                }
                _ => match Scalar::named(word) {
                    Some(scalar) => {
                        variable.scalar = scalar;
                        typed = true;
                    }
                    None => return self.error(token, "a type"),
                },
            }
        }
        if !typed {
            return self.error(self.peek(), "a type");
        }
        let more = self.declarator(&mut variable)?;
        Ok((variable, more))
    }

    fn declarator(&mut self, variable: &mut Variable) -> Result<bool> {
        variable.name = self.name("a name")?;
        variable.dims.clear();
        variable.init.clear();
        variable.count = None;
        if variable.space == Space::Reg && self.eat("<") {
            // A `>` ends the number; it does not compare.
            let token = self.peek();
            let Init::Int(count) = self.constant(6)? else { return self.error(token, "an integer") };
            variable.count = Some(count as u32);
            self.expect(">")?;
        }
        while self.eat("[") {
            let dim = if self.is("]") { None } else { Some(self.integer()?) };
            self.expect("]")?;
            variable.dims.push(dim);
        }
        if variable.align == 0 {
            variable.align = variable.element().max(1);
        }
        if !variable.align.is_power_of_two() {
            return self.error(self.peek(), "an alignment that is a power of two");
        }
        if self.eat("=") {
            self.initializer(&mut variable.init)?;
            if let Some(dim @ None) = variable.dims.first_mut() {
                *dim = Some(variable.init.len() as u64);
            }
        }
        if variable.bytes() > 1 << 40 {
            return self.error(self.peek(), "a smaller array");
        }
        Ok(self.is(","))
    }

    fn initializer(&mut self, out: &mut Vec<Init>) -> Result<()> {
        if !self.eat("{") {
            out.push(self.constant(0)?);
            return Ok(());
        }
        while !self.eat("}") {
            self.initializer(out)?;
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(())
    }

    pub(super) fn variables(&mut self, linking: Linking) -> Result<Vec<Variable>> {
        let (mut variable, mut more) = self.variable_head(linking)?;
        let mut all = vec![variable.clone()];
        while more {
            self.expect(",")?;
            more = self.declarator(&mut variable)?;
            all.push(variable.clone());
        }
        self.expect(";")?;
        Ok(all)
    }
}
