//! PyTorch's kernels on multicast addresses of symmetric memory (`torch/csrc/distributed/c10d/symm_mem`, PyTorch 2.9 to 2.15).

use super::symmetric::{Element, WAIT, each, entry, meet, part};
use crate::call_site::cpp_name::Signature;

/// The PTX of such a kernel.
pub(super) fn write(symbol: &str, signature: &Signature) -> Option<String> {
    let Signature { scope, name, arguments, parameters } = signature;
    let parameters = parameters.as_str();
    if scope == "c10d::symmetric_memory" && name == "multimem_barrier_kernel" {
        let expected = "unsigned int*, unsigned int*, int, int, int, unsigned long";
        return (parameters == expected).then(|| barrier(symbol));
    }
    if !symbol.contains("CUDASymmetricMemoryOps_cu") {
        return None;
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (name.as_str(), arguments.as_slice()) {
        ("multimem_all_gather_kernel", [alignment]) => {
            let expected = "char*, char*, unsigned long, unsigned int**, unsigned long, unsigned long";
            (parameters == expected).then_some(all_gather(symbol, Piece::new(alignment)?))
        }
        ("multimem_all_reduce_kernel", [element, alignment]) => {
            let expected = format!("{element}*, unsigned long, unsigned int**, unsigned long, unsigned long");
            (parameters == expected).then_some(all_reduce(symbol, Element::named(element)?, Piece::new(alignment)?))
        }
        ("multimem_one_shot_all_reduce_kernel" | "multimem_one_shot_reduce_kernel", [element, alignment]) => {
            let has_root = name == "multimem_one_shot_reduce_kernel";
            let expected = format!(
                "{element}*, {element}*, unsigned long, unsigned int**, unsigned long, unsigned long{}",
                if has_root { ", long" } else { "" }
            );
            let (element, piece) = (Element::named(element)?, Piece::new(alignment)?);
            (parameters == expected).then_some(one_shot(symbol, element, piece, has_root))
        }
        _ => None,
    }
}

/// What a thread moves at once.
#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    /// The vector of as many words, and its registers.
    vector: &'static str,
    words: &'static str,
}

impl Piece {
    fn new(alignment: &str) -> Option<Self> {
        let (bytes, vector, words) = match alignment {
            "4" => (4, "", "%v0"),
            "8" => (8, ".v2", "{%v0, %v1}"),
            "16" => (16, ".v4", "{%v0, %v1, %v2, %v3}"),
            _ => return None,
        };
        Some(Self { bytes, vector, words })
    }

    /// The sums at all devices, of what is at `%x` there.
    fn reduce(self, element: Element) -> String {
        let kind = if element.bytes == 4 { ".f32" } else { ".bf16x2" };
        let sum = if element.bytes == 4 { "" } else { ".acc::f32" };
        let Self { vector, words, .. } = self;
        format!("    multimem.ld_reduce.relaxed.sys.global.add{sum}{vector}{kind} {words}, [%x];\n")
    }

    /// Stores it at `%x` of all devices.
    fn store(self) -> String {
        let Self { vector, words, .. } = self;
        format!("    multimem.st.relaxed.sys.global{vector}.f32 [%x], {words};\n")
    }
}

const WORDS: &str = "    .reg .b32 %v<4>;\n";

/// `(multicast address, elements, pads, rank, world size)`
fn all_reduce(symbol: &str, element: Element, piece: Piece) -> String {
    let ranks = ["%p2", "%p3", "%p4"];
    let (bytes, sums, store) = (element.bytes, piece.reduce(element), piece.store());
    let part = part(piece.bytes, "%p1", "%p4");
    let reduce = format!(
        "
    mad.lo.u64 %index, %part, %p3, %i;
    setp.ge.u64 %r, %index, %p1;
    @%r bra REDUCE_NEXT;
    mad.lo.u64 %x, %index, {bytes}, %p0;
{sums}{store}"
    );
    let reduce = each(piece.bytes / bytes, "REDUCE", "%part", &reduce);
    let (first, last) = (meet("FIRST", ranks), meet("LAST", ranks));
    entry(symbol, &["u64"; 5], &format!("{WORDS}{part}{first}{reduce}{last}    ret;\n"))
}

