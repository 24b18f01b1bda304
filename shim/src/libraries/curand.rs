//! libcurand: the installed library generates. Its generators for the host run on the CPU and give the sequences of those for
//! the device, as its documentation says. So a generator is one for the host, whose numbers are then put into device memory.

use std::ffi::{c_int, c_uint};
use std::mem::transmute;

use abi::argument::Out;
use abi::library::Library;
use dataplane::lock::Mutex;

use super::cublas::element::Element;
use super::cublas::job::Job;
use super::cublas::operand::Shape;
use super::installed::Installed;
use super::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use super::release;
use crate::boundary::gap;
use crate::boundary::table::exports;
use crate::device::calls::copy::stream_of;
use crate::device::graph::capture;
use crate::report::finding;

/// CURAND_STATUS_NOT_INITIALIZED and CURAND_STATUS_OUT_OF_RANGE.
const REFUSALS: Refusals = Refusals { handle: 101, value: 104 };
/// CURAND_STATUS_LAUNCH_FAILURE.
const LAUNCH_FAILURE: Code = Code(201);
/// CURAND_ORDERING_PSEUDO_DYNAMIC: an order that depends on the GPU.
const DYNAMIC: c_int = 104;
static GENERATORS: Objects<Generator> = Objects::new(kind::CURAND, REFUSALS);
static INSTALLED: Installed = Installed::new(Library::Curand);

/// A generator.
struct Generator {
    /// The installed library's, which one call at a time uses.
    theirs: Mutex<usize>,
    /// Whether the program asked for one that writes to host memory.
    is_on_host: bool,
    stream: Stream,
}

exports! {
    library Curand;
    real {
        fn curandCreateGenerator(generator: Out<usize>, kind: c_int) = |generator, kind| create(generator, kind, false);
        fn curandCreateGeneratorHost(generator: Out<usize>, kind: c_int) = |generator, kind| create(generator, kind, true);
        fn curandDestroyGenerator(generator: usize) = destroy;
        fn curandSetStream(generator: usize, stream: usize) = |generator, stream| GENERATORS.get(generator).map(|generator| generator.stream.set(stream));
        fn curandSetPseudoRandomGeneratorSeed(generator: usize, seed: u64) = |generator, seed| set(generator, seed as usize);
        fn curandSetGeneratorOffset(generator: usize, offset: u64) = |generator, offset| set(generator, offset as usize);
        fn curandSetGeneratorOrdering(generator: usize, order: c_int) = set_order;
        fn curandSetQuasiRandomGeneratorDimensions(generator: usize, count: c_uint) = |generator, count| set(generator, count as usize);
        fn curandGenerateSeeds(generator: usize) = |generator| set(generator, 0);
        fn curandGenerate(generator: usize, to: usize, count: usize) = |generator, to, count| plain(generator, to, count, Element::I32);
        fn curandGenerateLongLong(generator: usize, to: usize, count: usize) = |generator, to, count| plain(generator, to, count, Element::I64);
        fn curandGenerateUniform(generator: usize, to: usize, count: usize) = |generator, to, count| plain(generator, to, count, Element::F32);
        fn curandGenerateUniformDouble(generator: usize, to: usize, count: usize) = |generator, to, count| plain(generator, to, count, Element::F64);
        fn curandGenerateNormal(generator: usize, to: usize, count: usize, mean: f32, deviation: f32) = normal;
        fn curandGenerateNormalDouble(generator: usize, to: usize, count: usize, mean: f64, deviation: f64) = normal_double;
        fn curandGenerateLogNormal(generator: usize, to: usize, count: usize, mean: f32, deviation: f32) = normal;
        fn curandGenerateLogNormalDouble(generator: usize, to: usize, count: usize, mean: f64, deviation: f64) = normal_double;
        fn curandGeneratePoisson(generator: usize, to: usize, count: usize, lambda: f64) = poisson;
    }
    bare {
        fn curandGetVersion(version: Out<c_int>) = |version| version.set(release::current().curand.thousands()).map_err(REFUSALS.null());
        fn curandGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        curandCreatePoissonDistribution curandDestroyDistribution curandGeneratePoissonMethod
        curandGetDirectionVectors32 curandGetDirectionVectors64 curandGetScrambleConstants32
        curandGetScrambleConstants64
    }
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().curand.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}

/// The call under way is a gap.
fn refuse<T>(why: &str) -> Answer<T> {
    gap::record(Library::Curand, finding::function(), why);
    Err(Code(Library::Curand.not_supported()))
}

