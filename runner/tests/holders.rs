//! The holders before the real loader and the real linkers: a library with version references loads, `dlopen` by soname
//! reaches the shim, and programs link against holders and run.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Plays the shim: two exports without versions.
const SHIM: &str = "int cudaAnswer(void) { return 42; } int cuAnswer(void) { return 43; }";
/// Plays NVIDIA's runtime at link time, so that the wheel below gets a versioned reference to it.
const RUNTIME: &str = "int cudaAnswer(void) { return 0; }";
const WHEEL: &str = "int cudaAnswer(void); int wheelAnswer(void) { return cudaAnswer(); }";
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
static int call(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) { fprintf(stderr, "%s\n", dlerror()); return -1; }
    int (*function)(void) = (int (*)(void))dlsym(handle, name);
    if (!function) { fprintf(stderr, "%s\n", dlerror()); return -1; }
    return function();
}
int main(int argc, char **argv) {
    printf("%d %d %d\n", call(argv[1], "wheelAnswer"), call("libcuda.so.1", "cuAnswer"), call("libcuda.so", "cuAnswer"));
    return 0;
}
"#;

fn cc(directory: &Path, source: &str, output: &str, arguments: &[&str]) {
    let file = directory.join(format!("{}.c", output.replace('/', "_")));
    fs::write(&file, source).unwrap();
    let mut command = Command::new("cc");
    command.current_dir(directory).arg(&file).args(["-o", output]).args(arguments);
    let done = command.output().expect("cc, which rustc links with, runs");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn version_references_and_dlopen_reach_the_shim() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path();
    fs::create_dir(directory.join("wheel")).unwrap();
    fs::write(directory.join("versions.map"), "libcudart.so.99 { global: *; };").unwrap();
    cc(directory, SHIM, "libshim.so", &["-shared", "-fPIC"]);
    cc(
        directory,
        RUNTIME,
        "libcudart.so.99",
        &["-shared", "-fPIC", "-Wl,-soname,libcudart.so.99", "-Wl,--version-script=versions.map"],
    );
    cc(directory, WHEEL, "wheel/libwheel.so", &["-shared", "-fPIC", "./libcudart.so.99"]);
    cc(directory, PROGRAM, "program", &["-ldl"]);

    let (holders, shim) = (directory.join("holders"), directory.join("libshim.so"));
    runner::execute::launch::holders::write(&holders, &shim, Some(&directory.join("wheel"))).unwrap();
    // Twice: a second start finds the files and leaves them. Times would not show it: two writes in a row can have the same.
    let inode = || fs::metadata(holders.join("libcuda.so.1")).unwrap().ino();
    let before = inode();
    runner::execute::launch::holders::write(&holders, &shim, Some(&directory.join("wheel"))).unwrap();
    assert_eq!(inode(), before);

    for preload in [Some(&shim), None] {
        let mut program = Command::new(directory.join("program"));
        program.arg(directory.join("wheel/libwheel.so")).env("LD_LIBRARY_PATH", &holders).env_remove("LD_PRELOAD");
        if let Some(shim) = preload {
            program.env("LD_PRELOAD", shim);
        }
        let output = program.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42 43 43\n", "preload {preload:?}: {stderr}");
        assert_eq!(stderr, "", "the loader has nothing to complain about");
    }
}

/// Plays the shim for a linked program: one name of each of four libraries.
const LINKED_SHIM: &str = "int cuInit(unsigned flags) { return 1; } int cudaDeviceReset(void) { return 20; }
int ncclGroupStart(void) { return 300; } int nvmlInit_v2(void) { return 4000; }";
const LINKED: &str = r#"
#include <stdio.h>
int cuInit(unsigned), cudaDeviceReset(void), ncclGroupStart(void), nvmlInit_v2(void);
int main(void) { printf("%d\n", cuInit(0) + cudaDeviceReset() + ncclGroupStart() + nvmlInit_v2()); return 0; }
"#;

/// The linkers to try: those that `FTEST_LINKERS` names, which must be there, else those that are.
fn linkers() -> Vec<String> {
    if let Ok(wanted) = env::var("FTEST_LINKERS") {
        return wanted.split_whitespace().map(str::to_owned).collect();
    }
    let path: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let is_there = |name: &&str| path.iter().any(|directory| directory.join(format!("ld.{name}")).exists());
    let (there, missing): (Vec<_>, Vec<_>) = ["bfd", "gold", "lld", "mold"].into_iter().partition(is_there);
    if !missing.is_empty() {
        eprintln!("not tried, since they are not installed: {}", missing.join(", "));
    }
    assert!(!there.is_empty(), "rustc links with one of them");
    there.into_iter().map(str::to_owned).collect()
}

#[test]
fn programs_link_against_holders_with_every_linker_and_run() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path();
    fs::create_dir(directory.join("wheel")).unwrap();
    cc(directory, LINKED_SHIM, "libshim.so", &["-shared", "-fPIC"]);
    // A part of a library, of which only the name is known: GNU ld used to refuse a holder without symbols.
    cc(directory, "void part(void) {}", "libcudnn_new.so.9", &["-shared", "-fPIC", "-Wl,-soname,libcudnn_new.so.9"]);
    cc(
        directory,
        "int wheel;",
        "wheel/libwheel.so",
        &["-shared", "-fPIC", "-Wl,--no-as-needed", "./libcudnn_new.so.9"],
    );
    let (holders, shim) = (directory.join("holders"), directory.join("libshim.so"));
    runner::execute::launch::holders::write(&holders, &shim, Some(&directory.join("wheel"))).unwrap();

    let named = ["-lcuda", "-lcudart", "-lnccl", "-lnvidia-ml", "-lcudnn_new"];
    let exact = ["-l:libcuda.so.1", "-l:libcudart.so.12", "-l:libnccl.so.2", "-l:libnvidia-ml.so.1", "-lcudnn_new"];
    for linker in linkers() {
        for (way, libraries, cudart) in [("name", named, "libcudart.so.13"), ("file", exact, "libcudart.so.12")] {
            let output = format!("linked-{linker}-{way}");
            let linker = format!("-fuse-ld={linker}");
            let mut arguments = vec![linker.as_str(), "-Lholders", "-Wl,--no-as-needed", "-Wl,-z,now"];
            arguments.extend(libraries);
            cc(directory, LINKED, &output, &arguments);
            let program = directory.join(&output);
            for soname in ["libcuda.so.1", cudart, "libnccl.so.2", "libnvidia-ml.so.1", "libcudnn_new.so.9"] {
                let bytes = fs::read(&program).unwrap();
                let whole = format!("\0{soname}\0");
                assert!(bytes.windows(whole.len()).any(|part| part == whole.as_bytes()), "{output} needs {soname}");
            }
            for preload in [Some(&shim), None] {
                let mut run = Command::new(&program);
                run.env("LD_LIBRARY_PATH", &holders).env_remove("LD_PRELOAD");
                if let Some(shim) = preload {
                    run.env("LD_PRELOAD", shim);
                }
                let done = run.output().unwrap();
                let stderr = String::from_utf8_lossy(&done.stderr);
                assert_eq!(String::from_utf8_lossy(&done.stdout), "4321\n", "{output}, preload {preload:?}: {stderr}");
                assert_eq!(stderr, "", "{output}: the loader has nothing to complain about");
            }
        }
    }
}
