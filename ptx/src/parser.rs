//! Tokens to a module: directives, declarations and statements. Instructions are read by their form alone; what they mean is `decode`'s.

use crate::ast::*;
use crate::error::{ParseError, Source, Span};
use crate::lexer::{Kind, Token, lex};
use crate::types::Scalar;

type Result<T> = std::result::Result<T, ParseError>;

pub(crate) fn parse(source: &Source) -> Result<Ast> {
    let tokens = lex(source)?;
    let mut parser = Parser { source, tokens, at: 0, origin: None, ast: Ast { address_size: 32, ..Ast::default() } };
    parser.module()?;
    Ok(parser.ast)
}

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Token>,
    at: usize,
    origin: Option<(u32, u32)>,
    ast: Ast,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token {
        self.tokens[self.at]
    }

    fn ahead(&self, n: usize) -> Token {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn text(&self, token: Token) -> &'a str {
        self.source.get(token.span)
    }

    fn error<T>(&self, token: Token, expected: &str) -> Result<T> {
        let found = match token.kind {
            Kind::End => "the end of the text".to_string(),
            _ => format!("`{}`", self.text(token)),
        };
        Err(ParseError {
            place: self.source.place(token.span.start),
            message: format!("expected {expected}, found {found}"),
        })
    }

    fn is(&self, punct: &str) -> bool {
        self.peek().kind == Kind::Punct(intern(punct))
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, punct: &str) -> Result<Token> {
        if self.is(punct) { Ok(self.next()) } else { self.error(self.peek(), &format!("`{punct}`")) }
    }

    fn name(&mut self, what: &str) -> Result<Span> {
        let token = self.peek();
        if token.kind != Kind::Name {
            return self.error(token, what);
        }
        Ok(self.next().span)
    }

    /// The word of a dot token at the cursor.
    fn dot(&self) -> Option<&'a str> {
        (self.peek().kind == Kind::Dot).then(|| &self.text(self.peek())[1..])
    }

    fn module(&mut self) -> Result<()> {
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

    fn skip_statement(&mut self) {
        while !self.is(";") && self.peek().kind != Kind::End {
            self.next();
        }
        self.next();
    }

    fn file(&mut self) -> Result<()> {
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
    fn location(&mut self) -> Result<()> {
        self.next();
        let (file, line) = (self.integer()? as u32, self.integer()? as u32);
        self.integer()?;
        self.origin = Some((file, line));
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
                    for _ in 0..3 {
                        self.integer()?;
                    }
                }
            }
        }
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

    fn integer(&mut self) -> Result<u64> {
        let token = self.peek();
        match self.constant(0)? {
            Init::Int(value) => Ok(value),
            _ => self.error(token, "an integer"),
        }
    }

    fn linking(&mut self) -> Linking {
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

    fn declaration(&mut self) -> Result<()> {
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

    fn attribute(&mut self) -> Result<Option<bool>> {
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

    fn parameters(&mut self) -> Result<Vec<Variable>> {
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

    /// Space, alignment, type and one declarator; and whether there can be more.
    fn variable_head(&mut self, linking: Linking) -> Result<(Variable, bool)> {
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
            self.initialiser(&mut variable.init)?;
            if let Some(dim @ None) = variable.dims.first_mut() {
                *dim = Some(variable.init.len() as u64);
            }
        }
        if variable.bytes() > 1 << 40 {
            return self.error(self.peek(), "a smaller array");
        }
        Ok(self.is(","))
    }

    fn initialiser(&mut self, out: &mut Vec<Init>) -> Result<()> {
        if !self.eat("{") {
            out.push(self.constant(0)?);
            return Ok(());
        }
        while !self.eat("}") {
            self.initialiser(out)?;
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(())
    }

    fn variables(&mut self, linking: Linking) -> Result<Vec<Variable>> {
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

    /// A constant expression, by precedence climbing.
    fn constant(&mut self, level: u8) -> Result<Init> {
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

    fn block(&mut self, out: &mut Vec<Statement>) -> Result<()> {
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

    fn named_list(&mut self) -> Result<Statement> {
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
            // A call's parts are separated by commas like operands.
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
                Ok(Operand::Minus(self.name("a register")?))
            }
            Kind::Name if self.text(token) != "WARP_SZ" => {
                self.next();
                if self.peek().kind == Kind::Dot && self.peek().glued {
                    let token = self.next();
                    let element = match self.text(token) {
                        ".x" | ".r" => 0,
                        ".y" | ".g" => 1,
                        ".z" | ".b" => 2,
                        ".w" | ".a" => 3,
                        _ => return self.error(token, "an element (.x .y .z .w)"),
                    };
                    return Ok(Operand::Element(token_name(token, self), element));
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

/// The name before the element token just read.
fn token_name(element: Token, parser: &Parser<'_>) -> Span {
    let at = parser.at - 2;
    debug_assert_eq!(parser.tokens[at + 1].span, element.span);
    parser.tokens[at].span
}

fn intern(punct: &str) -> &'static str {
    match punct {
        "(" => "(",
        ")" => ")",
        "{" => "{",
        "}" => "}",
        "[" => "[",
        "]" => "]",
        "," => ",",
        ";" => ";",
        ":" => ":",
        "<" => "<",
        ">" => ">",
        "=" => "=",
        "+" => "+",
        "-" => "-",
        "|" => "|",
        "!" => "!",
        "@" => "@",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Ast> {
        parse(&Source::new(text))
    }

    #[test]
    fn an_error_says_where_and_what() {
        let error =
            read(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  add.s32 %r1, %r2 %r3;\n}")
                .unwrap_err();
        assert_eq!(error.to_string(), "6:20: expected `,`, found `%r3`");
        let error = read(".version 8.0 /* open").unwrap_err();
        assert_eq!(error.to_string(), "1:14: comment without end: `*/` is missing");
        let error = read(".version 8.0\n.address_size 32").unwrap_err();
        assert_eq!(error.place.line, 2);
    }

    #[test]
    fn declarations_keep_alignment_sizes_and_values() {
        let text = ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 8 .u64 t[2] = {f, generic(g)+4};\n.const .b8 m[] = {1, 2, -1};\n\
                    .visible .global .attribute(.managed) .v4 .f32 v;\n.shared .b8 s[4*(2+2)];";
        let ast = read(text).unwrap();
        assert_eq!((ast.version, ast.target.as_str()), ((9, 0), "sm_90"));
        let sizes: Vec<_> = ast.variables.iter().map(|v| (v.bytes(), v.align, v.managed)).collect();
        assert_eq!(sizes, [(16, 8, false), (3, 1, false), (16, 16, true), (16, 1, false)]);
        assert!(matches!(ast.variables[0].init[1], Init::Symbol { addend: 4, .. }));
        assert_eq!(ast.variables[1].init[2], Init::Int(u64::MAX));
    }
}
