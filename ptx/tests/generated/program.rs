//! Random programs as PTX: statements of a structured language, from proptest's strategies, and the kernel that they make. Every
//! thread reads its own input, and stores all registers at the end. What needs all lanes of a warp is only written where all come.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Registers of each kind. Statements read all and write but the first few, so that some keep the zero that they begin with.
const WORDS: usize = 8;
const WRITTEN_WORDS: usize = 6;
const PAIRS: usize = 3;
const FLOATS: usize = 3;
const CONDITIONS: usize = 3;

/// Words that a thread stores at its end.
pub(crate) const RESULTS: usize = WORDS + 2 * PAIRS + FLOATS + CONDITIONS;

/// Words of input that a thread can read.
pub(crate) const INPUTS: usize = 64;

/// Words of global memory that are a thread's own.
pub(crate) const OWN: usize = 4;

/// A part of a program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Instructions of one thread, and what they are an example of.
    Line(&'static str, String),
    /// Those for which all lanes of the block have to come.
    Together(&'static str, String),
    /// On a condition of each thread, or on one that is the same in all.
    If { condition: Condition, then: Vec<Step>, other: Vec<Step> },
    /// A comparison to a predicate of its own, what is between, and a branch on it.
    Decide { comparison: String, between: Vec<Step>, then: Vec<Step> },
    /// To the end, on a condition that never holds.
    Leave,
    /// So many turns.
    Loop { turns: Turns, body: Vec<Step> },
    /// Out of the innermost loop, if the lanes of that may part.
    Break(Condition),
}

/// What decides.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// A predicate, or its negation.
    Own(usize, bool),
    /// Whether the number of the block is even.
    Block(bool),
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turns {
    Same(u32),
    /// By the thread's number, at least one.
    Own(u32),
}

fn word() -> impl Strategy<Value = String> {
    (0..WORDS).prop_map(|number| format!("%r{number}"))
}

fn written() -> impl Strategy<Value = String> {
    (0..WRITTEN_WORDS).prop_map(|number| format!("%r{number}"))
}

fn pair() -> impl Strategy<Value = String> {
    (0..PAIRS).prop_map(|number| format!("%d{number}"))
}

fn float() -> impl Strategy<Value = String> {
    (0..FLOATS).prop_map(|number| format!("%f{number}"))
}

fn predicate() -> impl Strategy<Value = String> {
    (0..CONDITIONS).prop_map(|number| format!("%p{number}"))
}

fn number() -> impl Strategy<Value = String> {
    select(vec![0i64, 1, 2, 3, 4, 7, 8, 12, 16, 31, 33, 100, 255, 0x7fff_ffff, 0xffff_fffc]).prop_map(|n| n.to_string())
}

fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => word(),
        2 => number(),
        1 => select(vec!["%tid", "%lane", "%block"]).prop_map(String::from),
    ]
}

fn guard() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        1 => (predicate(), any::<bool>()).prop_map(|(p, not)| format!("@{}{p} ", if not { "!" } else { "" })),
    ]
}

fn own_condition() -> impl Strategy<Value = Condition> {
    (0..CONDITIONS, any::<bool>()).prop_map(|(number, negated)| Condition::Own(number, negated))
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![3 => own_condition(), 1 => any::<bool>().prop_map(Condition::Block)]
}

