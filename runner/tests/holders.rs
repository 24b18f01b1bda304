//! The holders before the real loader: a library with version references loads, and `dlopen` by soname reaches the shim.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
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
    runner::launch::holders::write(&holders, &shim, Some(&directory.join("wheel"))).unwrap();
    // Twice: a second start finds the files and leaves them. Times would not show it: two writes in a row can have the same.
    let inode = || fs::metadata(holders.join("libcuda.so.1")).unwrap().ino();
    let before = inode();
    runner::launch::holders::write(&holders, &shim, Some(&directory.join("wheel"))).unwrap();
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
