//! A kernel from its checked program to executable code, and the in-memory cache of compiled code; the one on disk is in
//! `store`.

mod code;
mod staged;
pub(crate) mod store;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context as Compiler, control::ControlPlane, isa::OwnedTargetIsa};
use parking_lot::Mutex;

use crate::analysis::Flow;
use crate::analysis::shape::Shapes;
use crate::analysis::synchronization::{Point, points};
use crate::decode;
use crate::host::memory_ops::AddressSpace;
use crate::host::mistake::{Checks, Spot};
use crate::interpret::Interpreter;
use crate::ir::read::read;
use crate::ir::{Inst, Op, Program};
use crate::lower;
use crate::pass::{self, Stage};
use crate::runtime::helper::{self, Helper};
use crate::runtime::sync::SyncOp;
use crate::text::error::{ParseError, Refusal};
use crate::text::image::{Entry, Image};
use crate::text::print;

pub(crate) use code::Code;
pub use staged::StagedProgram;
use store::Key;

/// How a kernel is executed.
#[derive(Debug)]
pub(crate) enum Execution {
    Compiled(Code),
    Interpreted(Interpreter),
}

#[derive(Clone, Debug)]
pub(crate) struct SourcePlace {
    pub(crate) line: u32,
    module: u32,
    span: crate::text::error::Span,
    source: Option<(String, u32)>,
    caller: Option<(String, u32)>,
}

/// A kernel that can be launched.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) entry: Entry,
    pub(crate) checks: Checks,
    pub(crate) program: Program,
    pub(crate) execution: Execution,
    pub(crate) syncs: Vec<Point>,
    pub(crate) home_bytes: u32,
    pub(crate) helpers: Vec<usize>,
    pub(crate) places: Vec<SourcePlace>,
    modules: Vec<crate::text::image::Module>,
    compile_time: std::time::Duration,
    code_bytes: usize,
}

/// The answers to `cuFuncGetAttributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// An estimate of the registers that a GPU's compiler would use for a thread.
    pub registers: u32,
    /// Bytes of shared memory, not counting what a launch adds.
    pub shared_bytes: u64,
    /// Bytes of each thread's local memory.
    pub local_bytes: u64,
    /// Bytes of `.const` variables of the image.
    pub const_bytes: u64,
    /// The most threads of a block.
    pub max_threads: u32,
}

/// From this many operations on, a program's code keeps its order. The code generator would sort the operations of a long
/// unrolled loop by their results, one chain after the other, which costs more work than it saves.
const LONG: usize = 1000;

fn is_long(program: &Program) -> bool {
    program.blocks.iter().map(|block| block.insts.len()).sum::<usize>() > LONG
}

/// The code generator's target and settings, for a long program or for others.
fn isa(is_long: bool) -> Result<OwnedTargetIsa, String> {
    static ISA: [OnceLock<Result<OwnedTargetIsa, String>>; 2] = [const { OnceLock::new() }; 2];
    let make = || {
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", if is_long { "none" } else { "speed" }),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
            ("is_pic", "false"),
            ("enable_probestack", "false"),
            ("unwind_info", "false"),
        ] {
            flags.set(name, value).map_err(|error| error.to_string())?;
        }
        let builder = cranelift_native::builder()?;
        builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    };
    ISA[usize::from(is_long)].get_or_init(make).clone()
}

/// The processor that code is for, with all settings of the code generator.
fn processor(isa: &OwnedTargetIsa) -> String {
    let of_processor: Vec<String> = isa.isa_flags().iter().map(ToString::to_string).collect();
    format!("{} {} {}", isa.triple(), of_processor.join(" "), isa.flags())
}

/// What the code generator made of a program.
pub(crate) struct Generated {
    pub(crate) bytes: Vec<u8>,
    /// Its input and its output as text, if they were wanted.
    pub(crate) function: String,
    pub(crate) assembly: String,
}

/// Code for a program, on request with its text.
pub(crate) fn generate(
    program: &Program,
    flow: &Flow,
    points: &[Point],
    shapes: Option<&Shapes>,
    checks: Checks,
    with_text: bool,
) -> Result<Generated, String> {
    let isa = isa(is_long(program))?;
    let function = lower::lower(program, flow, points, shapes, checks, &*isa);
    let text = if with_text { function.display().to_string() } else { String::new() };
    let mut compiler = Compiler::for_function(function);
    compiler.set_disasm(with_text);
    let compiled =
        compiler.compile(&*isa, &mut ControlPlane::default()).map_err(|error| format!("{:?}", error.inner))?;
    if let Some(relocation) = compiled.buffer.relocs().first() {
        return Err(format!("a call outside the table of helpers: {:?}", relocation.target));
    }
    let assembly = compiled.vcode.clone().unwrap_or_default();
    Ok(Generated { bytes: compiled.code_buffer().to_vec(), function: text, assembly })
}

