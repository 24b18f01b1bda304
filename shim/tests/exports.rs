//! What the library exports is what its tables say, what the committed lists say, and at least what PyTorch's wheels link
//! and what NVIDIA's libraries and headers have. `cargo xtask regen exports` rewrites the lists of exports. Those of needs are
//! compared with installed wheels by two tests that are ignored where there are none, and written with `FTEST_REGEN=1`:
//! `FTEST_TORCH_LIB=.../torch/lib cargo test --workspace --test integration -- --ignored pytorch`, and the same with
//! `FTEST_NVIDIA=.../site-packages/nvidia` and `nvidia`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use fakegpu::{Export, INTERPOSED, Status, tables};
use object::elf;
use object::endian::Endianness;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

type Needs = BTreeSet<(String, String)>;

fn exports() -> Vec<&'static Export> {
    tables().into_iter().flatten().collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("exports")
}

fn updating() -> bool {
    std::env::var_os("FTEST_REGEN").is_some()
}

/// The shared library that cargo built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libfakegpu.so");
    assert!(beside.exists(), "{} is not there: cargo builds it with this test", beside.display());
    beside
}

/// One dynamic symbol: name, soname that its version names, and whether it is defined here and weak.
struct Symbol {
    name: String,
    soname: Option<String>,
    defined: bool,
    weak: bool,
}

fn symbols(path: &Path) -> Vec<Symbol> {
    let cache = ReadCache::new(File::open(path).unwrap());
    let data = &cache;
    let header = elf::FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let table = sections.symbols(endian, data, elf::SHT_DYNSYM).unwrap();
    let versions = sections.versions(endian, data).unwrap();
    let mut symbols = Vec::new();
    for (index, symbol) in table.enumerate() {
        if symbol.st_bind() == elf::STB_LOCAL {
            continue;
        }
        let name = String::from_utf8_lossy(table.symbol_name(endian, symbol).unwrap()).into_owned();
        let soname = versions.as_ref().and_then(|versions| {
            let version = versions.version(versions.version_index(endian, index).index()).ok()??;
            Some(String::from_utf8_lossy(version.file()?).into_owned())
        });
        let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
        symbols.push(Symbol { name, soname, defined, weak: symbol.st_bind() == elf::STB_WEAK });
    }
    symbols
}

#[test]
fn the_library_exports_its_tables_and_nothing_else() {
    let mut listed: BTreeSet<String> = exports().iter().map(|export| export.name.to_owned()).collect();
    assert_eq!(listed.len(), exports().len(), "no name is in two tables");
    listed.extend(INTERPOSED.iter().map(|&name| name.to_owned()));
    let built: BTreeSet<String> =
        symbols(&library()).into_iter().filter(|symbol| symbol.defined).map(|symbol| symbol.name).collect();
    let missing: Vec<_> = listed.difference(&built).collect();
    let extra: Vec<_> = built.difference(&listed).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "in a table but not exported: {missing:?}; the opposite: {extra:?}"
    );
}

#[test]
fn the_committed_lists_are_the_tables() {
    let mut files: BTreeMap<String, BTreeMap<&str, &str>> = BTreeMap::new();
    for export in exports() {
        let file = format!("{}.txt", export.library.name());
        files.entry(file).or_default().insert(export.name, export.status.word());
    }
    let text = |names: &BTreeMap<&str, &str>| -> String {
        names.iter().map(|(name, status)| format!("{name} {status}\n")).collect()
    };
    let mut committed = BTreeSet::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("needs-") {
            if updating() && !files.contains_key(&name) {
                fs::remove_file(&path).unwrap();
            } else {
                committed.insert(name);
            }
        }
    }
    for (file, names) in &files {
        let path = directory().join(file);
        if updating() {
            fs::write(&path, text(names)).unwrap();
        } else {
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, text(names), "shim/exports/{file} is stale; run `cargo xtask regen exports`");
        }
    }
    if !updating() {
        assert_eq!(committed, files.into_keys().collect(), "files in shim/exports");
    }
}

/// The NVIDIA library behind an undefined symbol: its version says it, or where there is none, the way the name begins.
fn owner(symbol: &Symbol) -> Option<String> {
    let nvidias = ["libcu", "libnv", "libnccl"];
    if let Some(soname) = &symbol.soname {
        let stem = soname.split(".so").next()?;
        return nvidias.iter().any(|prefix| stem.starts_with(prefix)).then(|| stem.to_owned());
    }
    let prefixes = [
        ("cusparseLt", "libcusparseLt"),
        ("cuFile", "libcufile"),
        ("nccl", "libnccl"),
        ("nvml", "libnvidia-ml"),
        ("nvshmem", "libnvshmem_host"),
        ("nvtx", "libnvToolsExt"),
        ("cuda", "libcudart"),
    ];
    let named = prefixes.iter().find(|(prefix, _)| symbol.name.starts_with(prefix)).map(|(_, library)| *library);
    // The driver's names go on with a capital: cuInit, but not LAPACK's cungqr_.
    let drivers = || {
        let rest = symbol.name.strip_prefix("cu")?;
        rest.starts_with(|next: char| next.is_ascii_uppercase()).then_some("libcuda")
    };
    named.or_else(drivers).map(str::to_owned)
}