fn create(out: Out<usize>, kind: c_int, is_on_host: bool) -> Answer {
    let out = out.required().map_err(REFUSALS.null())?;
    let mut theirs = 0_usize;
    let arguments = [&raw mut theirs as usize, kind as usize];
    match INSTALLED.try_call("curandCreateGeneratorHost", &arguments) {
        None => refuse(&INSTALLED.missing()),
        Some(Err(code)) => Err(code),
        Some(Ok(())) => {
            let generator = Generator { theirs: Mutex::new(theirs), is_on_host, stream: Stream::default() };
            GENERATORS.create(out, generator)
        }
    }
}

fn destroy(handle: usize) -> Answer {
    let generator = GENERATORS.get(handle)?;
    GENERATORS.destroy(handle)?;
    INSTALLED.call("curandDestroyGenerator", &[*generator.theirs.lock()])
}

/// The call under way, which changes a generator, with its second argument.
fn set(handle: usize, value: usize) -> Answer {
    let generator = GENERATORS.get(handle)?;
    let theirs = generator.theirs.lock();
    INSTALLED.call(finding::function(), &[*theirs, value])
}

fn set_order(handle: usize, order: c_int) -> Answer {
    if order == DYNAMIC && !GENERATORS.get(handle)?.is_on_host {
        return refuse("an order that depends on the GPU");
    }
    set(handle, order as usize)
}

/// The call under way, which generates `count` numbers: `call` gets the address of the installed library's function, the
/// generator, and where the numbers go.
fn generate(
    handle: usize,
    to: usize,
    count: usize,
    element: Element,
    call: impl FnOnce(usize, usize, usize) -> c_uint,
) -> Answer {
    let generator = GENERATORS.get(handle)?;
    let name = finding::function();
    let Some(function) = INSTALLED.address(name) else {
        return refuse("the one that is installed has no such function");
    };
    let fill = |buffer: usize| {
        let theirs = generator.theirs.lock();
        // It asks the driver for private tables, and goes on without them.
        let _muted = gap::Muted::begin();
        match call(function, *theirs, buffer) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    };
    if generator.is_on_host {
        return fill(to);
    }
    let stream = generator.stream.get();
    let is_captured =
        capture::for_stream(&*stream_of(stream).map_err(|_| LAUNCH_FAILURE)?).map_err(|_| LAUNCH_FAILURE)?;
    if is_captured.is_some() {
        return refuse("numbers that a graph generates anew each time");
    }
    let Some(bytes) = count.checked_mul(element.size()) else { return REFUSALS.value() };
    // Aligned for each kind of number.
    let mut numbers = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
    fill(numbers.as_mut_ptr() as usize)?;
    let mut job = Job::new(Library::Curand, stream, false);
    job.operand_at(to, element, Shape::Vector { n: count, step: 1 }, false, true);
    job.run(move |_, _| {
        // SAFETY: `run` has checked that so many bytes are there, and they are not those of `numbers`.
        unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr().cast::<u8>(), to as *mut u8, bytes) };
    })
    .map_err(|_| LAUNCH_FAILURE)
}

fn plain(handle: usize, to: usize, count: usize, element: Element) -> Answer {
    generate(handle, to, count, element, |function, theirs, buffer| {
        // SAFETY: a function of the installed library with these arguments; the buffer has room for `count` numbers.
        unsafe { transmute::<usize, extern "C" fn(usize, usize, usize) -> c_uint>(function)(theirs, buffer, count) }
    })
}

fn normal(handle: usize, to: usize, count: usize, mean: f32, deviation: f32) -> Answer {
    generate(handle, to, count, Element::F32, |function, theirs, buffer| {
        type Function = extern "C" fn(usize, usize, usize, f32, f32) -> c_uint;
        // SAFETY: as in `plain`.
        unsafe { transmute::<usize, Function>(function)(theirs, buffer, count, mean, deviation) }
    })
}

fn normal_double(handle: usize, to: usize, count: usize, mean: f64, deviation: f64) -> Answer {
    generate(handle, to, count, Element::F64, |function, theirs, buffer| {
        type Function = extern "C" fn(usize, usize, usize, f64, f64) -> c_uint;
        // SAFETY: as in `plain`.
        unsafe { transmute::<usize, Function>(function)(theirs, buffer, count, mean, deviation) }
    })
}

fn poisson(handle: usize, to: usize, count: usize, lambda: f64) -> Answer {
    generate(handle, to, count, Element::I32, |function, theirs, buffer| {
        type Function = extern "C" fn(usize, usize, usize, f64) -> c_uint;
        // SAFETY: as in `plain`.
        unsafe { transmute::<usize, Function>(function)(theirs, buffer, count, lambda) }
    })
}
