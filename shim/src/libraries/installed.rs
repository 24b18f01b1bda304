//! NVIDIA's compilers (NVRTC, nvJitLink) and cuRAND as installed beside the program. They run on the CPU, so they do the work
//! themselves; our versions of their functions, which every program finds first, forward the call.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use abi::library::Library;
use dataplane::lock::Mutex;

use super::objects::{Answer, Code};
use crate::boundary::gap;
use crate::device::state::version;

/// Files that the program opened by path, for which it got our functions instead.
static ASKED_FOR: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Remembers the path of a library that the program opens, if it is one that is used here.
pub(crate) fn asked_for(path: &CStr) {
    ASKED_FOR.lock().insert(PathBuf::from(OsStr::from_bytes(path.to_bytes())));
}

/// One of NVIDIA's libraries; searched for at the first call.
pub(super) struct Installed {
    library: Library,
    found: OnceLock<Option<usize>>,
}

impl Installed {
    pub(super) const fn new(library: Library) -> Self {
        Self { library, found: OnceLock::new() }
    }

    /// The address of its function with this name.
    pub(super) fn address(&self, name: &str) -> Option<usize> {
        let handle = (*self.found.get_or_init(|| find(self.library)))?;
        let name = CString::new(name).ok()?;
        // SAFETY: a handle that is never closed, and a C text.
        let symbol = unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol as usize)
    }

    /// Its function with this name, with up to six integers and pointers as arguments.
    fn function(&self, name: &str) -> Option<extern "C" fn(usize, usize, usize, usize, usize, usize) -> c_uint> {
        // SAFETY: all functions that are called so take at most six integers or pointers, which the ABI passes in registers that
        // a function with fewer does not look at.
        self.address(name).map(|address| unsafe { transmute(address) })
    }

    /// Whether there is one.
    pub(super) fn is_there(&self) -> bool {
        self.found.get_or_init(|| find(self.library)).is_some()
    }

    /// That it is not installed, and the package to install for the CUDA that the program uses.
    pub(super) fn missing(&self) -> String {
        missing(self.library, version::is_twelve())
    }

    /// Calls the library, if possible, and returns its result.
    pub(super) fn try_call(&self, name: &str, arguments: &[usize]) -> Option<Answer> {
        let function = self.function(name)?;
        let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
        // It asks the driver for private tables, and goes on without them.
        let _muted = gap::Muted::begin();
        match function(argument(0), argument(1), argument(2), argument(3), argument(4), argument(5)) {
            0 => Some(Ok(())),
            code => Some(Err(Code(code))),
        }
    }

    /// Calls the library. If there is no library, or it lacks the function, that is a gap.
    pub(super) fn call(&self, name: &'static str, arguments: &[usize]) -> Answer {
        self.try_call(name, arguments).unwrap_or_else(|| {
            let why = match self.is_there() {
                true => "the one that is installed has no such function".to_owned(),
                false => self.missing(),
            };
            gap::record(self.library, name, &why);
            Err(Code(self.library.not_supported()))
        })
    }
}

/// Opens the library, if there is one besides our holder of that name.
fn find(library: Library) -> Option<usize> {
    let asked: Vec<PathBuf> = ASKED_FOR.lock().iter().cloned().collect();
    let major = if version::is_twelve() { 12 } else { 13 };
    let loaded = [12, 13].into_iter().filter(|major| version::loads(&soname(library, *major)));
    let mut names: Vec<String> = loaded.map(|major| soname(library, major)).collect();
    if names.is_empty() {
        names.push(soname(library, major));
    }
    let named = |path: &&PathBuf| path.file_name().is_some_and(|file| names.iter().any(|name| **name == *file));
    if let Some(handle) = asked.iter().filter(named).find_map(|path| open(path, library)) {
        return Some(handle);
    }
    let directories = directories();
    names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find_map(|path| path.is_file().then(|| open(&path, library)).flatten())
}

fn missing(library: Library, is_twelve: bool) -> String {
    let package = match library {
        Library::NvJitLink => "nvidia-nvjitlink",
        Library::Curand => "nvidia-curand",
        _ => "nvidia-cuda-nvrtc",
    };
    let version = match (is_twelve, library) {
        (true, _) => "-cu12",
        // It counts its own versions.
        (false, Library::Curand) => "",
        (false, _) => "==13.*",
    };
    format!("it is not installed; the package {package}{version} has it: name it in `python`, or install it")
}

fn soname(library: Library, major: u32) -> String {
    // Its own version, in both.
    let major = if library == Library::Curand { 10 } else { major };
    format!("{}.so.{major}", library.name())
}

