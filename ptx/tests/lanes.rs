//! Code that runs four lanes at once gives what it gives lane by lane. A kernel that is watched runs lane by lane.

use std::fmt::Write as _;

use ptx::{Checks, TrapKind};

use crate::device::{Device, image, trap, words};
use crate::forms::{HEADER, Random};

const ALONE: Checks = Checks { shared_races: false, init: false, sync: true };
/// Bytes that a thread leaves behind: its registers.
const LEFT: usize = 128;
/// Bytes of the table that kernels read.
const TABLE: usize = 4096;

/// Writes a random program. Threads meet only where all of them come.
struct Writer {
    random: Random,
    text: String,
    labels: u32,
}

impl Writer {
    fn below(&mut self, count: u64) -> u64 {
        (self.random.next() >> 16) % count
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len() as u64) as usize]
    }

    fn register(&mut self, class: char) -> String {
        let count = match class {
            'r' => 8,
            'd' => 2,
            _ => 4,
        };
        format!("%{class}{}", self.below(count))
    }

    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(8),
            1 => 1 << self.below(31),
            2 => (1 << self.below(31)) - 1,
            _ => self.random.next() & 0x7fff_ffff,
        }
    }

    fn operand(&mut self) -> String {
        if self.below(2) == 0 { self.register('r') } else { self.number().to_string() }
    }

    fn line(&mut self, text: &str) {
        writeln!(self.text, "{text}").unwrap();
    }

    /// An address in the table for an access of so many bytes, in %a.
    fn address(&mut self, bytes: u64) {
        let (register, place) = (self.register('r'), self.below(64) * bytes);
        match self.below(4) {
            // One after the other.
            0 => self.line(&format!("and.b32 %u, %tidx, 63;\nmul.wide.u32 %a, %u, {bytes};")),
            // The same, in a way that only shows when it runs.
            1 => self.line(&format!("mul.hi.u32 %u, %tidx, 0xffffffff;\nadd.u32 %u, %u, 1;\nand.b32 %u, %u, 63;\nmul.wide.u32 %a, %u, {bytes};")),
            // All at one place.
            2 => self.line(&format!("mov.u64 %a, {place};")),
            // Anywhere.
            _ => self.line(&format!("and.b32 %u, {register}, 63;\nmul.wide.u32 %a, %u, {bytes};")),
        }
        self.line("add.u64 %a, %a, %table;");
    }

    fn statement(&mut self) {
        let guard = match self.below(5) {
            0 => format!("@{} ", self.register('p')),
            1 => format!("@!{} ", self.register('p')),
            _ => String::new(),
        };
        let (r, s, t, o) = (self.register('r'), self.register('r'), self.register('r'), self.operand());
        let (x, y) = (self.register('x'), self.register('x'));
        let (f, g, h) = (self.register('f'), self.register('f'), self.register('f'));
        let (i, j) = (self.register('h'), self.register('h'));
        let (p, q) = (self.register('p'), self.register('p'));
        let (d, e) = (self.register('d'), self.register('d'));
        let small = self.below(40);
        let text = match self.below(34) {
            0..=3 => {
                let op = self.pick(&[
                    "add.s32",
                    "sub.s32",
                    "mul.lo.s32",
                    "and.b32",
                    "or.b32",
                    "xor.b32",
                    "min.s32",
                    "max.u32",
                    "mul.hi.u32",
                ]);
                format!("{op} {r}, {s}, {o};")
            }
            4 => format!("{} {r}, {s}, {small};", self.pick(&["shl.b32", "shr.u32", "shr.s32"])),
            5 => format!("{} {r}, {s}, {t};", self.pick(&["shl.b32", "shr.u32", "shr.s32"])),
            6 => format!("{} {x}, {s}, {o};", self.pick(&["mul.wide.s32", "mul.wide.u32"])),
            7 => format!("mad.lo.s32 {r}, {s}, {o}, {t};"),
            8 => format!(
                "{} {x}, {y}, {small};",
                self.pick(&[
                    "add.s64",
                    "sub.s64",
                    "and.b64",
                    "or.b64",
                    "xor.b64",
                    "mul.lo.s64",
                    "shl.b64",
                    "shr.s64",
                    "shr.u64"
                ])
            ),
            9 => format!(
                "{} {x}, {y}, {x};",
                self.pick(&["add.s64", "sub.s64", "and.b64", "or.b64", "mul.lo.s64", "min.u64"])
            ),
            10 => format!("{} {r}, {x};", self.pick(&["cvt.u32.u64", "cvt.s32.s64"])),
            11 => format!("{} {x}, {r};", self.pick(&["cvt.u64.u32", "cvt.s64.s32"])),
            12 => format!("{} {i}, {r};", self.pick(&["cvt.u16.u32", "cvt.s16.s32"])),
            13 => format!("{} {r}, {i};", self.pick(&["cvt.u32.u16", "cvt.s32.s16", "cvt.s32.s8"])),
            14 => format!(
                "{} {i}, {i}, {j};",
                self.pick(&["add.s16", "sub.s16", "mul.lo.s16", "and.b16", "or.b16", "xor.b16", "max.s16"])
            ),
            15 => format!("mov.b64 {x}, {{{r}, {s}}};"),
            16 => format!("mov.b64 {{{r}, {s}}}, {y};"),
            17 => format!("mov.b32 {r}, {{{i}, {j}}};"),
            18 => format!("mov.b32 {{{i}, {j}}}, {r};"),
            19 | 20 => {
                let op = self.pick(&["eq", "ne", "lt", "le", "gt", "ge"]);
                let kind = self.pick(&["s32", "u32"]);
                format!("setp.{op}.{kind} {p}, {s}, {o};")
            }
            21 => format!("setp.{}.u64 {p}, {x}, {y};", self.pick(&["eq", "ne", "lt", "ge"])),
            22 => {
                format!("setp.{}.f32 {p}, {f}, {g};", self.pick(&["eq", "ne", "lt", "neu", "equ", "gtu", "num", "nan"]))
            }
            23 => format!("setp.{}.and.s32 {p}, {s}, {o}, {q};", self.pick(&["lt", "ge"])),
            24 => format!("{} {p}, {p}, {q};", self.pick(&["and.pred", "or.pred", "xor.pred"])),
            25 => match self.below(4) {
                0 => format!("selp.b32 {r}, {s}, {t}, {p};"),
                1 => format!("selp.b64 {x}, {x}, {y}, {p};"),
                2 => format!("selp.f32 {f}, {g}, {h}, {p};"),
                _ => format!("selp.b16 {i}, {i}, {j}, {p};"),
            },
            26 if small & 1 == 0 => format!("prmt.b32 {r}, {s}, {t}, {};", self.below(1 << 16)),
            26 => format!("lop3.b32 {r}, {s}, {t}, {r}, {};", self.below(256)),
            27 => format!(
                "{} {r}, {s};",
                self.pick(&["popc.b32", "not.b32", "neg.s32", "abs.s32", "brev.b32", "clz.b32", "mov.b32"])
            ),
            28 => {
                let op = self.pick(&[
                    "add.f32",
                    "sub.f32",
                    "mul.f32",
                    "min.f32",
                    "max.NaN.f32",
                    "div.rn.f32",
                    "add.ftz.f32",
                    "mul.rn.sat.f32",
                ]);
                format!("{op} {f}, {g}, {h};")
            }
            29 => format!("{} {f}, {g}, {h}, {f};", self.pick(&["fma.rn.f32", "fma.rn.ftz.f32"])),
            30 => format!(
                "{} {f}, {g};",
                self.pick(&["neg.f32", "abs.f32", "sqrt.rn.f32", "ex2.approx.f32", "cvt.rni.f32.f32", "mov.f32"])
            ),
            31 => match self.below(6) {
                0 => format!("cvt.rn.f32.s32 {f}, {r};"),
                1 => format!("cvt.rn.f32.u32 {f}, {r};"),
                2 => format!("cvt.rzi.s32.f32 {r}, {f};"),
                3 => format!("cvt.rzi.u32.f32 {r}, {f};"),
                4 => format!("cvt.rn.bf16.f32 {i}, {f};"),
                _ => format!("mov.b32 {r}, {f};"),
            },
            32 => match self.below(4) {
                0 => format!("cvt.f64.f32 {d}, {f};"),
                1 => format!("{} {d}, {d}, {e};", self.pick(&["add.f64", "mul.f64", "min.f64", "sub.f64"])),
                2 => format!("setp.lt.f64 {p}, {d}, {e};"),
                _ => format!("cvt.rn.f32.f64 {f}, {d};"),
            },
            _ => return self.access(&guard),
        };
        self.line(&format!("{guard}{text}"));
    }

    fn access(&mut self, guard: &str) {
        let registers = |this: &mut Self, class, count: usize| {
            let mut list = Vec::new();
            while list.len() < count {
                let register = this.register(class);
                if !list.contains(&register) {
                    list.push(register);
                }
            }
            if count == 1 { list.remove(0) } else { format!("{{{}}}", list.join(", ")) }
        };
        let (kind, class, count, bytes) = [
            ("u32", 'r', 1, 4),
            ("f32", 'f', 1, 4),
            ("u8", 'r', 1, 1),
            ("s8", 'r', 1, 1),
            ("u16", 'h', 1, 2),
            ("s16", 'r', 1, 2),
            ("u64", 'x', 1, 8),
            ("v2.u32", 'r', 2, 8),
            ("v4.f32", 'f', 4, 16),
            ("v2.u64", 'x', 2, 16),
            ("v4.u16", 'h', 4, 8),
            ("v2.u16", 'h', 2, 4),
            ("v4.u8", 'h', 4, 4),
        ][self.below(13) as usize];
        let list = registers(self, class, count);
        if self.below(3) == 0 {
            // Everybody's own place, one after the other.
            self.line(&format!("mul.wide.u32 %a, %thread, {bytes};\nadd.u64 %a, %a, %row;"));
            let kind = kind.replace('s', "u");
            self.line(&format!("{guard}st.global.{kind} [%a], {list};"));
        } else {
            self.address(bytes);
            self.line(&format!("{guard}ld.global.{kind} {list}, [%a];"));
        }
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..=self.below(5) {
            let label = self.labels;
            match self.below(if depth < 3 { 9 } else { 7 }) {
                7 => {
                    self.labels += 1;
                    let p = self.register('p');
                    self.line(&format!("@{p} bra L{label};"));
                    self.block(depth + 1);
                    self.line(&format!("L{label}:"));
                }
                8 => {
                    // Each thread its own number of times, or all the same.
                    self.labels += 1;
                    let start = ["%tidx", "%r3", "%ntidx"][self.below(3) as usize];
                    self.line(&format!("and.b32 %n{depth}, {start}, 3;\nL{label}:"));
                    self.block(depth + 1);
                    self.line(&format!(
                        "sub.u32 %n{depth}, %n{depth}, 1;\nsetp.lt.s32 %q, %n{depth}, 0x7fffffff;\nsetp.gt.and.s32 %q, %n{depth}, 0, %q;\n@%q bra L{label};"
                    ));
                }
                _ => self.statement(),
            }
        }
    }

    fn meeting(&mut self) {
        let (r, s) = (self.register('r'), self.register('r'));
        match self.below(5) {
            0 => self.line("bar.sync 0;"),
            1 => self.line(&format!("and.b32 %u, %tidx, 31;\nmov.u32 %u, %active;\nshfl.sync.bfly.b32 {r}, {s}, 1, 31, %u;")),
            2 => self.line(&format!("mov.u32 %u, %active;\nvote.sync.ballot.b32 {r}, %p0, %u;")),
            3 => self.line("mov.u32 %u, %active;\nbar.warp.sync %u;"),
            _ => self.line(&format!(
                "mul.lo.u32 %u, %local, 4;\nadd.u32 %u, %u, %sh;\nst.shared.u32 [%u], {r};\nbar.sync 0;\nxor.b32 %v, %local, 1;\nmin.u32 %v, %v, %last;\nmul.lo.u32 %v, %v, 4;\nadd.u32 %v, %v, %sh;\nld.shared.u32 {s}, [%v];\nbar.sync 0;"
            )),
        }
    }
}