/// Arithmetic on words.
fn words() -> impl Strategy<Value = Step> {
    let two = select(vec![
        "add.u32",
        "sub.u32",
        "mul.lo.u32",
        "mul.hi.s32",
        "min.s32",
        "max.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
        "shl.b32",
        "shr.u32",
        "shr.s32",
    ]);
    let one = select(vec!["mov.u32", "neg.s32", "not.b32", "popc.b32", "clz.b32", "brev.b32"]);
    prop_oneof![
        6 => (guard(), two, written(), word(), operand())
            .prop_map(|(guard, op, dst, a, b)| format!("{guard}{op} {dst}, {a}, {b};")),
        2 => (guard(), one, written(), word()).prop_map(|(guard, op, dst, a)| format!("{guard}{op} {dst}, {a};")),
        1 => (guard(), written(), operand()).prop_map(|(guard, dst, a)| format!("{guard}mov.u32 {dst}, {a};")),
        1 => (written(), word(), operand(), word())
            .prop_map(|(dst, a, b, c)| format!("mad.lo.u32 {dst}, {a}, {b}, {c};")),
        1 => (written(), written(), word(), word(), word(), word()).prop_map(|(low, high, a, b, c, d)| {
            format!("add.cc.u32 {low}, {a}, {b};\n    addc.u32 {high}, {c}, {d};")
        }),
        1 => (word(), word()).prop_map(|(a, b)| {
            format!("@%p0 add.u32 %r{WRITTEN_WORDS}, %r{WRITTEN_WORDS}, {a};\n    mov.b64 %d0, {{{b}, %r{WRITTEN_WORDS}}};")
        }),
    ]
    .prop_map(|text| Step::Line("words", text))
}

/// Pairs of words in one register, with halves that nobody reads.
fn pairs() -> impl Strategy<Value = Step> {
    let two = select(vec!["add.u64", "sub.u64", "mul.lo.u64", "and.b64", "or.b64", "xor.b64"]);
    let shift = select(vec!["shl.b64", "shr.u64", "shr.s64"]);
    prop_oneof![
        3 => (pair(), operand_of_pair(), operand_of_pair()).prop_map(|(d, a, b)| format!("mov.b64 {d}, {{{a}, {b}}};")),
        1 => (pair(), written(), written())
            .prop_filter("two halves", |(_, a, b)| a != b)
            .prop_map(|(d, a, b)| format!("mov.b64 {{{a}, {b}}}, {d};")),
        1 => (pair(), written()).prop_map(|(d, a)| format!("mov.b64 {{_, {a}}}, {d};")),
        1 => (pair(), written()).prop_map(|(d, a)| format!("mov.b64 {{{a}, _}}, {d};")),
        1 => (guard(), two, pair(), pair(), pair()).prop_map(|(guard, op, d, a, b)| format!("{guard}{op} {d}, {a}, {b};")),
        1 => (shift, pair(), pair(), 0u32..66).prop_map(|(op, d, a, by)| format!("{op} {d}, {a}, {by};")),
        1 => (pair(), word(), operand()).prop_map(|(d, a, b)| format!("mul.wide.u32 {d}, {a}, {b};")),
        1 => (pair(), word()).prop_map(|(d, a)| format!("cvt.u64.u32 {d}, {a};")),
        1 => (written(), pair()).prop_map(|(a, d)| format!("cvt.u32.u64 {a}, {d};")),
    ]
    .prop_map(|text| Step::Line("pairs", text))
}

/// A half of a pair is a register.
fn operand_of_pair() -> impl Strategy<Value = String> {
    prop_oneof![5 => word(), 1 => select(vec!["%tid", "%lane", "%block"]).prop_map(String::from)]
}

fn floats() -> impl Strategy<Value = Step> {
    prop_oneof![
        (guard(), select(vec!["add.rn.f32", "mul.rn.f32", "sub.rn.f32"]), float(), float(), float())
            .prop_map(|(guard, op, d, a, b)| format!("{guard}{op} {d}, {a}, {b};")),
        (float(), float(), float(), float()).prop_map(|(d, a, b, c)| format!("fma.rn.f32 {d}, {a}, {b}, {c};")),
        (float(), word()).prop_map(|(d, a)| format!("cvt.rn.f32.u32 {d}, {a};")),
        (written(), float()).prop_map(|(d, a)| format!("mov.b32 {d}, {a};")),
    ]
    .prop_map(|text| Step::Line("floats", text))
}

fn predicates() -> impl Strategy<Value = Step> {
    let compare = select(vec!["eq.u32", "ne.u32", "lt.u32", "ge.s32", "gt.u32", "le.s32"]);
    prop_oneof![
        4 => (guard(), compare, predicate(), word(), operand())
            .prop_map(|(guard, op, p, a, b)| format!("{guard}setp.{op} {p}, {a}, {b};")),
        1 => (predicate(), number()).prop_map(|(p, n)| format!("setp.lt.u32 {p}, %tid, {n};")),
        1 => (select(vec!["and", "or", "xor"]), predicate(), predicate(), predicate())
            .prop_map(|(op, p, a, b)| format!("{op}.pred {p}, {a}, {b};")),
        1 => (predicate(), predicate()).prop_map(|(p, a)| format!("not.pred {p}, {a};")),
        2 => (written(), word(), operand(), predicate())
            .prop_map(|(d, a, b, p)| format!("selp.b32 {d}, {a}, {b}, {p};")),
    ]
    .prop_map(|text| Step::Line("predicates", text))
}

