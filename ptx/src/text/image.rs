//! Parsed modules and the result of linking them: kernels, device variables with their initial bytes, names resolved across
//! modules.

use std::collections::HashMap;
use std::sync::Arc;

use crate::number::Scalar;
use crate::runtime::helper::is_builtin;
use crate::text::ast::{Ast, Function, Init, Performance, Prototype, Space, Variable, call_layout};
use crate::text::error::{ParseError, SourceText, Span};
use crate::text::parser;

/// Added to the index of a function, times 16, to make the value of a pointer to it.
pub const FUNCTION_HANDLE: u64 = 0x0f00_0000_0000_0000;

#[derive(Debug)]
struct Parsed {
    source: SourceText,
    ast: Ast,
}

/// One PTX text, read. Whether its kernels can be executed is found out for each of them: see [`Image::kernel`].
#[derive(Clone, Debug)]
pub struct Module {
    parsed: Arc<Parsed>,
}

impl Module {
    /// Reads PTX (ISA 6 to 9, 64-bit addresses).
    ///
    /// # Errors
    /// If the text is not PTX.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let source = SourceText::new(text.trim_end_matches('\0'));
        let ast = parser::parse(&source)?;
        Ok(Self { parsed: Arc::new(Parsed { source, ast }) })
    }

    /// `.version`, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.parsed.ast.version
    }

    /// `.target`, as `sm_90a`.
    pub fn target(&self) -> &str {
        &self.parsed.ast.target
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.parsed.source.text
    }

    pub(crate) fn ast(&self) -> &Ast {
        &self.parsed.ast
    }

    pub(crate) fn source(&self) -> &SourceText {
        &self.parsed.source
    }
}

/// A kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Bytes from the beginning of the parameters.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its alignment.
    pub align: u32,
}

/// A kernel's declaration.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its (mangled) name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// `.maxntid`, the most threads of a block by dimension.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`, the only size of a block.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// `.reqnctapercluster`, the size of a cluster that the kernel was compiled for.
    pub required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
    /// ISA version as CUDA counts it, 88 for 8.8.
    pub ptx_version: u32,
    /// Compute capability as CUDA counts it, 90 for sm_90a.
    pub binary_version: u32,
    pub(crate) function: u32,
}

impl Entry {
    /// Bytes of all parameters.
    pub fn param_bytes(&self) -> u32 {
        self.params.last().map_or(0, |p| p.offset + p.size)
    }
}

/// Where a device variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalSpace {
    /// `.global`
    Global,
    /// `.const`
    Const,
    /// `.global .attribute(.managed)`
    Managed,
}

/// A place in initial bytes that gets an address once addresses are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the variable.
    pub offset: u64,
    /// Bytes that are written: 8, or 1 of them if the source masks one.
    pub size: u32,
    /// What is written.
    pub target: Target,
    /// Added to the target's address.
    pub addend: i64,
    /// By how many bits the address is shifted to the right before it is written, if the source masks a byte.
    pub shift: u32,
}

/// What a relocation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A variable, by its index in [`Image::globals`].
    Global(usize),
    /// A fixed value (pointers to functions).
    Value(u64),
}

/// A device variable. The caller gives it memory and an address.
#[derive(Clone, Debug)]
pub struct Global {
    /// Its (mangled) name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Alignment.
    pub align: u64,
    /// Where it lives.
    pub space: GlobalSpace,
    /// Whether other modules and the host can ask for it.
    pub visible: bool,
    /// Initial bytes, `size` of them; empty if all are zero.
    pub bytes: Vec<u8>,
    /// The addresses that its initial bytes contain.
    pub relocations: Vec<Relocation>,
}