fn program(seed: u64) -> String {
    let mut w = Writer { random: Random(seed), text: String::new(), labels: 0 };
    for _ in 0..8 {
        w.random.next();
    }
    w.text += ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n{\n.shared .align 16 .b8 shared[4096];\n\
        .reg .b32 %r<8>, %n<4>, %u, %v, %tidx, %ntidx, %thread, %local, %last, %active, %sh;\n.reg .b64 %x<4>, %a, %out, %table, %row;\n.reg .f32 %f<4>;\n.reg .f64 %d<2>;\n.reg .b16 %h<4>;\n.reg .pred %p<4>, %q;\n\
        ld.param.u64 %out, [p0];\nld.param.u64 %table, [p1];\nld.param.u64 %row, [p2];\nmov.u32 %sh, shared;\n\
        mov.u32 %tidx, %tid.x;\nmov.u32 %ntidx, %ntid.x;\nmov.u32 %u, %tid.y;\nmad.lo.u32 %local, %u, %ntidx, %tidx;\n\
        mov.u32 %v, %ntid.y;\nmul.lo.u32 %v, %v, %ntidx;\nsub.u32 %last, %v, 1;\nmov.u32 %u, %ctaid.x;\nmad.lo.u32 %thread, %u, %v, %local;\n\
        activemask.b32 %active;\n\
        mov.u32 %r0, %tidx;\nmov.u32 %r1, %laneid;\nmov.u32 %r2, %ctaid.x;\nld.param.u32 %r3, [p3];\nand.b32 %r4, %tidx, 31;\nshr.u32 %r5, %tidx, 2;\nmul.lo.u32 %r6, %tidx, 12;\nmov.u32 %r7, 7;\n\
        cvt.u64.u32 %x0, %tidx;\nmul.wide.u32 %x1, %r1, 8;\nmov.u64 %x2, 1000;\nmov.u64 %x3, %out;\nsub.u64 %x3, %x3, %out;\n\
        cvt.rn.f32.u32 %f0, %tidx;\nmov.f32 %f1, 0f3fc00000;\ncvt.rn.f32.s32 %f2, %r3;\nneg.f32 %f3, %f0;\n\
        cvt.f64.f32 %d0, %f0;\nmov.f64 %d1, 0d3ff8000000000000;\n\
        cvt.u16.u32 %h0, %tidx;\nmov.b16 %h1, 3;\ncvt.u16.u32 %h2, %r6;\nmov.b16 %h3, 0x8001;\n\
        setp.lt.u32 %p0, %tidx, 30;\nsetp.eq.u32 %p1, %r3, 5;\nsetp.gt.s32 %p2, %r4, 5;\nsetp.ne.u32 %p3, %r1, %r1;\n";
    for _ in 0..4 {
        w.block(0);
        w.meeting();
    }
    w.block(0);
    w.text += &format!("mul.wide.u32 %a, %thread, {LEFT};\nadd.u64 %a, %a, %out;\n");
    w.text += "st.global.v4.u32 [%a], {%r0, %r1, %r2, %r3};\nst.global.v4.u32 [%a+16], {%r4, %r5, %r6, %r7};\n\
        st.global.v2.u64 [%a+32], {%x0, %x1};\nst.global.v2.u64 [%a+48], {%x2, %x3};\nst.global.v4.f32 [%a+64], {%f0, %f1, %f2, %f3};\n\
        st.global.v4.u16 [%a+80], {%h0, %h1, %h2, %h3};\n\
        selp.b32 %u, 1, 0, %p0;\nselp.b32 %v, 2, 0, %p1;\nor.b32 %u, %u, %v;\nselp.b32 %v, 4, 0, %p2;\nor.b32 %u, %u, %v;\nselp.b32 %v, 8, 0, %p3;\nor.b32 %u, %u, %v;\nst.global.u32 [%a+88], %u;\n\
        cvt.rn.f32.f64 %f0, %d0;\ncvt.rn.f32.f64 %f1, %d1;\nst.global.v2.f32 [%a+96], {%f0, %f1};\nret;\n}\n";
    format!("{HEADER}{}", w.text)
}

#[test]
fn random_programs_give_the_same_as_lane_by_lane() {
    let sizes = [[32, 1, 1], [64, 1, 1], [48, 1, 1], [20, 3, 1], [128, 1, 1], [8, 4, 1]];
    for seed in 1..=200u64 {
        let text = program(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let image = image(&text);
        let block = sizes[seed as usize % sizes.len()];
        let threads = 2 * block.iter().product::<u32>() as usize;
        let table: Vec<u32> = (0..TABLE as u32 / 4).map(|at| at.wrapping_mul(0x9e37_79b9) ^ seed as u32).collect();
        let run = |checks: Checks| {
            let mut device = Device::watched(checks);
            let (out, table, row) =
                (device.put(&vec![0u8; threads * LEFT]), device.put(&table), device.put(&vec![0u8; threads * 16]));
            let mut params = words(&[out, table, row]);
            params.extend(5u32.to_le_bytes());
            let result = device.launch(&image, "k", [2, 1, 1], block, &params, |_| {});
            result.unwrap_or_else(|error| panic!("{error}\n{text}"));
            (device.get::<u32>(out, threads * LEFT / 4), device.get::<u8>(row, threads * 16))
        };
        let (together, alone) = (run(Checks::default()), run(ALONE));
        for (at, (got, expected)) in together.0.iter().zip(&alone.0).enumerate() {
            let (thread, word) = (at / (LEFT / 4), at % (LEFT / 4));
            assert_eq!(got, expected, "program {seed}, blocks of {block:?}: word {word} of thread {thread}\n{text}");
        }
        assert_eq!(together.1, alone.1, "program {seed}: what threads stored\n{text}");
    }
}

/// A kernel that stores at a place for each thread that the tests choose.
fn storing(address: &str) -> String {
    format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u32 p1)\n{{\n.reg .b64 %out, %a;\n.reg .b32 %t, %n, %u;\n\
         ld.param.u64 %out, [p0];\nld.param.u32 %n, [p1];\nmov.u32 %t, %tid.x;\n{address}\nadd.u64 %a, %a, %out;\nst.global.u32 [%a], %t;\nret;\n}}\n"
    )
}

