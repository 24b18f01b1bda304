//! docs/kernels.md says what is executed and what is a gap, by section of the PTX ISA; here each line of it is tried.
//! `cargo xtask regen` writes the table.

use ptx::{KernelError, RefusalKind};

use crate::device;
use crate::forms;

/// Section of the ISA, what it has, instructions that are executed, instructions that are refused as gaps.
struct Row(&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const ROWS: &[Row] = &[
    Row(
        "Integer arithmetic",
        "add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min, max, popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk, dp4a, dp2a",
        &[
            "add.s32 %r0, %r1, %r2;",
            "mad.wide.u16 %r0, %h0, %h1, %r1;",
            "max.relu.s16x2 %r0, %r1, %r2;",
            "dp4a.u32.s32 %r0, %r1, %r2, %r3;",
        ],
        &[],
    ),
    Row(
        "Extended precision",
        "add.cc, addc, sub.cc, subc, mad.cc, madc",
        &["add.cc.u32 %r0, %r1, %r2;", "madc.hi.cc.u64 %x0, %x1, %x2, %x3;"],
        &[],
    ),
    Row(
        "Single and double precision",
        "testp, copysign, add, sub, mul, fma, mad, div, abs, neg, min, max, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh; all roundings, .ftz, .sat; .f32x2",
        &[
            "fma.rz.ftz.sat.f32 %f0, %f1, %f2, %f3;",
            "rsqrt.approx.ftz.f64 %d0, %d1;",
            "max.NaN.xorsign.abs.f32 %f0, %f1, %f2;",
            "add.rn.ftz.f32x2 %x0, %x1, %x2;",
        ],
        &[],
    ),
    Row(
        "Half precision",
        "add, sub, mul, fma, neg, abs, min, max, tanh, ex2 of f16, f16x2, bf16, bf16x2",
        &["fma.rn.relu.bf16x2 %r0, %r1, %r2, %r3;", "tanh.approx.f16x2 %r0, %r1;"],
        &["fma.rn.oob.f16 %h0, %h1, %h2, %h3;"],
    ),
    Row(
        "Mixed precision",
        "add, sub, fma of f32 with f16 or bf16",
        &["add.rn.f32.bf16 %f0, %h0, %f1;", "fma.rn.f32.f16 %f0, %h0, %h1, %f1;"],
        &[],
    ),
    Row(
        "Comparison and selection",
        "set, setp, selp, slct; of halves, too",
        &[
            "setp.geu.and.f16x2 %p0|%p1, %r0, %r1, %p2;",
            "set.lt.f32.s32 %f0, %r0, %r1;",
            "slct.u64.f32 %x0, %x1, %x2, %f0;",
        ],
        &[],
    ),
    Row(
        "Logic and shifts",
        "and, or, xor, not, cnot, lop3, shf, shl, shr",
        &["lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x96, %p1;", "shf.r.clamp.b32 %r0, %r1, %r2, %r3;"],
        &[],
    ),
    Row(
        "Data movement",
        "mov, shfl.sync, prmt, ld, ldu, st, st.async, prefetch, prefetchu, isspacep, cvta, cvt, cvt.pack, mapa, getctarank, applypriority, discard, createpolicy",
        &[
            "ld.relaxed.gpu.global.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%x0];",
            "st.release.sys.global.u64 [%x0], %x1;",
            "mov.b128 %q0, {%x0, %x1};",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r0], {%f0, %f1, %f2, %f3}, [%r2];",
            "createpolicy.fractional.L2::evict_last.b64 %x0, 1.0;",
        ],
        &["st.async.release.gpu.global.u32 [%x0], %r1;"],
    ),
    Row(
        "cvt",
        "between all integers, f16, bf16, tf32, f32, f64; e4m3x2, e5m2x2, e2m1x2, e2m3x2, e3m2x2, ue8m0x2",
        &["cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1;", "cvt.rn.f16x2.e5m2x2 %r0, %h0;", "cvt.rna.tf32.f32 %r0, %f0;"],
        &["cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;", "cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32 %h0, %f0, %f1, %h1;"],
    ),
    Row(
        "Asynchronous copies",
        "cp.async with groups and mbarriers; cp.async.bulk, cp.reduce.async.bulk; tensor copies in tile mode with swizzles; multicast; tensormap.replace, tensormap.cp_fenceproxy",
        &[
            "cp.async.ca.shared.global [%r0], [%x0], 8, %r1;",
            "cp.async.bulk.global.shared::cta.bulk_group [%x0], [%r0], 64;",
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%x0], [%r0], 64;",
            "tensormap.replace.tile.global_stride.global.b1024.b64 [%x0], 3, %x1;",
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%x0], [%r0], 128;",
            "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%x0, {%r1}], [%r2];",
        ],
        &[
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r0], [%x0, {%r1, %r2, %r3}], [%r2], {%h0};",
            "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r0], 1;",
            "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r0], 13;",
        ],
    ),
    Row(
        "Texture and surface",
        "tex of four elements of .u32, .s32, .f32 by .s32, .f32: 1d, 2d, 3d, a1d, a2d, cube, acube; tex.level by .f32 of all, tex.grad of all but cubes; tld4; suld.b, sust.b of 1d, 2d, 3d, a1d, a2d; sust.p, sured.b, sured.p of 1d, 2d, 3d; txq, suq; all by objects",
        &[
            "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0, %f1}];",
            "tex.3d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%x0, {%r0, %r1, %r2, %r3}];",
            "tex.a1d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%x0, {%r0, %f0}];",
            "tex.acube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%r0, %f0, %f1, %f2}];",
            "tex.base.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0, %f1}];",
            "tex.level.acube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%r0, %f0, %f1, %f2}], %f3;",
            "tex.grad.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0, %f1}], {%f2, %f3}, {%f4, %f5};",
            "tld4.a.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0, %f1}];",
            "tld4.r.acube.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%x0, {%r0, %f1, %f2, %f3}];",
            "suld.b.1d.b32.trap %r0, [%x0, {%r1}];",
            "suld.b.a2d.b32.trap %r0, [%x0, {%r0, %r1, %r2, %r3}];",
            "sust.b.2d.v4.b8.clamp [%x0, {%r0, %r1}], {%h0, %h1, %h2, %h3};",
            "sust.p.3d.v2.b32.trap [%x0, {%r0, %r1, %r2, %r3}], {%f0, %r4};",
            "sured.b.min.2d.s64.clamp [%x0, {%r0, %r1}], %x1;",
            "sured.p.add.1d.b32.zero [%x0, {%r0}], %r1;",
            "txq.array_size.b32 %r0, [%x0];",
            "txq.level.height.b32 %r0, [%x0], %r1;",
            "suq.memory_layout.b32 %r0, [%x0];",
        ],
        &[
            "tex.level.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%x0, {%r0, %r1}], %r2;",
            "tex.grad.cube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%x0, {%f0, %f1, %f2, %f3}], {%f0, %f1, %f2, %f3}, {%f0, %f1, %f2, %f3};",
            "tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%x0, {%r0, %r1, %r2, %r3}];",
            "txq.channel_order.b32 %r0, [%x0];",
            "txq.filter_mode.b32 %r0, [%x0];",
            "suq.channel_data_type.b32 %r0, [%x0];",
            "sured.p.min.1d.b64.trap [%x0, {%r0}], %x1;",
        ],
    ),
    Row(
        "Control flow",
        "{}, @, bra, brx.idx, call (direct, by pointer, recursive), ret, exit",
        &["bra END;", "exit;"],
        &[],
    ),
    Row(
        "Barriers",
        "bar, barrier, bar.warp.sync, barrier.cluster, membar, fence, griddepcontrol",
        &[
            "barrier.cta.red.popc.aligned.u32 %r0, 1, 64, %p0;",
            "barrier.cluster.arrive.relaxed;",
            "fence.proxy.async;",
            "griddepcontrol.wait;",
        ],
        &[],
    ),
    Row(
        "Atomics",
        "atom and red of all operations, types and vectors; red.async; multimem.ld_reduce, .st, .red",
        &[
            "atom.global.acq_rel.gpu.cas.b128 %q0, [%x0], %q1, %q2;",
            "red.relaxed.gpu.global.add.v4.f32 [%x0], {%f0, %f1, %f2, %f3};",
            "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%r0, %r1, %r2, %r3}, [%x0];",
            "multimem.st.release.gpu.global.v2.f32 [%x0], {%f0, %f1};",
            "multimem.red.relaxed.gpu.global.add.f32 [%x0], %f0;",
        ],
        &["multimem.ld_reduce.relaxed.gpu.global.add.acc::f16.v2.e5m2x4 {%r0, %r1}, [%x0];"],
    ),
    Row(
        "Warps",
        "vote, match, activemask, redux, elect",
        &["redux.sync.max.abs.NaN.f32 %f0, %f1, %r0;", "elect.sync %r0|%p0, %r1;"],
        &[],
    ),
    Row(
        "mbarrier",
        "init, inval, expect_tx, complete_tx, arrive, arrive_drop, test_wait, try_wait, pending_count",
        &[
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p0, [%r0], %r1, %r2;",
            "mbarrier.arrive_drop.shared::cta.b64 %x0, [%r0], 2;",
        ],
        &[],
    ),
    Row(
        "wmma",
        "load, store, mma of all shapes",
        &["wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};"],
        &[],
    ),
    Row(
        "mma",
        "f16, bf16, tf32, f64, s8, u8, s4, u4, b1, e4m3, e5m2 of all shapes but Volta's m8n8k4; ldmatrix, stmatrix of b16, movmatrix",
        &[
            "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, {%f0, %f1, %f2, %f3};",
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%r0, %r1}, [%r2];",
        ],
        &[
            "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r2, %r3}, {%r0, %r1, %r2, %r3};",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3}, {%f0, %f1, %f2, %f3}, %r4, 0;",
            "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%r2];",
        ],
    ),
    Row(
        "wgmma",
        "mma_async of f16, bf16, tf32, e4m3, e5m2, s8, u8 of all shapes, A in registers or shared memory, all swizzles; fence, commit_group, wait_group",
        &[
            "wgmma.fence.sync.aligned;",
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %x0, %x1, 1, 1, -1, 0, 1;",
            "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.s8 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, %x1, %p0;",
        ],
        &[
            "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r0, %r1, %r2, %r3}, %x0, %x1, 1;",
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %x0, %x1, %r0, 0, 1, 1, 1, 0, 0;",
        ],
    ),
    Row("tcgen05", "", &[], &["tcgen05.wait::ld.sync.aligned;"]),
    Row("Stack", "stacksave, stackrestore, alloca", &["alloca.u64 %x0, %x1, 16;", "stackrestore.u64 %x0;"], &[]),
    Row(
        "Video",
        "vadd, vsub, vabsdiff, vmin, vmax, vset, vshl, vshr of words and their parts, with a second operation; vmad; vadd, vsub, vavrg, vabsdiff, vmin, vmax, vset of two halves and four bytes",
        &[
            "vadd.u32.s32.u32.sat %r0, %r1, %r2;",
            "vshl.u32.u32.u32.wrap %r0, %r1, %r2;",
            "vset.s32.u32.lt %r0.b2, %r1.h0, %r2.b3, %r3;",
            "vmax.s32.s32.s32.sat.min %r0, %r1, %r2, %r3;",
            "vmad.s32.s32.u32.sat.shr15 %r0, %r1.h0, -%r2.b3, %r3;",
            "vadd4.s32.s32.s32 %r0, %r1, %r2, %r3;",
            "vabsdiff4.u32.u32.u32.add %r0.b20, %r1.b0123, %r2.b7654, %r3;",
            "vset2.s32.s32.ge %r0, %r1.h10, %r2.h32, %r3;",
        ],
        &["vmin.s32.u32.s32.max %r0, %r1, %r2, %r3;", "vmad.s32.u32.u32.shr7 %r0, %r1, %r2, -%r3;"],
    ),
    Row(
        "Miscellaneous",
        "brkpt, nanosleep, pmevent, trap, setmaxnreg; vprintf, malloc, free, __assertfail; launches from kernels",
        &["nanosleep.u32 100;", "pmevent 3;", "setmaxnreg.inc.sync.aligned.u32 96;"],
        &[],
    ),
];