/// What the libraries of a wheel's `torch/lib` want from NVIDIA's.
fn needs_of(directory: &Path) -> Needs {
    let mut needs = Needs::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().unwrap().to_string_lossy().contains(".so") {
            let wanted = symbols(&path).into_iter().filter(|symbol| !symbol.defined && !symbol.weak);
            needs.extend(wanted.filter_map(|symbol| Some((owner(&symbol)?, symbol.name))));
        }
    }
    needs
}

fn missing(needs: &Needs) -> Vec<String> {
    let have: BTreeSet<(&str, &str)> = exports().iter().map(|export| (export.library.name(), export.name)).collect();
    let lacks = needs.iter().filter(|(library, name)| !have.contains(&(library.as_str(), name.as_str())));
    lacks.map(|(library, name)| format!("{library} {name}")).collect()
}

/// The committed lists of needs whose names begin with `prefix`.
fn committed_needs(prefix: &str) -> Vec<(String, Needs)> {
    let mut lists = Vec::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            let text = fs::read_to_string(&path).unwrap();
            let rows = text.lines().map(|line| line.split_once(' ').expect("`library symbol`"));
            lists.push((name, rows.map(|(library, symbol)| (library.to_owned(), symbol.to_owned())).collect()));
        }
    }
    lists
}