#[test]
fn the_lane_that_goes_astray_is_named() {
    // One after the other by the shape, by the numbers alone, and in other steps.
    let ways = [
        ("mul.wide.u32 %a, %t, 4;", 4),
        ("mul.lo.u32 %u, %t, %n;\nmul.wide.u32 %a, %u, 4;", 4),
        ("mul.wide.u32 %a, %t, 8;", 8),
    ];
    for (address, step) in ways {
        for fits in [29usize, 30, 31, 3, 0] {
            let mut device = Device::new();
            let out = device.alloc(fits * step);
            let mut params = words(&[out]);
            params.extend(1u32.to_le_bytes());
            let trap = trap(device.launch(&image(&storing(address)), "k", [1; 3], [32, 1, 1], &params, |_| {}));
            assert_eq!((trap.kind, trap.thread[0]), (TrapKind::IllegalAddress, fits as u32), "{address}: {trap}");
            assert_eq!(trap.address, out + (fits * step) as u64, "{address}: {trap}");
        }
    }
    let mut device = Device::new();
    let out = device.alloc(1024);
    let mut params = words(&[out + 2]);
    params.extend(1u32.to_le_bytes());
    let trap = trap(device.launch(&image(&storing(ways[0].0)), "k", [1; 3], [32, 1, 1], &params, |_| {}));
    assert_eq!((trap.kind, trap.thread[0]), (TrapKind::MisalignedAddress, 0), "{trap}");
}

#[test]
fn a_condition_that_a_later_block_of_the_text_writes() {
    // Labels are blocks before those behind a guarded branch: what reads %p is compiled before what writes it.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)
{{
    .reg .pred %p, %q;
    .reg .b32 %t, %n, %v;
    .reg .b64 %o, %a;
    ld.param.u64 %o, [p0];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %a, %t, 4;
    add.u64 %o, %o, %a;
    mov.u32 %n, %ntid.x;
    setp.eq.u32 %q, %n, 0;
    @%q bra END;
    setp.lt.u32 %p, %t, 102;
    @%q bra END;
    bra LATE;
LATE:
    mov.u32 %v, 1;
    @%p bra YES;
    mov.u32 %v, 2;
YES:
    st.global.u32 [%o], %v;
END:
    ret;
}}"
    );
    let mut device = Device::new();
    let out = device.alloc(128 * 4);
    device.run(&image(&text), "k", 1, 128, &[out]).unwrap();
    let expected: Vec<u32> = (0..128).map(|thread| if thread < 102 { 1 } else { 2 }).collect();
    assert_eq!(device.get::<u32>(out, 128), expected);
}