/// Of global memory: a row with a word for each lane, one word for all, and anywhere; and the thread's own words of all memories.
fn memory() -> impl Strategy<Value = Step> {
    let own = 0..OWN as u32 * 4 / 4;
    prop_oneof![
        2 => (guard(), written()).prop_map(|(guard, d)| format!("{guard}ld.global.u32 {d}, [%row];")),
        1 => (written(), 0u32..INPUTS as u32).prop_map(|(d, at)| format!("ld.global.u32 {d}, [%input+{}];", at * 4)),
        2 => (written(), word()).prop_map(|(d, a)| {
            format!("and.b32 %x, {a}, {};\n    mul.wide.u32 %y, %x, 4;\n    add.u64 %y, %y, %input;\n    ld.global.u32 {d}, [%y];", INPUTS - 1)
        }),
        2 => (guard(), own.clone(), word())
            .prop_map(|(guard, at, a)| format!("{guard}st.global.u32 [%own+{}], {a};", at * 4)),
        1 => (written(), own).prop_map(|(d, at)| format!("ld.global.u32 {d}, [%own+{}];", at * 4)),
        1 => (guard(), word(), written()).prop_map(|(guard, a, d)| {
            format!("{guard}st.shared.u32 [%slot], {a};\n    ld.shared.u32 {d}, [%slot];")
        }),
        1 => (guard(), word(), written())
            .prop_map(|(guard, a, d)| format!("{guard}st.local.u32 [local+4], {a};\n    ld.local.u32 {d}, [local+4];")),
    ]
    .prop_map(|text| Step::Line("memory", text))
}

/// Exchanges in a warp, and through shared memory.
fn exchanges() -> impl Strategy<Value = Step> {
    let shuffle = prop_oneof![
        (select(vec!["bfly", "down", "idx"]), Just(31u32)),
        (Just("up"), Just(0u32)),
        (select(vec!["bfly", "idx"]), Just(0x1c03u32)),
    ];
    let by = prop_oneof![3 => (0u32..32).prop_map(|by| by.to_string()), 1 => word()];
    prop_oneof![
        4 => (shuffle, written(), predicate(), word(), by).prop_map(|((mode, c), d, p, a, by)| {
            Step::Together("shuffles", format!("shfl.sync.{mode}.b32 {d}|{p}, {a}, {by}, {c}, -1;"))
        }),
        1 => (written(), predicate())
            .prop_map(|(d, p)| Step::Together("votes", format!("vote.sync.ballot.b32 {d}, {p}, -1;"))),
        1 => (select(vec!["any", "all"]), predicate(), predicate())
            .prop_map(|(mode, d, p)| Step::Together("votes", format!("vote.sync.{mode}.pred {d}, {p}, -1;"))),
        3 => (written(), word(), 0u32..64).prop_map(|(d, a, by)| {
            let text = format!(
                "bar.sync 0;\n    st.shared.u32 [%slot], {a};\n    bar.sync 0;\n    add.u32 %x, %tid, {by};\n    rem.u32 %x, %x, %threads;\n    \
                 shl.b32 %x, %x, 2;\n    mov.u32 %z, exchange;\n    add.u32 %x, %x, %z;\n    ld.shared.u32 {d}, [%x];\n    bar.sync 0;"
            );
            Step::Together("shared memory", text)
        }),
    ]
}

