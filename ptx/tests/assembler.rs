//! `fakegpu-ptxas` as Triton calls it: what it says about itself, what it writes, and what it refuses.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const TEXT: &str = ".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

/// A directory that is removed with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("assembler-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ptxas(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fakegpu-ptxas")).args(arguments).output().unwrap()
}

/// Assembles a text; what was written, or what was said.
fn assembled(name: &str, text: &str) -> Result<String, String> {
    let scratch = Scratch::new(name);
    let (input, output) = (scratch.0.join("in.ptx"), scratch.0.join("out.cubin"));
    fs::write(&input, text).unwrap();
    let (from, to) = (input.to_str().unwrap(), output.to_str().unwrap());
    let done = ptxas(&["-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_80", from, "-o", to]);
    if done.status.success() {
        return Ok(fs::read_to_string(output).unwrap());
    }
    assert!(!output.exists(), "nothing is written");
    Err(String::from_utf8(done.stderr).unwrap())
}

#[test]
fn its_version_is_where_triton_looks_for_it() {
    let said = String::from_utf8(ptxas(&["--version"]).stdout).unwrap();
    // Triton searches for `.*release (\d+\.\d+).*`.
    let release = said.split_once("release ").unwrap().1.split_once(',').unwrap().0;
    assert_eq!(release, "12.9");
}

#[test]
fn ptx_is_written_as_it_is() {
    assert_eq!(assembled("plain", TEXT), Ok(TEXT.to_owned() + "\0"), "C finds the end of an image by its NUL");
    let gap = TEXT.replace("\tret;", "\t.reg .u32 %r<4>;\n\tvadd4.s32.s32.s32 %r0, %r1, %r2, %r3;\n\tret;");
    assert_eq!(assembled("gap", &gap), Ok(gap + "\0"), "what is not executed fails when it is launched");
}

#[test]
fn wrong_ptx_is_refused_with_its_line() {
    let wrong = TEXT.replace("\tret;", "\tret 1, 2;\n");
    let said = assembled("wrong", &wrong).unwrap_err();
    assert!(said.contains("in.ptx, line 6; error   : "), "{said}");
    let unknown = TEXT.replace("\tret;", "\tadd.u32 %r0, %r1, %r2;\n");
    let said = assembled("unknown", &unknown).unwrap_err();
    assert!(said.contains("in.ptx, line 6; error   : ") && said.contains("%r0"), "{said}");
    assert!(!ptxas(&["/nowhere/in.ptx"]).status.success());
    assert!(!ptxas(&[]).status.success());
}

#[test]
fn a_version_that_nobody_could_read_is_no_success() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_fakegpu-ptxas"))
        .arg("--version")
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(said, "ptxas fatal   : stdout: No space left on device (os error 28)\n");
}