/// `(multicast address, output, elements, pads, rank, world size)`, and the only rank that has an output if there is a root.
fn one_shot(symbol: &str, element: Element, piece: Piece, has_root: bool) -> String {
    let ranks = ["%p3", "%p4", "%p5"];
    let (bytes, sums) = (element.bytes, piece.reduce(element));
    let Piece { vector, words, .. } = piece;
    let reduce = format!(
        "
    mad.lo.u64 %x, %i, {bytes}, %p0;
{sums}
    mad.lo.u64 %y, %i, {bytes}, %p1;
    st.global{vector}.b32 [%y], {words};
"
    );
    let reduce = each(piece.bytes / bytes, "REDUCE", "%p2", &reduce);
    let skip = if has_root { "    setp.ne.u64 %q, %p4, %p6;\n    @%q bra REDUCED;\n" } else { "" };
    let (first, last) = (meet("FIRST", ranks), meet("LAST", ranks));
    let body = format!("{WORDS}{first}{skip}{reduce}REDUCED:\n{last}    ret;\n");
    entry(symbol, &["u64"; 7][..6 + usize::from(has_root)], &body)
}

/// `(input, multicast address of the output, bytes of a rank, pads, rank, world size)`
fn all_gather(symbol: &str, piece: Piece) -> String {
    let ranks = ["%p3", "%p4", "%p5"];
    let (Piece { vector, words, .. }, store) = (piece, piece.store());
    let copy = format!(
        "
    add.u64 %x, %p0, %i;
    ld.global{vector}.b32 {words}, [%x];
    mad.lo.u64 %x, %p2, %p4, %i;
    add.u64 %x, %x, %p1;
{store}"
    );
    let copy = each(piece.bytes, "COPY", "%p2", &copy);
    let (first, last) = (meet("FIRST", ranks), meet("LAST", ranks));
    entry(symbol, &["u64"; 6], &format!("{WORDS}{first}{copy}{last}    ret;\n"))
}

/// `(own pad, multicast address of the pads, channel, rank, world size, milliseconds)`: one thread sets the place of its rank in all
/// pads, once each rank has taken what was there, and takes the place of each rank in its own.
fn barrier(symbol: &str) -> String {
    let wait = WAIT.at_slot("WAIT");
    let body = format!(
        "
    mul.lo.u64 %limit, %p5, 1000000;
    mul.lo.u32 %w0, %p4, %p2;
    add.u32 %word, %w0, %p3;
    cvt.u64.u32 %x, %word;
    mad.lo.u64 %x, %x, 4, %p1;
    mov.u64 %start, %globaltimer;
SET:
    multimem.ld_reduce.acquire.sys.global.or.b32 %old, [%x];
    setp.eq.u32 %r, %old, 0;
    @%r bra SET_DONE;
    nanosleep.u32 20000;
    setp.eq.u64 %r, %limit, 0;
    @%r bra SET;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.le.u64 %r, %now, %limit;
    @%r bra SET;
    trap;
SET_DONE:
    multimem.st.release.sys.global.u32 [%x], 1;
    mov.u32 %w1, 0;
PEER:
    setp.ge.u32 %q, %w1, %p4;
    @%q bra END;
    add.u32 %word, %w0, %w1;
    cvt.u64.u32 %slot, %word;
    mad.lo.u64 %slot, %slot, 4, %p0;
{wait}
    add.u32 %w1, %w1, 1;
    bra PEER;
END:
    ret;
"
    );
    entry(symbol, &["u64", "u64", "u32", "u32", "u32", "u64"], &body)
}
