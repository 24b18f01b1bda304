//! PyTorch's kernels on symmetric memory (`torch/csrc/distributed/c10d/symm_mem`, PyTorch 2.9 to 2.15): signals and barriers between
//! ranks, and reductions that read the buffers of all ranks.

use crate::call_site::cpp_name::Signature;

/// The PTX of such a kernel.
pub(super) fn write(symbol: &str, signature: &Signature) -> Option<String> {
    let Signature { scope, name, arguments, parameters } = signature;
    let parameters = parameters.as_str();
    if scope == "c10d::symmetric_memory" {
        return match (name.as_str(), parameters) {
            ("barrier_kernel", "unsigned int**, int, int, int, unsigned long") => Some(barrier(symbol)),
            ("put_signal_kernel", "unsigned int**, int, int, int, int, unsigned long") => Some(signal(symbol, PUT)),
            ("wait_signal_kernel", "unsigned int**, int, int, int, int, unsigned long") => Some(signal(symbol, WAIT)),
            _ => None,
        };
    }
    if !symbol.contains("CUDASymmetricMemoryOps_cu") {
        return None;
    }
    let mut arguments = arguments.iter().map(String::as_str);
    let element = Element::named(arguments.next()?)?;
    let alignment: u64 = arguments.next()?.parse().ok()?;
    let order = match arguments.next()?.parse().ok()? {
        -1_i64 => Order::FromOwnRank,
        _ => Order::ByRank,
    };
    let kernel = Reduction { element, lanes: alignment / element.bytes, order };
    let t = element.name;
    let rest: Vec<&str> = arguments.collect();
    match (name.as_str(), rest.as_slice()) {
        ("one_shot_all_reduce_kernel", []) => {
            let expected = format!(
                "{t}**, {t}*, {t}*, unsigned long, unsigned long, unsigned int**, unsigned long, unsigned long"
            );
            (parameters == expected).then(|| kernel.one_shot(symbol))
        }
        ("two_shot_all_reduce_kernel_inplace", []) => {
            let expected = format!("{t}**, unsigned long, unsigned long, unsigned int**, unsigned long, unsigned long");
            (parameters == expected).then(|| kernel.two_shot_in_place(symbol, alignment))
        }
        ("two_shot_all_reduce_kernel", [scatter, split]) => {
            let expected = format!(
                "{t}**, {t}*, unsigned long, unsigned long, unsigned int**, unsigned long, unsigned long, unsigned long"
            );
            (parameters == expected).then(|| match *scatter == "true" {
                true => kernel.reduce_scatter(symbol, *split == "true"),
                false => kernel.two_shot(symbol),
            })
        }
        _ => None,
    }
}

/// A text: the entry with parameters of these types, and its body. A register `%pN` has the value of each.
pub(super) fn entry(symbol: &str, parameters: &[&str], body: &str) -> String {
    let declared: Vec<String> = (0..).zip(parameters).map(|(index, kind)| format!(".param .{kind} a{index}")).collect();
    let loaded: String = (0..)
        .zip(parameters)
        .map(|(index, kind)| format!("    .reg .{kind} %p{index};\n    ld.param.{kind} %p{index}, [a{index}];\n"))
        .collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {symbol}({})\n{{\n{loaded}{REGISTERS}{body}}}\n",
        declared.join(", ")
    )
}

const REGISTERS: &str = "
    .reg .pred %q, %r;
    .reg .u32 %tid, %block, %threads, %blocks, %old, %word, %w<4>;
    .reg .u16 %half<2>;
    .reg .f32 %sum<8>, %next<8>;
    .reg .u64 %place, %target, %slot, %start, %now, %limit, %i, %stride, %index, %base, %x, %y, %step, %peer, %part, %count, %t;
    mov.u32 %tid, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %blocks, %nctaid.x;
";

const PUT: Signal = Signal { from: 0, to: 1, order: "release" };
pub(super) const WAIT: Signal = Signal { from: 1, to: 0, order: "acquire" };

/// Sets the signal at `%slot`, which the other side must have taken, or takes one that it set. `%limit` is the longest wait in
/// nanoseconds, 0 for none: after it, the kernel traps.
#[derive(Clone, Copy)]
pub(super) struct Signal {
    from: u32,
    to: u32,
    order: &'static str,
}

