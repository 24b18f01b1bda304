//! A function's statements in order: scopes, labels, declarations.

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Symbol {
    Reg(Reg),
    Vector(Vec<Reg>),
    Local(i64, u64),
    KernelParam(i64),
    Shared(u32),
    Global(u32),
    Function(u32),
    Targets(Vec<Span>),
    Prototype(crate::text::ast::Prototype),
}

#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) names: HashMap<&'a str, Symbol>,
    pub(super) ranges: HashMap<&'a str, (Reg, u32)>,
    pub(super) labels: HashMap<&'a str, u32>,
}

impl<'a> Decoder<'a> {
    pub(super) fn read_function(&mut self, index: u32, image_index: u32) -> Result<(), Refusal> {
        self.function = index;
        let item = &self.image.functions[image_index as usize];
        self.module = item.module;
        let module = &self.image.modules[item.module as usize];
        let function = &module.ast().functions[item.index as usize];
        self.scopes = vec![Scope::default(), Scope::default()];
        for (name, prototype) in &module.ast().prototypes {
            let name = self.text(*name);
            self.scopes[0].names.insert(name, Symbol::Prototype(prototype.clone()));
        }
        self.block = self.program.functions[index as usize].entry;
        self.mark(function.name, None);
        self.returns.clear();
        self.carry = self.register(Scalar::Pred);
        let Some(body) = &function.body else {
            let fault = Fault { kind: RefusalKind::Unsupported, message: "the function has no body here".into() };
            return Err(self.refusal(function.name, fault));
        };
        if function.entry {
            let (offsets, _) = call_layout(&function.prototype.params);
            for (variable, offset) in function.prototype.params.iter().zip(offsets) {
                let symbol = Symbol::KernelParam(offset as i64);
                let name = self.text(variable.name);
                self.scopes[1].names.insert(name, symbol);
            }
        } else {
            self.prologue(&function.prototype).map_err(|fault| self.refusal(function.name, fault))?;
        }
        let mut depth_scopes: Vec<Vec<(&'a str, u32)>> = self.labels_by_scope(body);
        depth_scopes.reverse();
        if let Some(labels) = depth_scopes.pop() {
            self.scopes[1].labels.extend(labels);
        }
        for statement in body {
            match statement {
                Statement::Open => {
                    let mut scope = Scope::default();
                    if let Some(labels) = depth_scopes.pop() {
                        scope.labels.extend(labels);
                    }
                    self.scopes.push(scope);
                }
                Statement::Close => {
                    self.scopes.pop();
                }
                Statement::Variable(variable) => {
                    self.declare(variable).map_err(|fault| self.refusal(variable.name, fault))?;
                }
                Statement::Prototype(name, prototype) => {
                    let text = self.text(*name);
                    self.innermost().names.insert(text, Symbol::Prototype(prototype.clone()));
                }
                Statement::Targets(name, targets) => {
                    let text = self.text(*name);
                    self.innermost().names.insert(text, Symbol::Targets(targets.clone()));
                }
                Statement::Label(name) => {
                    let block = self.label(*name).map_err(|fault| self.refusal(*name, fault))?;
                    self.end(Terminator::Jump(block));
                    self.block = block;
                }
                Statement::Instruction(instruction) => {
                    self.mark(instruction.span, instruction.origin);
                    self.instruction(instruction).map_err(|fault| self.refusal(instruction.span, fault))?;
                }
            }
        }
        // After its last instruction, a function returns.
        if matches!(self.program.blocks[self.block as usize].end, Terminator::Open) {
            self.leave().map_err(|fault| self.refusal(function.name, fault))?;
        }
        Ok(())
    }

    /// Labels of each scope, in the order in which the scopes open.
    fn labels_by_scope(&mut self, body: &'a [Statement]) -> Vec<Vec<(&'a str, u32)>> {
        let mut all = vec![Vec::new()];
        let mut open = vec![0];
        for statement in body {
            match statement {
                Statement::Open => {
                    all.push(Vec::new());
                    open.push(all.len() - 1);
                }
                Statement::Close => {
                    open.pop();
                }
                Statement::Label(name) => {
                    let block = self.new_block();
                    let text = self.text(*name);
                    all[*open.last().unwrap_or(&0)].push((text, block));
                }
                _ => {}
            }
        }
        all
    }

    fn innermost(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn mark(&mut self, span: Span, origin: Option<crate::text::ast::Origin>) {
        let place = self.image.modules[self.module as usize].source().place(span.start);
        self.program.sites.push(Site { module: self.module, span, place, origin });
        self.site = self.program.sites.len() as u32 - 1;
    }

    pub(super) fn label(&self, name: Span) -> Check<u32> {
        let text = self.text(name);
        match self.scopes.iter().rev().find_map(|scope| scope.labels.get(text)) {
            Some(block) => Ok(*block),
            None => invalid(format!("label {text} is not defined")),
        }
    }

    /// Reserves room in the function's frame, or in the static part of local memory: which of them is settled at the end.
    pub(super) fn local_room(&mut self, size: u64, align: u64) -> i64 {
        let frame = &mut self.frames[self.function as usize];
        *frame = frame.next_multiple_of(align.max(1));
        let offset = *frame;
        *frame += size;
        offset as i64
    }

    fn declare(&mut self, variable: &'a Variable) -> Check<()> {
        let name = self.text(variable.name);
        let symbol = match variable.space {
            Space::Reg => match variable.count {
                Some(count) => {
                    if count > 1 << 20 {
                        return invalid("too many registers");
                    }
                    let first = self.program.regs.len() as Reg;
                    for _ in 0..count {
                        self.register(variable.scalar);
                    }
                    self.innermost().ranges.insert(name, (first, count));
                    return Ok(());
                }
                None if variable.vector > 1 => {
                    Symbol::Vector((0..variable.vector).map(|_| self.register(variable.scalar)).collect())
                }
                None => Symbol::Reg(self.register(variable.scalar)),
            },
            Space::Local | Space::Param => {
                Symbol::Local(self.local_room(variable.bytes(), variable.align.max(4)), variable.bytes())
            }
            Space::Shared => Symbol::Shared(self.shared_variable(variable)),
            Space::Global | Space::Const => match self.image.static_variable(self.module, variable.name) {
                Some(index) => Symbol::Global(index),
                None => return unsupported("a device variable declared in a function"),
            },
        };
        self.innermost().names.insert(name, symbol);
        Ok(())
    }

    fn shared_variable(&mut self, variable: &Variable) -> u32 {
        let key = (self.module, variable.name);
        if let Some(index) = self.shared.get(&key) {
            return *index;
        }
        let dynamic = variable.linking.external;
        let size = variable.bytes();
        self.program.shared.push(SharedVariable { size, align: variable.align, dynamic, offset: 0 });
        let index = self.program.shared.len() as u32 - 1;
        self.shared.insert(key, index);
        index
    }

    pub(super) fn lookup(&mut self, name: Span) -> Check<Symbol> {
        let text = self.text(name);
        for scope in self.scopes.iter().rev() {
            if let Some(symbol) = scope.names.get(text) {
                return Ok(symbol.clone());
            }
            let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
            for split in (text.len() - digits)..text.len() {
                if let Some((first, count)) = scope.ranges.get(&text[..split])
                    && let Ok(number) = text[split..].parse::<u32>()
                    && number < *count
                    && (number == 0 || !text[split..].starts_with('0'))
                {
                    return Ok(Symbol::Reg(first + number));
                }
            }
        }
        match self.image.find(self.module, text) {
            Some(Item::Variable(index)) => Ok(Symbol::Global(index)),
            Some(Item::Shared(module, index)) => {
                let saved = self.module;
                self.module = module;
                let variable = &self.image.modules[module as usize].ast().variables[index as usize];
                let shared = self.shared_variable(variable);
                self.module = saved;
                Ok(Symbol::Shared(shared))
            }
            Some(Item::Local(module, index)) => {
                let variable = &self.image.modules[module as usize].ast().variables[index as usize];
                let key = index | module << 20;
                let offset = match self.locals.get(&key) {
                    Some(offset) => *offset,
                    None => {
                        let offset = self.program.local.next_multiple_of(variable.align);
                        self.program.local = offset + variable.bytes();
                        self.locals.insert(key, offset);
                        offset
                    }
                };
                // A variable of the module is the same for all functions; a negative number marks it as static.
                Ok(Symbol::Local(-(offset as i64) - 1, variable.bytes()))
            }
            Some(Item::Function(index)) => Ok(Symbol::Function(index)),
            None => invalid(format!("{text} is not defined")),
        }
    }
}