impl Global {
    /// The initial bytes for these addresses of all variables.
    pub fn initial(&self, addresses: &[u64]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(self.size as usize, 0);
        for relocation in &self.relocations {
            let base = match relocation.target {
                Target::Global(index) => addresses.get(index).copied().unwrap_or(0),
                Target::Value(value) => value,
            };
            let value = (base.wrapping_add(relocation.addend as u64) >> relocation.shift).to_le_bytes();
            let at = relocation.offset as usize;
            let end = (at + relocation.size as usize).min(bytes.len());
            if at < end {
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
        }
        bytes
    }
}

/// Names that cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A name that is used but not defined anywhere.
    #[error("undefined symbol {0}")]
    Undefined(String),
    /// A name defined twice.
    #[error("symbol {0} is defined by more than one module")]
    Duplicate(String),
    /// A value that does not fit what is being initialized.
    #[error("the initial value of {0} does not fit it")]
    Initial(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Variable(u32),
    /// Module and index in it.
    Shared(u32, u32),
    Local(u32, u32),
    Function(u32),
}

#[derive(Debug)]
pub(crate) struct FunctionItem {
    pub(crate) name: String,
    pub(crate) module: u32,
    pub(crate) index: u32,
    pub(crate) body: bool,
    pub(crate) entry: bool,
}

/// Modules linked with each other: what `cuModuleLoad` loads.
#[derive(Debug)]
pub struct Image {
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<FunctionItem>,
    globals: Vec<Global>,
    entries: Vec<Entry>,
    names: Vec<HashMap<String, Item>>,
    shared_names: HashMap<String, Item>,
    statics: HashMap<(u32, Span), u32>,
    taken: Vec<u32>,
    pub(crate) hash: u128,
}

impl Image {
    /// Links modules; one is enough.
    ///
    /// # Errors
    /// If a name has no definition, or two.
    pub fn link(modules: &[Module]) -> Result<Self, LinkError> {
        let mut image = Self {
            modules: modules.to_vec(),
            functions: Vec::new(),
            globals: Vec::new(),
            entries: Vec::new(),
            names: vec![HashMap::new(); modules.len()],
            shared_names: HashMap::new(),
            statics: HashMap::new(),
            taken: Vec::new(),
            hash: 0,
        };
        let mut hasher = xxhash_rust::xxh64::Xxh64::new(1);
        let mut second = xxhash_rust::xxh64::Xxh64::new(2);
        for module in modules {
            hasher.update(module.text().as_bytes());
            second.update(module.text().as_bytes());
            second.update(b"\0");
        }
        image.hash = u128::from(hasher.digest()) << 64 | u128::from(second.digest());
        image.collect()?;
        image.initialize()?;
        image.find_taken();
        Ok(image)
    }

