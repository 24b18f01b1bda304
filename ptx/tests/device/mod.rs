//! What the tests run kernels on: memory from vectors, a host that keeps what it is given.
#![expect(unsafe_code, reason = "device memory is the process's own")]

use std::ops::Range;
use std::sync::Mutex;

use ptx::{
    Assertion, Checks, Footprint, Host, Image, Launch, LaunchError, Memory, Mistake, Module, Multicast, Stage, Stats,
    Texels, Texture, Trap, Unwritten,
};

#[derive(Default)]
pub(crate) struct Device {
    buffers: Vec<Vec<u128>>,
    sizes: Vec<usize>,
    shared: Vec<Range<u64>>,
    pub(crate) printed: Mutex<Vec<u8>>,
    pub(crate) assertions: Mutex<Vec<Assertion>>,
    heap: Mutex<Vec<(Vec<u128>, usize)>>,
    pub(crate) checks: Checks,
    pub(crate) unwritten: Option<Unwritten>,
    pub(crate) footprint: Option<Footprint>,
    pub(crate) mistakes: Mutex<Vec<Mistake>>,
    /// Texture and surface objects; handles are their numbers, from [`FIRST_HANDLE`] on.
    pub(crate) textures: Vec<Texture>,
    /// What the addresses from [`MULTICAST`] on are at each device.
    pub(crate) multicast: Vec<u64>,
    /// Results depend on the order of threads, on time or on addresses: they are not compared with the interpreter's.
    pub(crate) only_compiled: bool,
}

pub(crate) const FIRST_HANDLE: u64 = 1000;

pub(crate) const MULTICAST: u64 = 0x5000_0000_0000;

impl Memory for Device {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        let heap = self.heap.lock().unwrap();
        let all = self.buffers.iter().zip(&self.sizes).chain(heap.iter().map(|(b, s)| (b, s)));
        all.map(|(buffer, size)| buffer.as_ptr() as u64..buffer.as_ptr() as u64 + *size as u64)
            .chain(self.shared.iter().cloned())
            .find(|r| r.contains(&address))
    }

    fn multicast(&self, address: u64) -> Option<Multicast> {
        let range = MULTICAST..MULTICAST + 4096;
        let copies = self.multicast.clone();
        (!copies.is_empty() && range.contains(&address)).then_some(Multicast { range, copies })
    }

    fn texture(&self, handle: u64) -> Option<Texture> {
        self.textures.get(usize::try_from(handle.checked_sub(FIRST_HANDLE)?).ok()?).copied()
    }

    fn surface(&self, handle: u64) -> Option<Texels> {
        self.texture(handle).map(|texture| texture.texels)
    }
}

impl Host for Device {
    fn print(&self, text: &[u8]) {
        self.printed.lock().unwrap().extend_from_slice(text);
    }

    fn assertion(&self, assertion: &Assertion) {
        self.assertions.lock().unwrap().push(assertion.clone());
    }

    fn malloc(&self, bytes: u64) -> u64 {
        let buffer = vec![0u128; (bytes as usize).div_ceil(16).max(1)];
        let address = buffer.as_ptr() as u64;
        self.heap.lock().unwrap().push((buffer, bytes as usize));
        address
    }

    fn mistake(&self, mistake: &Mistake) {
        self.mistakes.lock().unwrap().push(mistake.clone());
    }

    fn free(&self, address: u64) {
        let heap = self.heap.lock().unwrap();
        assert!(heap.iter().any(|(buffer, _)| buffer.as_ptr() as u64 == address), "free of what malloc did not give");
    }
}

impl Device {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn watched(checks: Checks) -> Self {
        Self { checks, ..Self::default() }
    }

    pub(crate) fn alloc(&mut self, bytes: usize) -> u64 {
        self.buffers.push(vec![0; bytes.div_ceil(16).max(1)]);
        self.sizes.push(bytes);
        self.buffers[self.buffers.len() - 1].as_ptr() as u64
    }

    pub(crate) fn put<T: Copy>(&mut self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let address = self.alloc(bytes);
        // SAFETY: as many bytes as were allocated.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), address as *mut u8, bytes) };
        address
    }

    pub(crate) fn get<T: Copy>(&self, address: u64, count: usize) -> Vec<T> {
        assert!(self.range(address).is_some_and(|r| r.end - address >= (count * size_of::<T>()) as u64));
        // SAFETY: inside a buffer, as just checked; every T of the tests is a number.
        unsafe { std::slice::from_raw_parts(address as *const T, count) }.to_vec()
    }