impl Signal {
    pub(super) fn at_slot(self, label: &str) -> String {
        let Signal { from, to, order } = self;
        format!(
            "
    mov.u64 %start, %globaltimer;
{label}:
    atom.{order}.sys.global.cas.b32 %old, [%slot], {from}, {to};
    setp.eq.u32 %r, %old, {from};
    @%r bra {label}_DONE;
    nanosleep.u32 20000;
    setp.eq.u64 %r, %limit, 0;
    @%r bra {label};
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.le.u64 %r, %now, %limit;
    @%r bra {label};
    trap;
{label}_DONE:
"
        )
    }
}

/// `%slot` of the pad at `%target`: the one for `slot`, of as many for each channel as there are ranks.
const SLOT: &str = "
    mad.lo.u64 %slot, %slot, 4, %target;
";

/// `put_signal_kernel(pads, peer, channel, rank, world size, milliseconds)`, and the same with `wait`.
fn signal(symbol: &str, signal: Signal) -> String {
    // A signal is put into the pad of the peer, at the place of this rank; and awaited the other way around.
    let (pad, place) = if signal.to == 1 { ("%p1", "%p3") } else { ("%p3", "%p1") };
    let wait = signal.at_slot("SIGNAL");
    let body = format!(
        "
    setp.ne.u32 %q, %tid, 0;
    @%q bra END;
    mul.lo.u64 %limit, %p5, 1000000;
    mul.wide.u32 %place, {pad}, 8;
    add.u64 %place, %place, %p0;
    ld.global.u64 %target, [%place];
    mad.lo.u32 %word, %p4, %p2, {place};
    cvt.u64.u32 %slot, %word;
{SLOT}{wait}
END:
    ret;
"
    );
    entry(symbol, &["u64", "u32", "u32", "u32", "u32", "u64"], &body)
}

/// `barrier_kernel(pads, channel, rank, world size, milliseconds)`: each of the first threads meets one peer.
fn barrier(symbol: &str) -> String {
    let (put, wait) = (PUT.at_slot("PUT"), WAIT.at_slot("WAIT"));
    let body = format!(
        "
    setp.ge.u32 %q, %tid, %p3;
    @%q bra END;
    setp.eq.u32 %q, %tid, %p2;
    @%q bra END;
    mul.lo.u64 %limit, %p4, 1000000;
    mul.wide.u32 %place, %tid, 8;
    add.u64 %place, %place, %p0;
    ld.global.u64 %target, [%place];
    mad.lo.u32 %word, %p3, %p1, %p2;
    cvt.u64.u32 %slot, %word;
{SLOT}{put}
    mul.wide.u32 %place, %p2, 8;
    add.u64 %place, %place, %p0;
    ld.global.u64 %target, [%place];
    mad.lo.u32 %word, %p3, %p1, %tid;
    cvt.u64.u32 %slot, %word;
{SLOT}{wait}
END:
    ret;
"
    );
    entry(symbol, &["u64", "u32", "u32", "u32", "u64"], &body)
}

/// The type of an element.
#[derive(Clone, Copy)]
pub(super) struct Element {
    name: &'static str,
    pub(super) bytes: u64,
}

impl Element {
    pub(super) fn named(name: &str) -> Option<Self> {
        const ALL: [Element; 2] = [Element { name: "float", bytes: 4 }, Element { name: "c10::BFloat16", bytes: 2 }];
        ALL.into_iter().find(|element| element.name == name)
    }
}

/// In which order the ranks are added up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Rank 0 first; world sizes for which there is an instance of the kernel.
    ByRank,
    /// To zero, from the own rank on.
    FromOwnRank,
}

/// A reduction over the buffers of all ranks: an instance of one of the templates.
struct Reduction {
    element: Element,
    /// Elements that a thread handles at once; what belongs to a rank is a multiple of it.
    lanes: u64,
    order: Order,
}

/// The registers of the parameters that all of them have.
struct Names {
    buffers: &'static str,
    offset: &'static str,
    pads: &'static str,
    rank: &'static str,
    world: &'static str,
}