/// Kernels by the image's text, their name, and their checks.
type Cache = Mutex<HashMap<(u128, String, Checks), Arc<Kernel>>>;

fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::default)
}

/// Why a kernel cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// There is no kernel of this name.
    #[error("the image has no kernel {0}")]
    Unknown(String),
    /// It has an instruction that is not executed here, or is not valid.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The text of a program cannot be read.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// The code generator failed: a defect here.
    #[error("no code for {kernel}: {message}")]
    Code {
        /// The kernel.
        kernel: String,
        /// The code generator's message.
        message: String,
    },
}

/// What was made of a program on its way to a kernel.
struct Made {
    program: Program,
    flow: Flow,
    syncs: Vec<Point>,
    execution: Execution,
    checks: Checks,
    code_bytes: usize,
}

impl Image {
    /// Checks and compiles a kernel; the same text and name give the same kernel again.
    ///
    /// # Errors
    /// If the kernel, or a function that it reaches, has an instruction that is refused.
    pub fn kernel(&self, name: &str) -> Result<Arc<Kernel>, KernelError> {
        self.kernel_with(name, Checks::default())
    }

    /// The same, with code that also looks for mistakes.
    ///
    /// # Errors
    /// As [`Image::kernel`].
    pub fn kernel_with(&self, name: &str, checks: Checks) -> Result<Arc<Kernel>, KernelError> {
        let key = (self.hash, name.to_string(), checks);
        if let Some(kernel) = cache().lock().get(&key) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(self.compile(name, checks)?);
        cache().lock().insert(key, Arc::clone(&kernel));
        Ok(kernel)
    }

    /// Checks a kernel without compiling it.
    ///
    /// # Errors
    /// As [`Image::kernel`].
    pub fn check(&self, name: &str) -> Result<(), KernelError> {
        let entry = self.entry_named(name).ok_or_else(|| KernelError::Unknown(name.to_string()))?;
        decode::decode(self, entry.function).map_err(Box::new)?;
        Ok(())
    }

    /// A kernel at a stage, as text.
    ///
    /// # Errors
    /// As [`Image::kernel`].
    pub fn emit(&self, name: &str, stage: Stage) -> Result<String, KernelError> {
        let entry = self.entry_named(name).ok_or_else(|| KernelError::Unknown(name.to_string()))?;
        if stage == Stage::Parsed {
            let item = &self.functions[entry.function as usize];
            let module = &self.modules[item.module as usize];
            return Ok(print::function(&module.ast().functions[item.index as usize], module.source()));
        }
        StagedProgram::decoded(name, decode::decode(self, entry.function).map_err(Box::new)?).emit(stage)
    }

    fn compile(&self, name: &str, checks: Checks) -> Result<Kernel, KernelError> {
        let started = std::time::Instant::now();
        let entry = self.entry_named(name).ok_or_else(|| KernelError::Unknown(name.to_string()))?;
        let (mut program, owners) = decode::decode(self, entry.function).map_err(Box::new)?;
        pass::transform(&mut program, Stage::Decoded, Stage::Machine);
        // Checks look at one lane at a time, so there is no body for four.
        let (shapes, flow) = pass::analyze(&program, &owners, !checks.any());
        let syncs = points(&program, &flow);
        let failed = |message: String| KernelError::Code { kernel: name.to_string(), message };
        let isa = isa(is_long(&program)).map_err(failed)?;
        let key = Key::new(self.hash, name, checks, &processor(&isa));
        let bytes = match store::load(key) {
            Some(bytes) => bytes,
            None => {
                let code = generate(&program, &flow, &syncs, shapes.as_ref(), checks, false).map_err(failed)?;
                store::save(key, &code.bytes);
                code.bytes
            }
        };
        let code = Code::new(&bytes).map_err(|error| failed(error.to_string()))?;
        let made = Made { program, flow, syncs, execution: Execution::Compiled(code), checks, code_bytes: bytes.len() };
        Ok(self.finished(entry, made, started))
    }

    /// A kernel that is executed operation by operation, one thread after the other: slow, and plain enough to be obviously right.
    /// Compiled code must have the same results.
    ///
    /// # Errors
    /// As [`Image::kernel`].
    pub fn interpreted(&self, name: &str) -> Result<Kernel, KernelError> {
        // The order of sums changes no result: compiled code has to prove that.
        self.interpreted_text(name, &self.emit(name, Stage::Yields)?)
    }

    /// The same with a program from its text, as [`Image::emit`] prints it at any stage that is a program.
    ///
    /// # Errors
    /// If there is no kernel of this name, or the text is not a program.
    pub fn interpreted_text(&self, name: &str, text: &str) -> Result<Kernel, KernelError> {
        let started = std::time::Instant::now();
        let entry = self.entry_named(name).ok_or_else(|| KernelError::Unknown(name.to_string()))?;
        let (program, owners) = read(text, 0)?;
        let (_, mut flow) = pass::analyze(&program, &owners, false);
        let execution = Execution::Interpreted(Interpreter::new(&program, &mut flow));
        let syncs = points(&program, &flow);
        let made = Made { program, flow, syncs, execution, checks: Checks::default(), code_bytes: 0 };
        Ok(self.finished(entry, made, started))
    }

