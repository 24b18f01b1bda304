//! Prints a parsed expression as text again, so that each part can be evaluated by itself and shown as it was evaluated.

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, CompareOpKind, Expr, UnaryOpKind};
use minijinja::value::ValueKind;

/// How tightly a form binds, in the parser's order: a part that binds less tightly than its position requires gets
/// parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    IfElse,
    Or,
    And,
    Not,
    Compare,
    Add,
    Concat,
    Multiply,
    Power,
    Unary,
    Postfix,
}

/// The text of `expr`. Parsed again it gives the same tree.
pub(super) fn text(expr: &Expr<'_>) -> String {
    at_level(expr, Level::IfElse)
}

/// The text of `expr` as an operand of `or`.
pub(super) fn text_in_or(expr: &Expr<'_>) -> String {
    at_level(expr, Level::Or)
}

/// The sign of an operator between two sides, with its spaces.
pub(super) fn sign(op: BinOpKind) -> &'static str {
    match op {
        BinOpKind::Eq => " == ",
        BinOpKind::Ne => " != ",
        BinOpKind::Lt => " < ",
        BinOpKind::Lte => " <= ",
        BinOpKind::Gt => " > ",
        BinOpKind::Gte => " >= ",
        BinOpKind::ScAnd => " and ",
        BinOpKind::ScOr => " or ",
        BinOpKind::Add => " + ",
        BinOpKind::Sub => " - ",
        BinOpKind::Mul => " * ",
        BinOpKind::Div => " / ",
        BinOpKind::FloorDiv => " // ",
        BinOpKind::Rem => " % ",
        BinOpKind::Pow => " ** ",
        BinOpKind::Concat => " ~ ",
        BinOpKind::In => " in ",
    }
}

/// Whether an operator compares its two sides.
pub(super) fn compares(op: BinOpKind) -> bool {
    level_of(op) == Level::Compare
}

/// The sign of a part of a chain of comparisons, with its spaces.
pub(super) fn chain_sign(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => " == ",
        CompareOpKind::Ne => " != ",
        CompareOpKind::Lt => " < ",
        CompareOpKind::Lte => " <= ",
        CompareOpKind::Gt => " > ",
        CompareOpKind::Gte => " >= ",
        CompareOpKind::In => " in ",
        CompareOpKind::NotIn => " not in ",
    }
}

fn level_of(op: BinOpKind) -> Level {
    match op {
        BinOpKind::ScOr => Level::Or,
        BinOpKind::ScAnd => Level::And,
        BinOpKind::Eq
        | BinOpKind::Ne
        | BinOpKind::Lt
        | BinOpKind::Lte
        | BinOpKind::Gt
        | BinOpKind::Gte
        | BinOpKind::In => Level::Compare,
        BinOpKind::Add | BinOpKind::Sub => Level::Add,
        BinOpKind::Concat => Level::Concat,
        BinOpKind::Mul | BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem => Level::Multiply,
        BinOpKind::Pow => Level::Power,
    }
}

fn above(level: Level) -> Level {
    match level {
        Level::IfElse => Level::Or,
        Level::Or => Level::And,
        Level::And => Level::Not,
        Level::Not => Level::Compare,
        Level::Compare => Level::Add,
        Level::Add => Level::Concat,
        Level::Concat => Level::Multiply,
        Level::Multiply => Level::Power,
        Level::Power => Level::Unary,
        Level::Unary | Level::Postfix => Level::Postfix,
    }
}

/// `expr` in a position that allows forms of at least `place`.
fn at_level(expr: &Expr<'_>, place: Level) -> String {
    let (text, level) = form(expr);
    if level >= place { text } else { format!("({text})") }
}