#[test]
fn everything_that_the_supported_wheels_link_is_exported() {
    let lists = committed_needs("needs-torch-");
    assert!(lists.len() >= 2, "one list per supported PyTorch");
    for (name, needs) in lists {
        assert!(needs.len() > 500, "{name} lists {} needs", needs.len());
        assert_eq!(missing(&needs), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn everything_that_nvidias_libraries_have_is_exported() {
    for (prefix, least) in
        [("needs-cuda-", 1000), ("needs-libraries-", 2500), ("needs-nccl-2.30", 150), ("needs-nccl-2.32", 180)]
    {
        let lists = committed_needs(prefix);
        assert!(!lists.is_empty(), "a list {prefix}*");
        for (name, needs) in lists {
            assert!(needs.len() > least, "{name} lists {} names", needs.len());
            assert_eq!(missing(&needs), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn a_profilers_names_are_the_functions_that_they_stand_beside() {
    let status: BTreeMap<&str, Status> = exports().iter().map(|export| (export.name, export.status)).collect();
    let pairs =
        status.keys().filter_map(|name| Some((*name, name.strip_prefix('p').filter(|_| name.starts_with("pnccl"))?)));
    let wrong: Vec<_> = pairs.filter(|(second, first)| status.get(first) != status.get(second)).collect();
    assert_eq!(wrong, []);
}

/// What C's preprocessor makes of one header, in each of the ways in which it numbers functions.
fn declared(include: &Path, header: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for macros in [
        &[][..],
        &["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"],
        &["-D__CUDA_API_VERSION_INTERNAL"],
        &["-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"],
        &["-DNVML_NO_UNVERSIONED_FUNC_DEFS"],
    ] {
        let mut command = Command::new("cc");
        command.args(["-E", "-P", "-x", "c", "-I"]).arg(include).args(macros).arg(include.join(header));
        let done = command.output().expect("cc runs");
        assert!(done.status.success(), "{header}: {}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        // A declaration, not a definition (`static inline`) nor the type of a function's pointer.
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for statement in text.split([';', '}']) {
            if statement.split(|letter| !is_word(letter)).any(|word| ["typedef", "static", "return"].contains(&word)) {
                continue;
            }
            let called = statement.match_indices('(').filter_map(|(end, _)| {
                let before = statement[..end].trim_end();
                before.rfind(|letter| !is_word(letter)).map(|start| &before[start + 1..])
            });
            let named = |name: &&str| {
                name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
            };
            names.extend(called.filter(named).map(str::to_owned));
        }
    }
    names
}

/// nvidia-cublas, nvidia-cufft, nvidia-curand, nvidia-cusolver, nvidia-cusparse, nvidia-cuda-nvrtc and nvidia-nvjitlink.
const LIBRARIES: [&str; 8] =
    ["libcublas", "libcublasLt", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvrtc", "libnvJitLink"];

#[test]
#[ignore = "needs FTEST_NVIDIA=.../site-packages/nvidia: wheels of 1.6 GB"]
fn the_lists_of_nvidia_are_what_its_wheels_have() {
    // With nvidia-cuda-runtime, nvidia-cuda-profiler-api, nvidia-nvml-dev, nvidia-nccl-cu13 and the packages of LIBRARIES in
    // it, and nvidia-ml-py beside it.
    let nvidia = std::env::var_os("FTEST_NVIDIA").map(PathBuf::from).expect("FTEST_NVIDIA names NVIDIA's wheels");
    let defined = |library: &str, path: PathBuf| -> Needs {
        let names = symbols(&path).into_iter().filter(|symbol| symbol.defined).map(|symbol| symbol.name);
        names.filter(|name| !name.contains('.')).map(|name| (library.to_owned(), name)).collect()
    };
    let number = |header: &Path, name: &str| -> u32 {
        let text = fs::read_to_string(header).unwrap();
        let line =
            text.lines().find_map(|line| line.trim_start_matches('#').trim().strip_prefix(&format!("define {name} ")));
        line.unwrap_or_else(|| panic!("{name} in {}", header.display())).trim().parse().unwrap()
    };
    let (cuda, nccl) = (nvidia.join("cu13"), nvidia.join("nccl"));
    let include = cuda.join("include");
    let version = number(&include.join("cuda.h"), "CUDA_VERSION");
    let mut needs = defined("libcudart", cuda.join("lib/libcudart.so.13"));
    for (library, header, prefix) in
        [("libcuda", "cuda.h", "cu"), ("libcuda", "cudaProfiler.h", "cu"), ("libnvidia-ml", "nvml.h", "nvml")]
    {
        needs.extend(declared(&include, header, prefix).into_iter().map(|name| (library.to_owned(), name)));
    }
    // What its binding for Python looks up: also what the header has no longer.
    let binding = fs::read_to_string(nvidia.join("../pynvml.py")).expect("nvidia-ml-py");
    let lookups = binding.split("_nvmlGetFunctionPointer(").skip(1).filter_map(|rest| rest.split(['"', '\'']).nth(1));
    let bound = lookups.filter(|name| {
        name.starts_with("nvml") && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    });
    needs.extend(bound.map(|name| ("libnvidia-ml".to_owned(), name.to_owned())));
    let installed: Vec<PathBuf> = fs::read_dir(cuda.join("lib")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let of_libraries = LIBRARIES.iter().flat_map(|library| {
        let is_it =
            |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&format!("{library}.so."));
        let path = installed.iter().find(is_it).unwrap_or_else(|| panic!("no {library} in {}/lib", cuda.display()));
        defined(library, path.clone())
    });
    let parts = ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"].map(|part| number(&nccl.join("include/nccl.h"), part));
    let version = format!("{}.{}", version / 1000, version % 1000 / 10);
    for (file, needs) in [
        (format!("needs-cuda-{version}.txt"), needs),
        (format!("needs-libraries-{version}.txt"), of_libraries.collect()),
        (
            format!("needs-nccl-{}.{}.{}.txt", parts[0], parts[1], parts[2]),
            defined("libnccl", nccl.join("lib/libnccl.so.2")),
        ),
    ] {
        let text: String = needs.iter().map(|(library, name)| format!("{library} {name}\n")).collect();
        let path = directory().join(&file);
        if updating() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "{file}");
        assert_eq!(missing(&needs), Vec::<String>::new(), "{file}");
    }
}

#[test]
#[ignore = "needs FTEST_TORCH_LIB=.../torch/lib; CI runs it with its environments"]
fn the_lists_of_pytorch_are_what_its_wheel_links() {
    let libraries =
        std::env::var_os("FTEST_TORCH_LIB").map(PathBuf::from).expect("FTEST_TORCH_LIB names a wheel's torch/lib");
    let version = fs::read_to_string(libraries.join("../version.py")).expect("FTEST_TORCH_LIB is a wheel's torch/lib");
    let (_, version) = version.split_once("__version__ = '").expect("__version__ = '2.15.0+cu132'");
    let version = version.split(['+', '\'']).next().unwrap();
    let needs = needs_of(&libraries);
    let text: String = needs.iter().map(|(library, name)| format!("{library} {name}\n")).collect();
    let path = directory().join(format!("needs-torch-{version}.txt"));
    if updating() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "{}", path.display());
    assert_eq!(missing(&needs), Vec::<String>::new());
}

/// What is in each thread has to fit into the loader's reserve where a running process opens the library: 1664 bytes by default,
/// which is enough for two copies.
#[test]
fn two_copies_fit_into_the_reserve_of_static_tls() {
    const RESERVE: u64 = 1664;
    let cache = ReadCache::new(File::open(library()).unwrap());
    let header = elf::FileHeader64::<Endianness>::parse(&cache).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &cache).unwrap();
    let bytes: u64 =
        segments.iter().filter(|one| one.p_type(endian) == elf::PT_TLS).map(|one| one.p_memsz(endian)).sum();
    assert!(bytes > 0 && 2 * bytes <= RESERVE, "{bytes} bytes: box what is large, or keep it elsewhere");
}