impl Names {
    /// The pads, the own rank and how many there are.
    fn ranks(&self) -> [&'static str; 3] {
        [self.pads, self.rank, self.world]
    }
}

impl Reduction {
    /// `%next0` and following from the elements at `%x`.
    fn load(&self) -> String {
        let moved: String = match self.element.bytes {
            4 => (0..self.lanes).map(|lane| format!("    mov.b32 %next{lane}, %w{lane};\n")).collect(),
            _ => (0..self.lanes / 2)
                .map(|word| {
                    let (low, high) = (2 * word, 2 * word + 1);
                    format!(
                        "    shl.b32 %word, %w{word}, 16;\n    mov.b32 %next{low}, %word;\n    and.b32 %word, %w{word}, 0xffff0000;\n    mov.b32 %next{high}, %word;\n"
                    )
                })
                .collect(),
        };
        format!("    ld.global{};\n{moved}", self.words("", ", [%x]"))
    }

    /// Adds them to `%sum0` and following, rounded to the type.
    fn add(&self) -> String {
        // A sum of two in float32 has more than twice the digits of a bfloat16, so that rounding it twice is rounding it once.
        let round = |lane| match self.element.bytes {
            4 => String::new(),
            _ => format!(
                "    cvt.rn.bf16.f32 %half0, %sum{lane};\n    cvt.u32.u16 %word, %half0;\n    shl.b32 %word, %word, 16;\n    mov.b32 %sum{lane}, %word;\n"
            ),
        };
        (0..self.lanes)
            .map(|lane| format!("    add.f32 %sum{lane}, %sum{lane}, %next{lane};\n{}", round(lane)))
            .collect()
    }

    /// Stores `register` 0 and following at `%x`.
    fn store(&self, register: &str) -> String {
        let moved: String = match self.element.bytes {
            4 => (0..self.lanes).map(|lane| format!("    mov.b32 %w{lane}, %{register}{lane};\n")).collect(),
            _ => (0..self.lanes / 2)
                .map(|word| {
                    let (low, high) = (2 * word, 2 * word + 1);
                    format!(
                        "    cvt.rn.bf16.f32 %half0, %{register}{low};\n    cvt.rn.bf16.f32 %half1, %{register}{high};\n    mov.b32 %w{word}, {{%half0, %half1}};\n"
                    )
                })
                .collect(),
        };
        format!("{moved}    st.global{};\n", self.words("[%x], ", ""))
    }

    /// The type and registers of an access to all lanes.
    fn words(&self, before: &str, after: &str) -> String {
        match self.lanes * self.element.bytes / 4 {
            1 => format!(".u32 {before}%w0{after}"),
            2 => format!(".v2.u32 {before}{{%w0, %w1}}{after}"),
            _ => format!(".v4.u32 {before}{{%w0, %w1, %w2, %w3}}{after}"),
        }
    }

    /// `%sum0` and following of the elements from `%index` of all buffers.
    fn sum(&self, label: &str, names: &Names) -> String {
        let Names { buffers, offset, rank, world, .. } = names;
        // -0 is neutral, also for -0.
        let (first, peer) = match self.order {
            Order::ByRank => ("0f80000000", "    mov.u64 %peer, %step;\n".to_owned()),
            Order::FromOwnRank => {
                ("0f00000000", format!("    add.u64 %peer, %step, {rank};\n    rem.u64 %peer, %peer, {world};\n"))
            }
        };
        let zero: String = (0..self.lanes).map(|lane| format!("    mov.f32 %sum{lane}, {first};\n")).collect();
        let (load, add, bytes) = (self.load(), self.add(), self.element.bytes);
        format!(
            "
{zero}
    add.u64 %base, %index, {offset};
    mov.u64 %step, 0;
{label}:
    setp.ge.u64 %r, %step, {world};
    @%r bra {label}_END;
{peer}
    mad.lo.u64 %place, %peer, 8, {buffers};
    ld.global.u64 %x, [%place];
    mad.lo.u64 %x, %base, {bytes}, %x;
{load}{add}
    add.u64 %step, %step, 1;
    bra {label};
{label}_END:
"
        )
    }