fn form(expr: &Expr<'_>) -> (String, Level) {
    let any = |expr: &Expr<'_>| at_level(expr, Level::IfElse);
    let list = |items: &[Expr<'_>]| items.iter().map(any).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Var(var) => (var.id.to_owned(), Level::Postfix),
        Expr::Const(constant) => {
            // `1.real` would parse as a number and a name; text may be followed by anything.
            let level = if constant.value.kind() == ValueKind::Number { Level::Unary } else { Level::Postfix };
            (constant_text(&constant.value), level)
        }
        Expr::Slice(slice) => {
            let part = |part: &Option<Expr<'_>>| part.as_ref().map(any).unwrap_or_default();
            let step = slice.step.as_ref().map(|step| format!(":{}", any(step))).unwrap_or_default();
            let base = at_level(&slice.expr, Level::Postfix);
            (format!("{base}[{}:{}{step}]", part(&slice.start), part(&slice.stop)), Level::Postfix)
        }
        Expr::UnaryOp(unary) => match (&unary.op, &unary.expr) {
            (UnaryOpKind::Not, Expr::BinOp(inner)) if matches!(inner.op, BinOpKind::In) => {
                let (left, right) = (at_level(&inner.left, Level::Add), at_level(&inner.right, Level::Add));
                (format!("{left} not in {right}"), Level::Compare)
            }
            (UnaryOpKind::Not, Expr::Test(test)) => {
                let test_text =
                    format!("{} is not {}{}", at_level(&test.expr, Level::Unary), test.name, arguments(&test.args));
                (test_text, Level::Compare)
            }
            (UnaryOpKind::Not, inner) => (format!("not {}", at_level(inner, Level::Not)), Level::Not),
            (UnaryOpKind::Neg, inner) => (format!("-{}", at_level(inner, Level::Postfix)), Level::Unary),
        },
        Expr::BinOp(binary) => {
            let level = level_of(binary.op);
            let left = if level == Level::Compare { Level::Add } else { level };
            let text =
                format!("{}{}{}", at_level(&binary.left, left), sign(binary.op), at_level(&binary.right, above(level)));
            (text, level)
        }
        Expr::Compare(chain) => {
            let mut text = at_level(&chain.expr, Level::Add);
            for part in &chain.ops {
                text.push_str(chain_sign(part.op));
                text.push_str(&at_level(&part.expr, Level::Add));
            }
            (text, Level::Compare)
        }
        Expr::IfExpr(choice) => {
            let (yes, test) = (at_level(&choice.true_expr, Level::Or), at_level(&choice.test_expr, Level::Or));
            let no = choice.false_expr.as_ref().map(|no| format!(" else {}", any(no))).unwrap_or_default();
            (format!("{yes} if {test}{no}"), Level::IfElse)
        }
        Expr::Filter(filter) => {
            let args = if filter.args.is_empty() { String::new() } else { arguments(&filter.args) };
            let operand = filter.expr.as_ref().map(|operand| at_level(operand, Level::Unary)).unwrap_or_default();
            (format!("{operand} | {}{args}", filter.name), Level::Unary)
        }
        // Without parentheses, a test would take whatever follows as its argument.
        Expr::Test(test) => {
            let args = if test.args.is_empty() { String::new() } else { arguments(&test.args) };
            (format!("{} is {}{args}", at_level(&test.expr, Level::Unary), test.name), Level::Compare)
        }
        Expr::GetAttr(get) => (format!("{}.{}", at_level(&get.expr, Level::Postfix), get.name), Level::Postfix),
        Expr::GetItem(get) => {
            (format!("{}[{}]", at_level(&get.expr, Level::Postfix), any(&get.subscript_expr)), Level::Postfix)
        }
        Expr::Call(call) => (call_text(call), Level::Postfix),
        Expr::List(items) => (format!("[{}]", list(&items.items)), Level::Postfix),
        Expr::Tuple(items) => {
            let comma = if items.items.len() == 1 { "," } else { "" };
            (format!("({}{comma})", list(&items.items)), Level::Postfix)
        }
        Expr::Map(map) => {
            let entries = map.keys.iter().zip(&map.values).map(|(key, value)| format!("{}: {}", any(key), any(value)));
            (format!("{{{}}}", entries.collect::<Vec<_>>().join(", ")), Level::Postfix)
        }
    }
}

fn call_text(call: &Call<'_>) -> String {
    format!("{}{}", at_level(&call.expr, Level::Postfix), arguments(&call.args))
}

fn arguments(args: &[CallArg<'_>]) -> String {
    let args: Vec<String> = args
        .iter()
        .map(|arg| match arg {
            CallArg::Pos(expr) => text(expr),
            CallArg::Kwarg(name, expr) => format!("{name}={}", text(expr)),
            CallArg::PosSplat(expr) => format!("*{}", text(expr)),
            CallArg::KwargSplat(expr) => format!("**{}", text(expr)),
        })
        .collect();
    format!("({})", args.join(", "))
}

fn constant_text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        let mut out = String::from("'");
        for character in text.chars() {
            match character {
                '\'' => out.push_str("\\'"),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                other => out.push(other),
            }
        }
        out.push('\'');
        return out;
    }
    match value.kind() {
        ValueKind::None => "none".to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), |number| format!("{number:?}"))
        }
        _ => value.to_string(),
    }
}
