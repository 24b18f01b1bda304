//! What a kernel asks of the device's runtime: launches, copies, streams, memory, errors, conditions. A host that writes it down
//! answers, and the kernel stores each answer.
#![expect(unsafe_code, reason = "device memory is the process's own")]

use std::ops::Range;
use std::sync::Mutex;

use ptx::{Assertion, Caller, Child, Host, Memory};

use crate::device::{Device, image, words};
use crate::forms::HEADER;

/// Keeps what it is asked for, over the memory of a device.
struct Asked<'a> {
    device: &'a Device,
    /// What device code has as the address of the child.
    child: u64,
    parameters: u64,
    text: u64,
    list: Mutex<Vec<String>>,
}

impl Asked<'_> {
    fn note(&self, what: String) {
        self.list.lock().unwrap().push(what);
    }
}

impl Memory for Asked<'_> {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.device.range(address)
    }
}

impl Host for Asked<'_> {
    fn print(&self, _: &[u8]) {}

    fn assertion(&self, _: &Assertion) {}

    fn malloc(&self, bytes: u64) -> u64 {
        self.note(format!("malloc {bytes}"));
        if bytes > 64 { 0 } else { self.parameters }
    }

    fn free(&self, address: u64) {
        self.note(format!("free {}", address == self.parameters));
    }

    fn parameters(&self, child: &Child) -> u64 {
        self.note(format!("parameters {:?} {:?} {}", child.grid, child.block, child.shared_bytes));
        assert_eq!(child.function, self.child);
        self.parameters
    }

    fn launch(&self, from: &Caller, parameters: u64, stream: u64) -> u32 {
        // SAFETY: the buffer of the test, in which the kernel has just written.
        let value = unsafe { *(parameters as *const u64) };
        self.note(format!("launch {value} in {stream} by {:?} {:?} {}", from.block, from.thread, from.number));
        65
    }

    fn copy(&self, _: &Caller, to: u64, source: u64, bytes: u64, stream: u64) -> u32 {
        self.note(format!("copy {bytes} to {to} from {source} in {stream}"));
        0
    }

    fn stream(&self) -> u64 {
        4096
    }

    fn last_error(&self, from: &Caller, forget: bool) -> u32 {
        self.note(format!("error of {:?} {forget}", from.thread));
        if forget { 9 } else { 10 }
    }

    fn error_text(&self, code: u32) -> u64 {
        self.note(format!("text of {code}"));
        self.text
    }

    fn set_conditional(&self, handle: u64, value: u32) {
        self.note(format!("condition {handle} {value}"));
    }
}