    /// `%x`: the address of element `%index` of the buffer of rank `%peer`.
    fn at_peer(&self, names: &Names) -> String {
        let Names { buffers, offset, .. } = names;
        let bytes = self.element.bytes;
        format!(
            "
    mad.lo.u64 %place, %peer, 8, {buffers};
    ld.global.u64 %x, [%place];
    add.u64 %y, %index, {offset};
    mad.lo.u64 %x, %y, {bytes}, %x;
"
        )
    }

    /// `(buffers, output, input or null, offset, elements, pads, rank, world size)`
    fn one_shot(&self, symbol: &str) -> String {
        let names = Names { buffers: "%p0", offset: "%p3", pads: "%p5", rank: "%p6", world: "%p7" };
        let (store, copied, bytes) = (self.store("sum"), self.store("next"), self.element.bytes);
        let (load, at_own) = (self.load(), self.at_peer(&names));
        let copy = each(
            self.lanes,
            "COPY",
            "%p4",
            &format!(
                "    mov.u64 %peer, %p6;\n    mov.u64 %index, %i;\n    mad.lo.u64 %x, %i, {bytes}, %p2;\n{load}{at_own}{copied}"
            ),
        );
        let sum = self.sum("SUM", &names);
        let reduce = each(
            self.lanes,
            "REDUCE",
            "%p4",
            &format!("    mov.u64 %index, %i;\n{sum}    mad.lo.u64 %x, %i, {bytes}, %p1;\n{store}"),
        );
        let (first, last) = (meet("FIRST", names.ranks()), meet("LAST", names.ranks()));
        let body =
            format!("    setp.eq.u64 %q, %p2, 0;\n    @%q bra COPIED;\n{copy}COPIED:\n{first}{reduce}{last}    ret;\n");
        entry(symbol, &["u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64"], &body)
    }

    /// `(buffers, offset, elements, pads, rank, world size)`
    fn two_shot_in_place(&self, symbol: &str, alignment: u64) -> String {
        let names = Names { buffers: "%p0", offset: "%p1", pads: "%p3", rank: "%p4", world: "%p5" };
        let (store, sum, at_peer) = (self.store("sum"), self.sum("SUM", &names), self.at_peer(&names));
        let part = part(alignment, "%p2", "%p5");
        let reduce = each(
            self.lanes,
            "REDUCE",
            "%part",
            &format!(
                "
    mad.lo.u64 %index, %part, %p4, %i;
    setp.ge.u64 %r, %index, %p2;
    @%r bra REDUCE_NEXT;
{sum}
    mov.u64 %peer, 0;
SPREAD:
{at_peer}{store}
    add.u64 %peer, %peer, 1;
    setp.lt.u64 %r, %peer, %p5;
    @%r bra SPREAD;
"
            ),
        );
        let (first, last) = (meet("FIRST", names.ranks()), meet("LAST", names.ranks()));
        entry(symbol, &["u64", "u64", "u64", "u64", "u64", "u64"], &format!("{part}{first}{reduce}{last}    ret;\n"))
    }

    /// `(buffers, output, offset, elements, pads, rank, world size, last dimension)`
    fn two_shot(&self, symbol: &str) -> String {
        let names = Names { buffers: "%p0", offset: "%p2", pads: "%p4", rank: "%p5", world: "%p6" };
        let (load, copied, store) = (self.load(), self.store("next"), self.store("sum"));
        let bytes = self.element.bytes;
        let (sum, at_peer) = (self.sum("SUM", &names), self.at_peer(&names));
        let part = part(self.lanes, "%p3", "%p6");
        let reduce = each(
            self.lanes,
            "REDUCE",
            "%part",
            &format!(
                "
    mad.lo.u64 %index, %part, %p5, %i;
    setp.ge.u64 %r, %index, %p3;
    @%r bra REDUCE_NEXT;
{sum}
    mov.u64 %peer, %p5;
{at_peer}{store}"
            ),
        );
        let gather = each(
            self.lanes,
            "GATHER",
            "%part",
            &format!(
                "
    mov.u64 %peer, 0;
OTHER:
    mad.lo.u64 %index, %part, %peer, %i;
    setp.ge.u64 %r, %index, %p3;
    @%r bra GATHER_NEXT;
{at_peer}{load}
    mad.lo.u64 %x, %index, {bytes}, %p1;
{copied}
    add.u64 %peer, %peer, 1;
    setp.lt.u64 %r, %peer, %p6;
    @%r bra OTHER;
"
            ),
        );
        let [first, middle, last] = ["FIRST", "MIDDLE", "LAST"].map(|label| meet(label, names.ranks()));
        let body = format!("{part}{first}{reduce}{middle}{gather}{last}    ret;\n");
        entry(symbol, &["u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64"], &body)
    }