/// A few statements, with others inside.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        4 => words(),
        3 => pairs(),
        1 => floats(),
        4 => predicates(),
        2 => memory(),
        5 => exchanges(),
        1 => own_condition().prop_map(Step::Break),
        1 => Just(Step::Leave),
    ];
    let one = leaf.prop_recursive(3, 24, 5, |inner| {
        let turns = prop_oneof![(1u32..4).prop_map(Turns::Same), (1u32..4).prop_map(Turns::Own)];
        let body = vec(inner.clone(), 1..5);
        let compare = select(vec!["setp.eq.u32", "setp.ne.u32", "setp.lt.u32", "setp.ge.s32"]);
        let comparison = (compare, prop_oneof![word(), Just("%tid".to_owned())], operand());
        prop_oneof![
            2 => (condition(), body.clone(), prop_oneof![Just(vec![]), vec(inner.clone(), 1..5)])
                .prop_map(|(condition, then, other)| Step::If { condition, then, other }),
            1 => (comparison, vec(inner, 0..4), body.clone()).prop_map(|((op, a, b), between, then)| {
                Step::Decide { comparison: format!("{op} {{}}, {a}, {b};"), between, then }
            }),
            1 => (turns, body).prop_map(|(turns, body)| Step::Loop { turns, body }),
        ]
    });
    vec(one, 3..10)
}

/// A program's text, with what is in it.
#[derive(Default)]
pub(crate) struct Kernel {
    text: String,
    labels: usize,
    /// How many of each kind of statement.
    pub(crate) contents: BTreeMap<&'static str, u32>,
    /// Of the loops around: the label behind, and whether lanes may leave it at different times.
    loops: Vec<(usize, bool)>,
}

impl Kernel {
    pub(crate) fn new(steps: &[Step]) -> Self {
        let mut kernel = Self::default();
        kernel.begin();
        kernel.all(steps, true);
        kernel.end();
        kernel
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "    {text}");
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn place(&mut self, label: usize) {
        let _ = writeln!(self.text, "L{label}:");
    }

    fn count(&mut self, kind: &'static str) {
        *self.contents.entry(kind).or_default() += 1;
    }