const DECLARED: &str = "
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2MemcpyAsync(.param .b64 t, .param .b64 f, .param .b64 n, .param .b32 k, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags(.param .b64 o, .param .b32 f);
.extern .func (.param .b32 r) __cudaCDP2StreamDestroy(.param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2Malloc(.param .b64 o, .param .b64 n);
.extern .func (.param .b32 r) __cudaCDP2Free(.param .b64 p);
.extern .func (.param .b32 r) __cudaCDP2GetLastError();
.extern .func (.param .b32 r) __cudaCDP2PeekAtLastError();
.extern .func (.param .b64 r) __cudaCDP2GetErrorString(.param .b32 c);
.extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);
";

/// A call with these 64-bit or 32-bit arguments, whose result of so many bits goes to the output at `place`.
fn call(name: &str, arguments: &[(u32, &str)], result: u32, place: u32) -> String {
    let mut text = String::from("{\n");
    let mut names = Vec::new();
    for (index, (bits, value)) in arguments.iter().enumerate() {
        if *bits == 96 {
            text += &format!(".param .align 4 .b8 a{index}[12];\n");
            for (word, value) in value.split(' ').enumerate() {
                text += &format!("st.param.b32 [a{index}+{}], {value};\n", word * 4);
            }
        } else {
            text += &format!(".param .b{bits} a{index};\nst.param.b{bits} [a{index}], {value};\n");
        }
        names.push(format!("a{index}"));
    }
    let names = names.join(", ");
    if result == 0 {
        return text + &format!("call.uni {name}, ({names});\n}}\n");
    }
    text += &format!(".param .b{result} back;\ncall.uni (back), {name}, ({names});\n");
    let register = if result == 64 { "%x" } else { "%r" };
    text + &format!("ld.param.b{result} {register}, [back];\nst.global.b{result} [%out+{place}], {register};\n}}\n")
}

#[test]
fn each_request_reaches_the_host_and_its_answer_the_kernel() {
    let mut body = String::new();
    body += &call("__cudaCDP2GetParameterBufferV2", &[(64, "%f"), (96, "1 2 3"), (96, "4 5 6"), (32, "7")], 64, 0);
    body += "st.global.u64 [%x], 99;\n";
    body += &call("__cudaCDP2LaunchDeviceV2", &[(64, "%x"), (64, "3")], 32, 8);
    body += &call("__cudaCDP2MemcpyAsync", &[(64, "11"), (64, "12"), (64, "13"), (32, "3"), (64, "15")], 32, 12);
    body += "add.u64 %at, %out, 16;\n";
    body += &call("__cudaCDP2StreamCreateWithFlags", &[(64, "%at"), (32, "1")], 32, 24);
    body += &call("__cudaCDP2StreamCreateWithFlags", &[(64, "%at"), (32, "0")], 32, 28);
    body += &call("__cudaCDP2StreamDestroy", &[(64, "4096")], 32, 32);
    body += "add.u64 %at, %out, 40;\n";
    body += &call("__cudaCDP2Malloc", &[(64, "%at"), (64, "64")], 32, 36);
    body += "ld.global.u64 %x, [%at];\n";
    body += &call("__cudaCDP2Free", &[(64, "%x")], 32, 48);
    body += "add.u64 %at, %out, 56;\n";
    body += &call("__cudaCDP2Malloc", &[(64, "%at"), (64, "65")], 32, 52);
    body += &call("__cudaCDP2PeekAtLastError", &[], 32, 64);
    body += &call("__cudaCDP2GetLastError", &[], 32, 68);
    body += &call("__cudaCDP2GetErrorString", &[(32, "65")], 64, 72);
    body += &call("cudaGraphSetConditional", &[(64, "21"), (32, "22")], 0, 0);
    let text = format!(
        "{HEADER}{DECLARED}.visible .entry child(.param .u64 p)\n{{\nret;\n}}\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b64 %out, %at, %x, %f;\n.reg .b32 %r;\n.reg .pred %p;\nmov.u32 %r, %ctaid.x;\nsetp.ne.u32 %p, %r, 1;\n@%p ret;\n\
         mov.u32 %r, %tid.x;\nsetp.ne.u32 %p, %r, 2;\n@%p ret;\nld.param.u64 %out, [p];\nmov.u64 %f, child;\n{body}ret;\n}}\n"
    );
    let image = image(&text);
    // Functions have numbers, with those that are only declared here.
    let is_child = |pointer: &u64| image.kernel_at(*pointer).is_some_and(|entry| entry.name == "child");
    let children: Vec<u64> = (0..32).map(|number| ptx::FUNCTION_HANDLE + number * 16).filter(is_child).collect();
    let [child] = children[..] else { panic!("{children:x?}") };
    assert!(image.kernel_at(5).is_none() && image.kernel_at(ptx::FUNCTION_HANDLE).is_none());
    assert!(image.kernel("k").unwrap().launches() && !image.kernel("child").unwrap().launches());
    let mut device = Device::new();
    let (out, parameters) = (device.alloc(80), device.alloc(64));
    let asked = Asked { device: &device, child, parameters, text: 1234, list: Mutex::default() };
    let params = words(&[out]);
    let launch = ptx::Launch {
        grid: [2, 3, 1],
        block: [4, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        params: &params,
        globals: &[],
        cooperative: false,
        workspace: 0,
        stack: 1024,
        threads: 1,
        multiprocessors: 1,
        grid_id: 1,
        memory: &asked,
        host: &asked,
        unwritten: None,
        footprint: None,
        cancel: None,
    };
    image.kernel("k").unwrap().launch(&launch).unwrap();
    let mut expected = Vec::new();
    for y in 0..3 {
        expected.extend([
            "parameters [1, 2, 3] [4, 5, 6] 7".to_owned(),
            format!("launch 99 in 3 by [1, {y}, 0] [2, 0, 0] {}", 1 + 2 * y),
            "copy 13 to 11 from 12 in 15".to_owned(),
            "malloc 64".to_owned(),
            "free true".to_owned(),
            "malloc 65".to_owned(),
            "error of [2, 0, 0] false".to_owned(),
            "error of [2, 0, 0] true".to_owned(),
            "text of 65".to_owned(),
            "condition 21 22".to_owned(),
        ]);
    }
    assert_eq!(*asked.list.lock().unwrap(), expected);
    let (wide, narrow) = (device.get::<u64>(out, 10), device.get::<u32>(out, 20));
    assert_eq!([wide[0], wide[2], wide[5], wide[7], wide[9]], [parameters, 4096, parameters, 0, 1234]);
    // Launch, copy, streams of the two kinds and the end of one, malloc, free, malloc of too much, errors.
    let codes = [2, 3, 6, 7, 8, 9, 12, 13, 16, 17].map(|at| narrow[at]);
    assert_eq!(codes, [65, 0, 0, 1, 0, 0, 0, 2, 10, 9]);
}