    /// As [`Self::two_shot`]; each rank keeps its part. If it is split along the last dimension, that is a part of every row.
    fn reduce_scatter(&self, symbol: &str, is_split: bool) -> String {
        let names = Names { buffers: "%p0", offset: "%p2", pads: "%p4", rank: "%p5", world: "%p6" };
        let (store, bytes, sum) = (self.store("sum"), self.element.bytes, self.sum("SUM", &names));
        let part = part(self.lanes, "%p3", "%p6");
        let index = if is_split {
            "
    div.u64 %count, %p7, %p6;
    div.u64 %x, %i, %count;
    rem.u64 %y, %i, %count;
    mad.lo.u64 %index, %x, %p7, %y;
    mad.lo.u64 %index, %count, %p5, %index;
"
        } else {
            "    mad.lo.u64 %index, %part, %p5, %i;\n"
        };
        let reduce =
            each(self.lanes, "REDUCE", "%part", &format!("{index}{sum}    mad.lo.u64 %x, %i, {bytes}, %p1;\n{store}"));
        let (first, last) = (meet("FIRST", names.ranks()), meet("LAST", names.ranks()));
        let body = format!("{part}{first}{reduce}{last}    ret;\n");
        entry(symbol, &["u64", "u64", "u64", "u64", "u64", "u64", "u64", "u64"], &body)
    }
}

/// Every block meets the same block of each rank: thread N the one of rank N. Memory that was written before is seen after it.
pub(super) fn meet(label: &str, [pads, rank, world]: [&str; 3]) -> String {
    let (put, wait) = (PUT.at_slot(&format!("{label}_PUT")), WAIT.at_slot(&format!("{label}_WAIT")));
    format!(
        "
    bar.sync 0;
    cvt.u64.u32 %t, %tid;
    setp.ge.u64 %q, %t, {world};
    @%q bra {label};
    mov.u64 %limit, 0;
    cvt.u64.u32 %y, %block;
    mad.lo.u64 %place, %t, 8, {pads};
    ld.global.u64 %target, [%place];
    mad.lo.u64 %slot, %y, {world}, {rank};
{SLOT}{put}
    mad.lo.u64 %place, {rank}, 8, {pads};
    ld.global.u64 %target, [%place];
    mad.lo.u64 %slot, %y, {world}, %t;
{SLOT}{wait}
{label}:
    bar.sync 0;
"
    )
}

/// `body` for each `%i` of this thread below `count`, in steps of `lanes`.
pub(super) fn each(lanes: u64, label: &str, count: &str, body: &str) -> String {
    format!(
        "
    mad.lo.u32 %word, %threads, %block, %tid;
    mul.wide.u32 %i, %word, {lanes};
    mul.wide.u32 %stride, %threads, %blocks;
    mul.lo.u64 %stride, %stride, {lanes};
{label}:
    setp.ge.u64 %q, %i, {count};
    @%q bra {label}_END;
{body}
{label}_NEXT:
    add.u64 %i, %i, %stride;
    bra {label};
{label}_END:
"
    )
}

/// `%part`: the elements of each rank out of `count`, a multiple of `lanes`.
pub(super) fn part(lanes: u64, count: &str, world: &str) -> String {
    format!(
        "
    mul.lo.u64 %x, {world}, {lanes};
    add.u64 %part, {count}, %x;
    sub.u64 %part, %part, 1;
    div.u64 %part, %part, %x;
    mul.lo.u64 %part, %part, {lanes};
"
    )
}