    fn begin(&mut self) {
        let _ = writeln!(
            self.text,
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 input, .param .u64 own, .param .u64 out) {{\n    \
             .reg .u32 %r<{WORDS}>, %tid, %lane, %block, %threads, %x, %z, %slot, %global, %turn<8>, %turns<8>;\n    \
             .reg .u64 %d<{PAIRS}>, %input, %row, %own, %out, %y;\n    \
             .reg .f32 %f<{FLOATS}>;\n    .reg .pred %p<{CONDITIONS}>, %even, %never, %again;\n    \
             .shared .align 4 .b8 exchange[1024];\n    .local .align 4 .b8 local[16];"
        );
        for line in [
            "mov.u32 %tid, %tid.x;",
            "mov.u32 %lane, %laneid;",
            "mov.u32 %block, %ctaid.x;",
            "mov.u32 %threads, %ntid.x;",
            "and.b32 %x, %block, 1;",
            "setp.eq.u32 %even, %x, 0;",
            "setp.eq.u32 %never, %threads, 0;",
            "mad.lo.u32 %global, %block, %threads, %tid;",
            "shl.b32 %slot, %tid, 2;",
            "mov.u32 %z, exchange;",
            "add.u32 %slot, %slot, %z;",
            "ld.param.u64 %input, [input];",
            "mul.wide.u32 %row, %tid, 4;",
            "add.u64 %row, %row, %input;",
            "ld.param.u64 %own, [own];",
            &format!("mul.wide.u32 %y, %global, {};", OWN * 4),
            "add.u64 %own, %own, %y;",
            "ld.param.u64 %out, [out];",
            &format!("mul.wide.u32 %y, %global, {};", RESULTS * 4),
            "add.u64 %out, %out, %y;",
            "st.shared.u32 [%slot], %tid;",
            "st.local.u32 [local+4], %tid;",
        ] {
            self.line(line);
        }
    }

    fn end(&mut self) {
        self.text.push_str("END:\n");
        let mut at = 0;
        let mut store = |kernel: &mut Self, register: &str, kind: &str, bytes: usize| {
            kernel.line(&format!("st.global.{kind} [%out+{at}], {register};"));
            at += bytes;
        };
        for number in 0..WORDS {
            store(self, &format!("%r{number}"), "u32", 4);
        }
        for number in 0..PAIRS {
            self.line(&format!("mov.b64 {{%x, %z}}, %d{number};"));
            store(self, "%x", "u32", 4);
            store(self, "%z", "u32", 4);
        }
        for number in 0..FLOATS {
            store(self, &format!("%f{number}"), "f32", 4);
        }
        for number in 0..CONDITIONS {
            self.line(&format!("selp.u32 %x, 1, 0, %p{number};"));
            store(self, "%x", "u32", 4);
        }
        self.line("ret;");
        self.text.push_str("}\n");
    }

    /// `together`: all threads of the block come here.
    fn all(&mut self, steps: &[Step], together: bool) {
        let mut together = together;
        for step in steps {
            self.step(step, together);
            // Behind it, those that stayed in the loop are alone.
            together &= !matches!(step, Step::Break(_)) || self.loops.is_empty();
        }
    }

    fn step(&mut self, step: &Step, together: bool) {
        match step {
            Step::Line(kind, text) => {
                self.count(kind);
                self.line(text);
            }
            Step::Together(kind, text) if together => {
                self.count(kind);
                self.line(text);
            }
            Step::Together(..) => {}
            Step::If { condition, then, other } => self.branch(condition, then, other, together),
            Step::Decide { comparison, between, then } => {
                self.count("late branches");
                let behind = self.label();
                self.line(&format!(".reg .pred %q{behind};"));
                self.line(&comparison.replace("{}", &format!("%q{behind}")));
                self.all(between, together);
                self.line(&format!("@!%q{behind} bra L{behind};"));
                self.all(then, false);
                self.place(behind);
            }
            Step::Leave => {
                self.count("ways out");
                self.line("@%never bra END;");
            }
            Step::Loop { turns, body } => self.turns(*turns, body, together),
            Step::Break(condition) => {
                if let Some((behind, true)) = self.loops.last().copied() {
                    self.count("breaks");
                    let (yes, _) = words_of(condition);
                    self.line(&format!("@{yes} bra L{behind};"));
                }
            }
        }
    }

    fn branch(&mut self, condition: &Condition, then: &[Step], other: &[Step], together: bool) {
        self.count(if matches!(condition, Condition::Own(..)) { "branches of lanes" } else { "branches of blocks" });
        let together = together && matches!(condition, Condition::Block(_));
        let (_, no) = words_of(condition);
        let behind = self.label();
        if other.is_empty() {
            self.line(&format!("@{no} bra L{behind};"));
            self.all(then, together);
        } else {
            let otherwise = self.label();
            self.line(&format!("@{no} bra L{otherwise};"));
            self.all(then, together);
            self.line(&format!("bra L{behind};"));
            self.place(otherwise);
            self.all(other, together);
        }
        self.place(behind);
    }

    fn turns(&mut self, turns: Turns, body: &[Step], together: bool) {
        let depth = self.loops.len();
        let (again, behind) = (self.label(), self.label());
        let parts = match turns {
            Turns::Same(turns) => {
                self.count("loops");
                self.line(&format!("mov.u32 %turns{depth}, {turns};"));
                !together
            }
            Turns::Own(most) => {
                self.count("loops of lanes");
                self.line(&format!("rem.u32 %turns{depth}, %tid, {most};"));
                true
            }
        };
        self.line(&format!("mov.u32 %turn{depth}, 0;"));
        self.place(again);
        self.loops.push((behind, parts));
        self.all(body, together && !parts);
        self.loops.pop();
        self.line(&format!("add.u32 %turn{depth}, %turn{depth}, 1;"));
        self.line(&format!("setp.lt.u32 %again, %turn{depth}, %turns{depth};"));
        self.line(&format!("@%again bra L{again};"));
        self.place(behind);
    }
}

/// A condition as a guard, and its negation.
fn words_of(condition: &Condition) -> (String, String) {
    let (name, negated) = match condition {
        Condition::Own(number, negated) => (format!("%p{number}"), *negated),
        Condition::Block(negated) => ("%even".to_owned(), *negated),
    };
    let not = format!("!{name}");
    if negated { (not, name) } else { (name, not) }
}