    fn finished(&self, entry: &Entry, made: Made, started: std::time::Instant) -> Kernel {
        let Made { program, flow, syncs, execution, checks, code_bytes } = made;
        let places = program
            .sites
            .iter()
            .map(|site| {
                let named = |(file, line): (u32, u32)| Some((self.file(site.module, file)?.to_string(), line));
                SourcePlace {
                    line: site.place.line,
                    module: site.module,
                    span: site.span,
                    source: site.origin.and_then(|origin| named((origin.file, origin.line))),
                    caller: site.origin.and_then(|origin| origin.caller).and_then(named),
                }
            })
            .collect();
        Kernel {
            entry: entry.clone(),
            checks,
            home_bytes: flow.home_bytes.next_multiple_of(16),
            program,
            execution,
            syncs,
            helpers: helper::table(),
            places,
            modules: self.modules.clone(),
            compile_time: started.elapsed(),
            code_bytes,
        }
    }
}

impl Kernel {
    /// The kernel's declaration.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Its program as text, as [`Image::emit`] prints it.
    pub fn text(&self) -> String {
        self.program.to_string()
    }

    /// Attributes that are known without running it.
    pub fn attributes(&self, image: &Image) -> Attributes {
        let widest = self.program.regs.len() as u32;
        let max = self.entry.required_threads.or(self.entry.max_threads);
        let constants = image.globals().iter().filter(|g| g.space == crate::text::image::GlobalSpace::Const);
        Attributes {
            registers: self
                .entry
                .max_registers
                .unwrap_or(255)
                .min((widest / 4).clamp(16, 255))
                .next_multiple_of(8)
                .min(255),
            shared_bytes: self.program.static_shared,
            local_bytes: self.program.local,
            const_bytes: constants.map(|g| g.size).sum(),
            max_threads: max.map_or(1024, |sizes| sizes.iter().product::<u32>().min(1024)),
        }
    }

    /// Whether a thread may wait in a loop for memory that others write. Without such a loop a launch ends by itself.
    pub fn may_wait(&self) -> bool {
        self.program.syncs.iter().any(|sync| sync.op == SyncOp::Yield)
    }

    /// Whether it launches kernels or copies; they begin when it has ended.
    pub fn launches(&self) -> bool {
        let launch = |inst: &Inst| matches!(inst.op, Op::System(Helper::ChildLaunch | Helper::ChildCopy, _));
        self.program.blocks.iter().flat_map(|block| &block.insts).any(launch)
    }

    /// Operations in its code, each counted once: the same on every machine.
    pub fn operations(&self) -> u64 {
        self.program.blocks.iter().map(|block| block.insts.len() as u64 + 1).sum()
    }

    /// How long checking and compiling took.
    pub fn compile_time(&self) -> std::time::Duration {
        self.compile_time
    }

    /// Bytes of code for this processor.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// The instruction at a site.
    pub(crate) fn spot(&self, site: u32) -> Spot {
        let Some(place) = self.places.get(site as usize) else { return Spot::default() };
        let ptx = self.modules[place.module as usize].source().one_line(place.span);
        Spot { line: place.line, ptx, source: place.source.clone(), caller: place.caller.clone() }
    }

    /// Logarithm of the fewest bytes that any instruction accesses in shared memory. Each accesses a multiple of that, aligned to
    /// it.
    pub(crate) fn finest(&self) -> u32 {
        let accesses = self.program.blocks.iter().flat_map(|block| &block.insts).filter_map(|inst| match &inst.op {
            Op::Load(memory) => Some((memory, inst.dst.len())),
            Op::Store(memory) => Some((memory, inst.src.len() - 1)),
            _ => None,
        });
        let accesses = accesses
            .filter(|(memory, _)| matches!(memory.space, AddressSpace::Shared | AddressSpace::Generic))
            .map(|(memory, count)| memory.scalar.bytes() * count as u32);
        let atomics = self.program.blocks.iter().flat_map(|block| &block.insts).filter_map(|inst| match inst.op {
            Op::System(Helper::Atomic, _) => Some(2),
            Op::System(Helper::CopyTensor | Helper::Vprintf | Helper::AssertFail, _) => Some(1),
            _ => None,
        });
        let fragments = self.program.syncs.iter().filter_map(|sync| match sync.op {
            SyncOp::LoadFragment(fragment, _) | SyncOp::StoreFragment(fragment, _) => Some(fragment.scalar.bytes()),
            _ => None,
        });
        let finest = accesses.chain(atomics).chain(fragments).min().unwrap_or(4);
        // With more at once, two threads that write halves of a word would look like a race.
        finest.clamp(1, 16).trailing_zeros()
    }
}