    fn collect(&mut self) -> Result<(), LinkError> {
        let modules = self.modules.clone();
        for (at, module) in modules.iter().enumerate() {
            let text = |span| module.source().get(span);
            for (index, variable) in module.ast().variables.iter().enumerate() {
                let name = text(variable.name).to_string();
                let item = match variable.space {
                    Space::Shared => Item::Shared(at as u32, index as u32),
                    Space::Local => Item::Local(at as u32, index as u32),
                    _ if variable.linking.external => continue,
                    _ => match self.add_global(variable, &name)? {
                        Some(item) => item,
                        None => continue,
                    },
                };
                self.define(at, name, item, &variable.linking);
            }
            for (index, function) in module.ast().functions.iter().enumerate() {
                let name = text(function.name).to_string();
                if function.body.is_none() && !is_builtin(&name) {
                    continue;
                }
                let linking = function.linking;
                if let Some(Item::Function(other)) = self.shared_names.get(&name) {
                    let body = self.functions[*other as usize].body;
                    if body && function.body.is_some() && linking.visible && !linking.weak {
                        return Err(LinkError::Duplicate(name));
                    }
                    if body || function.body.is_none() {
                        continue;
                    }
                }
                self.functions.push(FunctionItem {
                    name: name.clone(),
                    module: at as u32,
                    index: index as u32,
                    body: function.body.is_some(),
                    entry: function.entry,
                });
                let item = Item::Function(self.functions.len() as u32 - 1);
                self.define(at, name.clone(), item, &linking);
                if function.entry && function.body.is_some() {
                    let entry = self.entry(module, function, name, self.functions.len() as u32 - 1);
                    self.entries.push(entry);
                }
            }
            for (alias, of) in &module.ast().aliases {
                if let Some(item) = self.names[at].get(text(*of)).copied() {
                    let name = text(*alias).to_string();
                    self.names[at].insert(name.clone(), item);
                    self.shared_names.insert(name, item);
                }
            }
            // Functions declare variables, too.
            for function in &module.ast().functions {
                for statement in function.body.iter().flatten() {
                    if let crate::text::ast::Statement::Variable(variable) = statement
                        && matches!(variable.space, Space::Global | Space::Const)
                    {
                        let name = text(variable.name).to_string();
                        if let Some(Item::Variable(index)) = self.add_global(variable, &name)? {
                            self.statics.insert((at as u32, variable.name), index);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, module: usize, name: String, item: Item, linking: &crate::text::ast::Linking) {
        if linking.visible || linking.weak || linking.common || linking.external {
            self.shared_names.entry(name.clone()).or_insert(item);
        }
        self.names[module].insert(name, item);
    }

    fn add_global(&mut self, variable: &Variable, name: &str) -> Result<Option<Item>, LinkError> {
        let linking = variable.linking;
        if let Some(item @ Item::Variable(_)) = self.shared_names.get(name)
            && (linking.visible || linking.weak || linking.common)
        {
            if linking.visible {
                return Err(LinkError::Duplicate(name.to_string()));
            }
            return Ok(Some(*item));
        }
        let space = match variable.space {
            Space::Const => GlobalSpace::Const,
            _ if variable.managed => GlobalSpace::Managed,
            _ => GlobalSpace::Global,
        };
        self.globals.push(Global {
            name: name.to_string(),
            size: variable.bytes(),
            align: variable.align,
            space,
            visible: linking.visible || linking.weak || linking.common,
            bytes: Vec::new(),
            relocations: Vec::new(),
        });
        Ok(Some(Item::Variable(self.globals.len() as u32 - 1)))
    }

    fn entry(&self, module: &Module, function: &Function, name: String, index: u32) -> Entry {
        let (offsets, _) = call_layout(&function.prototype.params);
        let params = function.prototype.params.iter().zip(offsets);
        let Performance { maxntid, reqntid, minnctapersm, maxnreg, maxclusterrank, reqnctapercluster, .. } =
            function.performance;
        let digits: String = module.target().chars().filter(char::is_ascii_digit).collect();
        Entry {
            name,
            params: params
                .map(|(p, offset)| Param { offset: offset as u32, size: p.bytes() as u32, align: p.align as u32 })
                .collect(),
            max_threads: maxntid,
            required_threads: reqntid,
            max_registers: maxnreg,
            min_blocks: minnctapersm,
            required_cluster: reqnctapercluster,
            max_cluster_rank: maxclusterrank,
            ptx_version: module.version().0 * 10 + module.version().1,
            binary_version: digits.parse().unwrap_or(0),
            function: index,
        }
    }

    fn initialize(&mut self) -> Result<(), LinkError> {
        let modules = self.modules.clone();
        let mut done = vec![false; self.globals.len()];
        for (at, module) in modules.iter().enumerate() {
            let inner = module.ast().functions.iter().flat_map(|f| f.body.iter().flatten());
            let inner = inner.filter_map(|s| match s {
                crate::text::ast::Statement::Variable(v) => Some(v),
                _ => None,
            });
            for variable in module.ast().variables.iter().chain(inner) {
                if variable.init.is_empty() || !matches!(variable.space, Space::Global | Space::Const) {
                    continue;
                }
                let name = module.source().get(variable.name);
                let index = match self.statics.get(&(at as u32, variable.name)) {
                    Some(index) => *index,
                    None => match self.names[at].get(name) {
                        Some(Item::Variable(index)) => *index,
                        _ => continue,
                    },
                };
                if std::mem::replace(&mut done[index as usize], true) {
                    continue;
                }
                let (bytes, relocations) = self.initial(at, module, variable)?;
                self.globals[index as usize].bytes = bytes;
                self.globals[index as usize].relocations = relocations;
            }
        }
        Ok(())
    }

    fn initial(
        &self,
        at: usize,
        module: &Module,
        variable: &Variable,
    ) -> Result<(Vec<u8>, Vec<Relocation>), LinkError> {
        let name = || module.source().get(variable.name).to_string();
        let width = variable.scalar.bytes() as usize;
        let mut bytes = vec![0; variable.bytes() as usize];
        let mut relocations = Vec::new();
        for (index, value) in variable.init.iter().enumerate() {
            let offset = index * width;
            let Some(place) = bytes.get_mut(offset..offset + width) else { return Err(LinkError::Initial(name())) };
            let bits = match (value, variable.scalar) {
                (Init::Int(value), Scalar::F32) => u64::from((*value as i64 as f32).to_bits()),
                (Init::Int(value), Scalar::F64) => (*value as i64 as f64).to_bits(),
                (Init::Int(value), _) => *value,
                (Init::Double(bits), Scalar::F64 | Scalar::B64) => *bits,
                (Init::Double(bits), Scalar::F32 | Scalar::B32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                (Init::Single(bits), Scalar::F32 | Scalar::B32) => u64::from(*bits),
                (Init::Single(bits), Scalar::F64) => f64::from(f32::from_bits(*bits)).to_bits(),
                (Init::Symbol { name, addend, mask }, _) => {
                    let text = module.source().get(*name);
                    let target = match self.find(at as u32, text) {
                        Some(Item::Variable(index)) => Target::Global(index as usize),
                        Some(Item::Function(index)) => Target::Value(FUNCTION_HANDLE + u64::from(index) * 16),
                        _ => return Err(LinkError::Undefined(text.to_string())),
                    };
                    let shift = mask.map_or(0, |mask| mask.trailing_zeros() & 63);
                    relocations.push(Relocation {
                        offset: offset as u64,
                        size: width as u32,
                        target,
                        addend: *addend,
                        shift,
                    });
                    0
                }
                _ => return Err(LinkError::Initial(name())),
            };
            let bits = bits.to_le_bytes();
            let length = width.min(8);
            place[..length].copy_from_slice(&bits[..length]);
        }
        Ok((bytes, relocations))
    }

    /// Functions whose addresses are taken: by an instruction or by a variable.
    fn find_taken(&mut self) {
        let mut taken: Vec<u32> = Vec::new();
        for global in &self.globals {
            for relocation in &global.relocations {
                if let Target::Value(value) = relocation.target {
                    taken.push(((value - FUNCTION_HANDLE) / 16) as u32);
                }
            }
        }
        for (at, module) in self.modules.iter().enumerate() {
            for function in &module.ast().functions {
                for statement in function.body.iter().flatten() {
                    let crate::text::ast::Statement::Instruction(instruction) = statement else { continue };
                    if !module.source().get(instruction.opcode).starts_with("mov") {
                        continue;
                    }
                    if let Some(crate::text::ast::Operand::Name(name)) = instruction.operands.get(1)
                        && let Some(Item::Function(index)) = self.find(at as u32, module.source().get(*name))
                    {
                        taken.push(index);
                    }
                }
            }
        }
        taken.sort_unstable();
        taken.dedup();
        self.taken = taken;
    }

    /// Functions that a pointer with this prototype can mean.
    pub(crate) fn address_taken(&self, prototype: &Prototype) -> Vec<u32> {
        let sizes = |list: &[Variable]| list.iter().map(Variable::bytes).collect::<Vec<_>>();
        let matches = |index: &u32| {
            let item = &self.functions[*index as usize];
            let function = &self.modules[item.module as usize].ast().functions[item.index as usize];
            item.body
                && !item.entry
                && sizes(&function.prototype.params) == sizes(&prototype.params)
                && sizes(&function.prototype.returns) == sizes(&prototype.returns)
        };
        self.taken.iter().copied().filter(matches).collect()
    }

    pub(crate) fn find(&self, module: u32, name: &str) -> Option<Item> {
        let own = self.names[module as usize].get(name).copied();
        match own {
            // A declaration of shared memory or of a builtin yields to a definition elsewhere.
            Some(Item::Function(index)) if !self.functions[index as usize].body => {
                self.shared_names.get(name).copied().or(own)
            }
            Some(item) => Some(item),
            None => self.shared_names.get(name).copied(),
        }
    }

    pub(crate) fn static_variable(&self, module: u32, name: Span) -> Option<u32> {
        self.statics.get(&(module, name)).copied()
    }

    /// Device variables, in the order in which [`crate::Launch::globals`] wants their addresses.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// The index of a variable that the host can ask for.
    pub fn global(&self, name: &str) -> Option<usize> {
        self.globals.iter().position(|g| g.name == name && g.visible)
    }

    /// The kernels, as declared.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The kernel of this name, as declared.
    pub fn entry_named(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The kernel that device code's pointer refers to.
    pub fn kernel_at(&self, pointer: u64) -> Option<&Entry> {
        let index = pointer.checked_sub(FUNCTION_HANDLE)? / 16;
        self.entries.iter().find(|entry| u64::from(entry.function) == index)
    }

    /// The file that a `.loc` of this module names.
    pub(crate) fn file(&self, module: u32, index: u32) -> Option<&str> {
        let files = &self.modules[module as usize].ast().files;
        files.iter().find(|(number, _)| *number == index).map(|(_, name)| name.as_str())
    }
}