    /// Lets kernels reach the memory of another device as well, which outlives this one.
    pub(crate) fn share(&mut self, other: &Self) {
        self.shared.extend(other.buffers.iter().zip(&other.sizes).map(|(buffer, size)| {
            let start = buffer.as_ptr() as u64;
            start..start + *size as u64
        }));
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.printed.lock().unwrap().clone()).unwrap()
    }

    /// Memory for the image's variables, filled.
    pub(crate) fn globals(&mut self, image: &Image) -> Vec<u64> {
        let addresses: Vec<u64> = image.globals().iter().map(|g| self.alloc(g.size as usize)).collect();
        for (global, address) in image.globals().iter().zip(&addresses) {
            let bytes = global.initial(&addresses);
            // SAFETY: the variable has this many bytes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
        }
        addresses
    }

    pub(crate) fn run(
        &mut self,
        image: &Image,
        name: &str,
        grid: u32,
        block: u32,
        params: &[u64],
    ) -> Result<Stats, LaunchError> {
        self.launch(image, name, [grid, 1, 1], [block, 1, 1], &words(params), |_| {})
    }

    pub(crate) fn launch(
        &mut self,
        image: &Image,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: &[u8],
        change: impl FnOnce(&mut Launch<'_>),
    ) -> Result<Stats, LaunchError> {
        let kernel = image.kernel_with(name, self.checks).unwrap_or_else(|error| panic!("{error}"));
        let globals = self.globals(image);
        let this = &*self;
        let mut launch = Launch {
            grid,
            block,
            cluster: [1; 3],
            dynamic_shared: 0,
            params,
            globals: &globals,
            cooperative: false,
            stack: 1 << 14,
            threads: 2,
            multiprocessors: 4,
            grid_id: 1,
            workspace: 0,
            memory: this,
            host: this,
            unwritten: this.unwritten.as_ref(),
            footprint: this.footprint.as_ref(),
            cancel: None,
        };
        change(&mut launch);
        let interpreted = (!self.only_compiled && !self.checks.any()).then(|| self.interpret(image, name, &launch));
        let result = kernel.launch(&launch);
        if let Some(interpreted) = interpreted {
            interpreted.compare(self, name, &result);
        }
        result
    }

    fn contents(&self) -> Vec<Vec<u128>> {
        let heap = self.heap.lock().unwrap();
        self.buffers.iter().chain(heap.iter().map(|(buffer, _)| buffer)).cloned().collect()
    }

    /// What a launch leaves behind under the interpreter. Memory is as before then.
    fn interpret(&self, image: &Image, name: &str, launch: &Launch<'_>) -> Interpreted {
        let text = image.emit(name, Stage::Yields).unwrap_or_else(|error| panic!("{error}"));
        let kernel = image.interpreted_text(name, &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kernel.text(), text, "read, and printed again");
        let before = self.contents();
        let printed = self.printed.lock().unwrap().clone();
        let result = kernel.launch(&Launch { footprint: None, threads: 1, ..*launch });
        let outcome = Interpreted { result, memory: self.contents(), printed: self.printed.lock().unwrap().clone() };
        *self.printed.lock().unwrap() = printed;
        self.assertions.lock().unwrap().clear();
        let mut heap = self.heap.lock().unwrap();
        heap.truncate(before.len() - self.buffers.len());
        let buffers = self.buffers.iter().chain(heap.iter().map(|(buffer, _)| buffer));
        for (buffer, before) in buffers.zip(&before) {
            // SAFETY: as long as before, and no kernel runs.
            unsafe { std::ptr::copy_nonoverlapping(before.as_ptr(), buffer.as_ptr().cast_mut(), before.len()) };
        }
        outcome
    }
}

/// The outcome of a launch under the interpreter.
struct Interpreted {
    result: Result<Stats, LaunchError>,
    memory: Vec<Vec<u128>>,
    printed: Vec<u8>,
}

impl Interpreted {
    /// Compiled code does the same, bit for bit. Of launches that stop, the reason is compared: how far other threads have come by
    /// then is not defined.
    fn compare(&self, device: &Device, name: &str, compiled: &Result<Stats, LaunchError>) {
        let reason = |result: &Result<Stats, LaunchError>| match result {
            Ok(_) => "it ends".to_string(),
            Err(LaunchError::Trap(trap)) => format!("{:?}", trap.kind),
            Err(error) => error.to_string(),
        };
        assert_eq!(reason(compiled), reason(&self.result), "{name}: compiled, and interpreted");
        if self.result.is_err() {
            return;
        }
        for (number, (compiled, interpreted)) in device.contents().iter().zip(&self.memory).enumerate() {
            let differs = compiled.iter().zip(interpreted).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let [compiled, interpreted] = [compiled[at], interpreted[at]];
                panic!(
                    "{name}: buffer {number} at {}: {compiled:032x} compiled, {interpreted:032x} interpreted",
                    at * 16
                );
            }
        }
        let text = |bytes: &[u8]| {
            let mut lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(
            text(&device.printed.lock().unwrap()),
            text(&self.printed),
            "{name}: printed by compiled code, and interpreted"
        );
    }
}

pub(crate) fn words(params: &[u64]) -> Vec<u8> {
    params.iter().flat_map(|p| p.to_le_bytes()).collect()
}

pub(crate) fn image(text: &str) -> Image {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    Image::link(&[module]).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn trap(result: Result<Stats, LaunchError>) -> Trap {
    match result {
        Err(LaunchError::Trap(trap)) => *trap,
        other => panic!("a trap was expected, got {other:?}"),
    }
}
