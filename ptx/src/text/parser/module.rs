//! Directives of a module: version, target, files, functions and their prototypes.

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn module(&mut self) -> Result<()> {
        loop {
            let token = self.peek();
            if token.kind == Kind::End {
                return Ok(());
            }
            if self.eat(";") {
                continue;
            }
            if token.kind == Kind::Name && self.ahead(1).kind == Kind::Punct(":") && self.ahead(2).kind == Kind::Dot {
                if let Statement::Prototype(name, prototype) = self.named_list()? {
                    self.ast.prototypes.push((name, prototype));
                }
                continue;
            }
            let Some(word) = self.dot() else { return self.error(token, "a directive") };
            match word {
                "version" => {
                    self.next();
                    let number = self.next();
                    let text = self.text(number);
                    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
                    match (major.parse(), minor.parse()) {
                        (Ok(major), Ok(minor)) => self.ast.version = (major, minor),
                        _ => return self.error(token, "a version like 8.8"),
                    }
                }
                "target" => {
                    self.next();
                    let name = self.name("a target")?;
                    self.ast.target = self.source.get(name).to_string();
                    while self.eat(",") {
                        self.name("a target option")?;
                    }
                }
                "address_size" => {
                    self.next();
                    self.ast.address_size = self.integer()? as u32;
                    if self.ast.address_size != 64 {
                        return self.error(token, "`.address_size 64` (32-bit addresses went with CUDA 9)");
                    }
                }
                "file" => self.file()?,
                "loc" => self.location()?,
                "section" => self.section()?,
                "pragma" => self.skip_statement(),
                "alias" => {
                    self.next();
                    let alias = self.name("a function")?;
                    self.expect(",")?;
                    let of = self.name("a function")?;
                    self.expect(";")?;
                    self.ast.aliases.push((alias, of));
                }
                _ => self.declaration()?,
            }
        }
    }

    pub(super) fn skip_statement(&mut self) {
        while !self.is(";") && self.peek().kind != Kind::End {
            self.next();
        }
        self.next();
    }

    pub(super) fn file(&mut self) -> Result<()> {
        self.next();
        let index = self.integer()? as u32;
        let token = self.next();
        if token.kind != Kind::Text {
            return self.error(token, "the name of a file in quotes");
        }
        self.ast.files.push((index, self.text(token).to_string()));
        while self.eat(",") {
            self.integer()?;
        }
        Ok(())
    }

    /// `.loc file line column` and an optional `, function_name ..., inlined_at ...`.
    pub(super) fn location(&mut self) -> Result<()> {
        self.next();
        let (file, line) = (self.integer()? as u32, self.integer()? as u32);
        self.integer()?;
        let mut caller = None;
        while self.eat(",") {
            self.name("function_name or inlined_at")?;
            match self.peek().kind {
                Kind::Name => {
                    self.next();
                    if self.eat("+") {
                        self.integer()?;
                    }
                }
                _ => {
                    caller = Some((self.integer()? as u32, self.integer()? as u32));
                    self.integer()?;
                }
            }
        }
        self.origin = Some(Origin { file, line, caller });
        Ok(())
    }

    fn section(&mut self) -> Result<()> {
        self.next();
        self.next();
        self.expect("{")?;
        while !self.eat("}") {
            if self.next().kind == Kind::End {
                return self.error(self.peek(), "`}` at the end of a section");
            }
        }
        Ok(())
    }

    pub(super) fn linking(&mut self) -> Linking {
        let mut linking = Linking::default();
        while let Some(word) = self.dot() {
            match word {
                "extern" => linking.external = true,
                "visible" => linking.visible = true,
                "weak" => linking.weak = true,
                "common" => linking.common = true,
                _ => break,
            }
            self.next();
        }
        linking
    }

    pub(super) fn declaration(&mut self) -> Result<()> {
        let linking = self.linking();
        let token = self.peek();
        match self.dot() {
            Some(word @ ("entry" | "func")) => {
                self.next();
                let function = self.function(word == "entry", linking)?;
                self.ast.functions.push(function);
            }
            Some("global" | "const" | "shared" | "local") => {
                for variable in self.variables(linking)? {
                    self.ast.variables.push(variable);
                }
            }
            _ => return self.error(token, "a directive of a module (.entry, .func, .global, .const, .shared ...)"),
        }
        Ok(())
    }

    fn function(&mut self, entry: bool, linking: Linking) -> Result<Function> {
        let mut prototype = Prototype::default();
        while self.attribute()?.is_some() {}
        if self.is("(") {
            prototype.returns = self.parameters()?;
        }
        let name = self.name("the name of a function")?;
        if self.is("(") {
            prototype.params = self.parameters()?;
        }
        let mut performance = Performance::default();
        while let Some(word) = self.dot() {
            match word {
                "maxntid" | "reqntid" | "reqnctapercluster" => {
                    self.next();
                    let mut sizes = [1; 3];
                    for (index, size) in sizes.iter_mut().enumerate() {
                        if index == 0 || self.eat(",") {
                            *size = self.integer()? as u32;
                        }
                    }
                    match word {
                        "maxntid" => performance.maxntid = Some(sizes),
                        "reqntid" => performance.reqntid = Some(sizes),
                        _ => performance.reqnctapercluster = Some(sizes),
                    }
                }
                "minnctapersm" | "maxnctapersm" | "maxnreg" | "maxclusterrank" => {
                    self.next();
                    let value = self.integer()? as u32;
                    match word {
                        "maxnreg" => performance.maxnreg = Some(value),
                        "maxclusterrank" => performance.maxclusterrank = Some(value),
                        _ => performance.minnctapersm = Some(value),
                    }
                }
                "explicitcluster" => {
                    self.next();
                    performance.explicitcluster = true;
                }
                "noreturn" | "blocksareclusters" | "abi_preserve" | "abi_preserve_control" => {
                    self.next();
                    if matches!(self.peek().kind, Kind::Int(..)) {
                        self.next();
                    }
                }
                "pragma" => self.skip_statement(),
                _ => break,
            }
        }
        self.origin = None;
        let body = if self.eat(";") {
            None
        } else {
            self.expect("{")?;
            let mut body = Vec::new();
            self.block(&mut body)?;
            Some(body)
        };
        Ok(Function { name, entry, linking, prototype, performance, body })
    }

    pub(super) fn attribute(&mut self) -> Result<Option<bool>> {
        if self.dot() != Some("attribute") {
            return Ok(None);
        }
        self.next();
        self.expect("(")?;
        let mut managed = false;
        while !self.eat(")") {
            managed |= self.dot() == Some("managed");
            if self.next().kind == Kind::End {
                return self.error(self.peek(), "`)`");
            }
        }
        Ok(Some(managed))
    }

    pub(super) fn parameters(&mut self) -> Result<Vec<Variable>> {
        self.expect("(")?;
        let mut all = Vec::new();
        while !self.eat(")") {
            let token = self.peek();
            match self.dot() {
                Some("param" | "reg") => {}
                _ => return self.error(token, "`.param` or `.reg`"),
            }
            all.push(self.variable_head(Linking::default())?.0);
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        Ok(all)
    }
}