fn check(instruction: &str) -> Result<(), KernelError> {
    let text = format!(
        "{}.visible .entry k()\n{{\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %x<8>;\n.reg .b128 %q<4>;\n.reg .f32 %f<8>;\n.reg .f64 %d<8>;\n.reg .pred %p<4>;\n{instruction}\nEND:\nret;\n}}\n",
        forms::HEADER
    );
    device::image(&text).kernel("k").map(|_| ())
}

fn table() -> String {
    let mut text = String::from("| section | executed | gaps |\n|---|---|---|\n");
    for Row(section, has, _, gaps) in ROWS {
        let gaps: Vec<String> = gaps
            .iter()
            .map(|g| format!("`{}`", g.split(' ').next().unwrap_or_default().trim_end_matches(';')))
            .collect();
        text += &format!("| {section} | {has} | {} |\n", gaps.join(", "));
    }
    text
}

#[test]
fn the_table_is_true() {
    for Row(section, _, executed, gaps) in ROWS {
        for instruction in *executed {
            check(instruction).unwrap_or_else(|error| panic!("{section}: {error}"));
        }
        for instruction in *gaps {
            match check(instruction) {
                Err(KernelError::Refused(refusal)) => {
                    assert_eq!(refusal.kind, RefusalKind::Unsupported, "{refusal}");
                    assert_eq!((refusal.place.line, refusal.instruction.as_str()), (13, *instruction));
                }
                other => panic!("{section}: {instruction}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_documentation_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kernels.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- support: begin -->\n", "<!-- support: end -->");
    let (from, to) = (text.find(begin).unwrap() + begin.len(), text.find(end).unwrap());
    if std::env::var_os("FTEST_REGEN").is_some() {
        std::fs::write(path, format!("{}{}{}", &text[..from], table(), &text[to..])).unwrap();
    } else {
        assert_eq!(text[from..to], table(), "docs/kernels.md is stale; run `cargo xtask regen kernels`");
    }
}

#[test]
fn one_strange_kernel_does_not_spoil_the_others() {
    let text = format!(
        "{}.func strange()\n{{\ntcgen05.wait::ld.sync.aligned;\nret;\n}}\n.visible .entry good()\n{{\nret;\n}}\n.visible .entry bad()\n{{\ncall strange;\nret;\n}}\n",
        forms::HEADER
    );
    let image = device::image(&text);
    image.kernel("good").unwrap();
    let error = image.kernel("bad").unwrap_err().to_string();
    assert_eq!(
        error,
        "strange, line 6:1: `tcgen05.wait::ld.sync.aligned;`: not executed here: the instruction tcgen05"
    );
    assert!(matches!(image.kernel("none"), Err(KernelError::Unknown(_))));
}

#[test]
fn what_is_not_ptx_is_invalid() {
    for (instruction, what) in [
        ("add.s32 %r0, %r1;", "3 operands are expected, found 2"),
        ("add.s32 %r0, %f1, %r2;", "a .f32 register where .s32 is expected"),
        ("add.s32 %x0, %x1, %x2;", "a .b64 register where .s32 is expected"),
        ("add.f32 %f0, %f1, %zz;", "%zz is not defined"),
        ("bra NOWHERE;", "label NOWHERE is not defined"),
        ("setp.lo.s32 %p0, %r0, %r1;", "the comparison .lo of .s32"),
        ("ld.global.v4.u32 {%r0, %r1}, [%x0];", "4 destinations are expected"),
        ("cvt.rn.s32.f32 %r0, %f0;", "a rounding to integer (.rzi) is missing"),
    ] {
        match check(instruction) {
            Err(KernelError::Refused(refusal)) => {
                assert_eq!((refusal.kind, refusal.message.as_str()), (RefusalKind::Invalid, what), "{instruction}");
            }
            other => panic!("{instruction}: {other:?}"),
        }
    }
}