/// Opens a file, unless it is a holder: a library through which our own functions are found.
fn open(path: &Path, library: Library) -> Option<usize> {
    let version = match library {
        Library::NvJitLink => c"nvJitLinkVersion",
        Library::Curand => c"curandGetVersion",
        _ => c"nvrtcVersion",
    };
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: C texts. NVIDIA's libraries do nothing when they are loaded.
    unsafe {
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = transmute(loader());
        // What it calls in itself is its own, not ours of the same name, although that comes first.
        let handle = open(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND);
        if handle.is_null() {
            return None;
        }
        let theirs = libc::dlsym(handle, version.as_ptr());
        if theirs.is_null() || is_ours(theirs) {
            libc::dlclose(handle);
            return None;
        }
        Some(handle as usize)
    }
}

/// libc's `dlopen`, because ours redirects to holders.
pub(crate) fn loader() -> *mut c_void {
    static LOADER: OnceLock<usize> = OnceLock::new();
    let find = || {
        // SAFETY: the name of a function. In a process that loaded us late, libc comes before us.
        unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr());
            if next.is_null() { libc::dlsym(libc::RTLD_DEFAULT, c"dlopen".as_ptr()) as usize } else { next as usize }
        }
    };
    *LOADER.get_or_init(find) as *mut c_void
}

/// Whether an address is in this library.
fn is_ours(address: *const c_void) -> bool {
    let base = |address: *const c_void| {
        // SAFETY: plain data, for which zero is a value; any address may be asked for.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            (libc::dladdr(address, &raw mut info) != 0).then_some(info.dli_fbase)
        }
    };
    base(address).is_some() && base(address) == base(is_ours as *const c_void)
}

/// Where the library may be: where the loader would search for the program (run paths, `LD_LIBRARY_PATH`, the system), in
/// the packages beside a loaded Python library, in the CUDA toolkit, and in the packages of the Python on `PATH`.
fn directories() -> Vec<PathBuf> {
    let mut directories = of_the_loader();
    for library in version::loaded() {
        let packages = Path::new(&library)
            .ancestors()
            .find(|above| above.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages"));
        directories.extend(packages.into_iter().flat_map(packaged));
    }
    let toolkit = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    directories.extend(toolkit.chain([PathBuf::from("/usr/local/cuda")]).map(|root| root.join("lib64")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(programs) = std::env::split_paths(&path).find(|directory| directory.join("python3").exists()) {
        let versions = subdirectories(&programs.join("../lib"));
        directories.extend(versions.iter().flat_map(|version| packaged(&version.join("site-packages"))));
    }
    let mut known = BTreeSet::new();
    directories.retain(|directory| known.insert(directory.clone()));
    directories
}

/// Where NVIDIA's packages put their libraries.
fn packaged(packages: &Path) -> Vec<PathBuf> {
    subdirectories(&packages.join("nvidia")).into_iter().map(|package| package.join("lib")).collect()
}

/// Sorted; empty if it cannot be read.
fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// glibc's `RTLD_DI_SERINFO` and `RTLD_DI_SERINFOSIZE`.
const SEARCH: c_int = 4;
const SEARCH_SIZE: c_int = 5;

/// glibc's `Dl_serinfo`, which is followed by its paths.
#[repr(C)]
struct Search {
    size: usize,
    count: c_uint,
    paths: [SearchPath; 0],
}

#[repr(C)]
struct SearchPath {
    name: *const c_char,
    flags: c_uint,
}

fn of_the_loader() -> Vec<PathBuf> {
    // SAFETY: a handle of the program itself; the second call gets as many bytes as the first asked for, aligned for pointers.
    unsafe {
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = transmute(loader());
        let program = open(std::ptr::null(), libc::RTLD_LAZY);
        let mut wanted = Search { size: 0, count: 0, paths: [] };
        if program.is_null() || libc::dlinfo(program, SEARCH_SIZE, (&raw mut wanted).cast()) != 0 {
            return Vec::new();
        }
        let mut buffer = vec![0usize; wanted.size.div_ceil(size_of::<usize>()) + 2];
        let search = buffer.as_mut_ptr().cast::<Search>();
        (*search).size = wanted.size;
        (*search).count = wanted.count;
        if libc::dlinfo(program, SEARCH, search.cast()) != 0 {
            return Vec::new();
        }
        let first = (&raw const (*search).paths).cast::<SearchPath>();
        let path = |index: usize| {
            let name = CStr::from_ptr((*first.add(index)).name);
            PathBuf::from(OsStr::from_bytes(name.to_bytes()))
        };
        (0..wanted.count as usize).map(path).filter(|path| path.is_absolute()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_version() {
        for (library, is_twelve, package) in [
            (Library::Nvrtc, false, "nvidia-cuda-nvrtc==13.*"),
            (Library::Nvrtc, true, "nvidia-cuda-nvrtc-cu12"),
            (Library::NvJitLink, false, "nvidia-nvjitlink==13.*"),
            (Library::Curand, false, "nvidia-curand"),
            (Library::Curand, true, "nvidia-curand-cu12"),
        ] {
            let text = missing(library, is_twelve);
            assert!(text.starts_with(&format!("it is not installed; the package {package} has it")), "{text}");
        }
    }
}
