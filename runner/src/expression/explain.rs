//! Why an expression is not true: the value of each of its parts, evaluated by the same engine.

use std::collections::HashSet;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;
use minijinja::value::{Value as JinjaValue, ValueKind};

use super::context::{self, Context, brief};
use super::{ExpressionError, limit, print};

/// Maximum number of parts shown.
const PARTS: usize = 16;

/// The values of the parts of `expression`, one line each, outermost first; empty if there is nothing to show.
///
/// A part after an `and`, `or` or `if` that was not evaluated is not evaluated here either.
pub(crate) fn explain(expression: &str, context: &Context) -> Vec<String> {
    let Some(tree) = parse(expression) else { return Vec::new() };
    // Shows exactly what was evaluated: the parts of a tree that cannot be printed are not shown.
    if !parse_expr(&print::text(&tree)).is_ok_and(|again| same(&tree, &again)) {
        return Vec::new();
    }
    let mut parts = Parts { context, lines: Vec::new(), explained: HashSet::new() };
    parts.condition(&tree);
    let more = parts.lines.len().saturating_sub(PARTS);
    parts.lines.truncate(PARTS);
    if more > 0 {
        parts.lines.push(format!("and {more} more parts"));
    }
    parts.lines
}

pub(super) fn parse(expression: &str) -> Option<Expr<'_>> {
    limit::check(expression).ok()?;
    parse_expr(expression).ok()
}

/// The attributes of the name `of` that `expression` uses: `["loss"]` of `captures` in `captures.loss > 1`. `None` for wrong
/// syntax.
pub(crate) fn attributes(expression: &str, of: &str) -> Option<Vec<String>> {
    let tree = parse(expression)?;
    let mut found = Vec::new();
    visit(&tree, &mut |part| {
        let name = match part {
            Expr::GetAttr(get) if is_name(&get.expr, of) => Some(get.name.to_owned()),
            Expr::GetItem(get) if is_name(&get.expr, of) => match &get.subscript_expr {
                Expr::Const(constant) => constant.value.as_str().map(str::to_owned),
                _ => None,
            },
            _ => None,
        };
        found.extend(name);
    });
    Some(found)
}

fn is_name(expr: &Expr<'_>, name: &str) -> bool {
    matches!(expr, Expr::Var(var) if var.id == name)
}

struct Parts<'a> {
    context: &'a Context,
    lines: Vec<String>,
    explained: HashSet<String>,
}

impl Parts<'_> {
    fn value(&self, expr: &Expr<'_>) -> Result<JinjaValue, ExpressionError> {
        self.context.evaluate(&print::text(expr))
    }

    fn is(&self, expr: &Expr<'_>, wanted: bool) -> bool {
        // Truth as the engine sees it, not only for booleans.
        let truth = format!("true if {} else false", print::text_in_or(expr));
        self.context.evaluate(&truth).is_ok_and(|value| context::truth(&value) == Some(wanted))
    }

    /// A part that is true or false: descends through `and`, `or`, `not` and `if` to the comparisons.
    fn condition(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::BinOp(binary) if matches!(binary.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                let goes_on = matches!(binary.op, BinOpKind::ScAnd);
                if self.is(&binary.left, !goes_on) {
                    // The left side decided.
                    self.condition(&binary.left);
                    self.line(&print::text(&binary.right), ": ", "not evaluated");
                    return;
                }
                if self.is(&binary.left, true) {
                    self.side(&binary.left);
                } else {
                    self.condition(&binary.left);
                }
                self.condition(&binary.right);
            }
            Expr::UnaryOp(unary) if matches!(unary.op, UnaryOpKind::Not) => {
                self.side(&unary.expr);
                self.condition(&unary.expr);
            }
            Expr::IfExpr(choice) => {
                self.side(&choice.test_expr);
                if self.is(&choice.test_expr, true) {
                    self.condition(&choice.true_expr);
                } else if let Some(otherwise) = &choice.false_expr {
                    self.condition(otherwise);
                }
            }
            Expr::BinOp(binary) if print::compares(binary.op) => {
                self.compared(print::text(expr), &[&binary.left, &binary.right], &[print::sign(binary.op)]);
            }
            Expr::Compare(chain) => {
                let sides: Vec<&Expr<'_>> =
                    [&chain.expr].into_iter().chain(chain.ops.iter().map(|part| &part.expr)).collect();
                let signs: Vec<&str> = chain.ops.iter().map(|part| print::chain_sign(part.op)).collect();
                self.compared(print::text(expr), &sides, &signs);
            }
            Expr::Test(test) => {
                self.side(expr);
                self.operand(&test.expr);
                self.arguments(&test.args);
            }
            other => self.operand(other),
        }
    }

    /// `64 > 1000`, then the parts that both sides came from.
    fn compared(&mut self, whole: String, sides: &[&Expr<'_>], signs: &[&str]) {
        if sides.iter().any(|side| self.value(side).is_err()) {
            sides.iter().for_each(|side| self.operand(side));
            return;
        }
        let values: Vec<String> = sides
            .iter()
            .map(|side| self.value(side).map_or_else(|error| format!("({error})"), |value| brief(&value)))
            .collect();
        let mut shown = values[0].clone();
        for (sign, value) in signs.iter().zip(&values[1..]) {
            shown.push_str(sign);
            shown.push_str(value);
        }
        if shown != whole && self.explained.insert(whole) {
            self.lines.push(shown);
        }
        sides.iter().for_each(|side| self.operand(side));
    }

    /// Why a part has no value; for a missing attribute, lists those that exist.
    fn why(&self, expr: &Expr<'_>, error: &ExpressionError) -> String {
        let base = match expr {
            Expr::GetAttr(get) => &get.expr,
            Expr::GetItem(get) => &get.expr,
            _ => return error.to_string(),
        };
        match self.value(base) {
            Ok(value) if value.kind() == ValueKind::Map => {
                let keys: Vec<String> = value.try_iter().into_iter().flatten().map(|key| key.to_string()).collect();
                format!("not there; the keys of {} are: {}", print::text(base), keys.join(", "))
            }
            Ok(value) => format!("not there; {} = {}", print::text(base), brief(&value)),
            Err(error) => error.to_string(),
        }
    }

    /// A part and its value, without the parts it came from.
    fn side(&mut self, expr: &Expr<'_>) {
        if matches!(expr, Expr::Const(_)) {
            return;
        }
        match self.value(expr) {
            Ok(value) => match context::truth(&value) {
                Some(truth) => self.line(&print::text(expr), ": ", &truth.to_string()),
                None => self.line(&print::text(expr), " = ", &brief(&value)),
            },
            Err(error) => self.line(&print::text(expr), ": ", &self.why(expr, &error)),
        }
    }

    /// A part with its value, and the parts that the value came from.
    fn operand(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Const(_) => {}
            Expr::List(items) if items.as_const().is_some() => {}
            Expr::BinOp(_) | Expr::Compare(_) | Expr::UnaryOp(_) | Expr::IfExpr(_) => {
                self.side(expr);
                self.children(expr);
            }
            other => {
                self.side(other);
                self.children(other);
            }
        }
    }

    fn children(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Filter(filter) => {
                filter.expr.iter().for_each(|operand| self.operand(operand));
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.operand(&test.expr);
                self.arguments(&test.args);
            }
            Expr::Call(call) => self.arguments(&call.args),
            // Only the end of a path and its brackets are shown.
            Expr::GetAttr(get) => self.children(&get.expr),
            Expr::GetItem(get) => {
                self.children(&get.expr);
                self.operand(&get.subscript_expr);
            }
            Expr::Slice(slice) => self.operand(&slice.expr),
            Expr::BinOp(binary) => match binary.op {
                BinOpKind::ScAnd | BinOpKind::ScOr => self.condition(expr),
                _ => {
                    self.operand(&binary.left);
                    self.operand(&binary.right);
                }
            },
            Expr::Compare(_) | Expr::IfExpr(_) => self.condition(expr),
            Expr::UnaryOp(unary) => self.operand(&unary.expr),
            Expr::List(items) => items.items.iter().for_each(|item| self.operand(item)),
            Expr::Tuple(items) => items.items.iter().for_each(|item| self.operand(item)),
            Expr::Map(map) => map.values.iter().for_each(|value| self.operand(value)),
            Expr::Var(_) | Expr::Const(_) => {}
        }
    }

    fn arguments(&mut self, args: &[CallArg<'_>]) {
        args.iter().for_each(|arg| self.operand(argument(arg)));
    }

    fn line(&mut self, part: &str, is: &str, value: &str) {
        if self.explained.insert(part.to_owned()) {
            self.lines.push(format!("{part}{is}{value}"));
        }
    }
}

fn visit(expr: &Expr<'_>, see: &mut dyn FnMut(&Expr<'_>)) {
    see(expr);
    children(expr, &mut |child| visit(child, see));
}

/// The direct parts of an expression.
pub(super) fn children(expr: &Expr<'_>, see: &mut dyn FnMut(&Expr<'_>)) {
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::List(items) => items.items.iter().for_each(see),
        Expr::Tuple(items) => items.items.iter().for_each(see),
        Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(see),
        Expr::Slice(slice) => {
            see(&slice.expr);
            [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(see);
        }
        Expr::UnaryOp(unary) => see(&unary.expr),
        Expr::BinOp(binary) => [&binary.left, &binary.right].into_iter().for_each(see),
        Expr::Compare(chain) => {
            see(&chain.expr);
            chain.ops.iter().for_each(|part| see(&part.expr));
        }
        Expr::IfExpr(choice) => {
            see(&choice.test_expr);
            see(&choice.true_expr);
            choice.false_expr.iter().for_each(see);
        }
        Expr::Filter(filter) => {
            filter.expr.iter().for_each(&mut *see);
            filter.args.iter().map(argument).for_each(see);
        }
        Expr::Test(test) => {
            see(&test.expr);
            test.args.iter().map(argument).for_each(see);
        }
        Expr::GetAttr(get) => see(&get.expr),
        Expr::GetItem(get) => {
            see(&get.expr);
            see(&get.subscript_expr);
        }
        Expr::Call(call) => {
            see(&call.expr);
            call.args.iter().map(argument).for_each(see);
        }
    }
}

pub(super) fn argument<'e, 's>(arg: &'e CallArg<'s>) -> &'e Expr<'s> {
    match arg {
        CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => expr,
    }
}

/// Whether two trees are the same apart from the positions of their parts.
fn same(left: &Expr<'_>, right: &Expr<'_>) -> bool {
    let places = |expr: &Expr<'_>| {
        let text = format!("{expr:?}");
        let mut out = String::new();
        let mut rest = text.as_str();
        // A span is written ` @ 1:2-1:5`.
        while let Some(start) = rest.find(" @ ") {
            out.push_str(&rest[..start]);
            let after = &rest[start + 3..];
            let end = after.find(|letter: char| !letter.is_ascii_digit() && letter != ':' && letter != '-');
            rest = &after[end.unwrap_or(after.len())..];
        }
        out.push_str(rest);
        out
    };
    places(left) == places(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Truth;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn explained(expression: &str, context: &Value) -> Vec<String> {
        let context = Context::new(context);
        assert_eq!(context.truth(expression), Ok(Truth::False), "{expression}");
        explain(expression, &context)
    }

    #[test]
    fn every_part_has_its_value() {
        let context = json!({"report": {"links": [{"bytes": 32}, {"bytes": 30}], "n": 3}, "world": 4, "key": "n"});
        assert_eq!(
            explained("report.links | pluck('bytes') | sum > world * 1000", &context),
            [
                "62 > 4000",
                "report.links | pluck('bytes') | sum = 62",
                "report.links | pluck('bytes') = [32, 30]",
                "report.links = [{bytes: 32}, {bytes: 30}]",
                "world * 1000 = 4000",
                "world = 4",
            ]
        );
        assert_eq!(explained("report[key] == 4", &context), ["3 == 4", "report[key] = 3", "key = \"n\""]);
        assert_eq!(explained("1 < report.n < 3", &context), ["1 < 3 < 3", "report.n = 3"]);
        assert_eq!(explained("not (world == 4)", &context), ["world == 4: true", "world = 4"]);
        assert_eq!(explained("world is odd", &context), ["world is odd: false", "world = 4"]);
        assert_eq!(explained("3 in [1, 2]", &context), Vec::<String>::new());
        assert_eq!(
            explained("(world > 5) if report.n == 3 else true", &context),
            ["report.n == 3: true", "4 > 5", "world = 4"]
        );
    }

    #[test]
    fn what_was_not_evaluated_is_not_evaluated() {
        let context = json!({"a": 1, "b": 2});
        assert_eq!(
            explained("a == 2 and missing.part == 1", &context),
            ["1 == 2", "a = 1", "missing.part == 1: not evaluated"]
        );
        assert_eq!(explained("a == 1 and b == 3", &context), ["a == 1: true", "2 == 3", "b = 2"]);
        assert_eq!(explained("a == 2 or b == 3", &context), ["1 == 2", "a = 1", "2 == 3", "b = 2"]);
    }

    #[test]
    fn big_values_are_short() {
        let context = json!({"list": (0..1000).collect::<Vec<u32>>()});
        let lines = explained("list | length == 3", &context);
        assert_eq!(lines[..2], ["1000 == 3", "list | length = 1000"]);
        assert!(lines[2].ends_with("... (list of 1000)") && lines[2].len() < 120, "{}", lines[2]);
    }

    #[test]
    fn attributes_of_a_name() {
        let found = attributes("captures.loss > 1 and [captures['n']] | sum == other.x", "captures").unwrap();
        assert_eq!(found, ["loss", "n"]);
        assert_eq!(attributes("1 +", "captures"), None);
    }

    /// Expressions of every form.
    fn expressions() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("a".to_owned()),
            Just("b.c".to_owned()),
            Just("1".to_owned()),
            Just("2.5".to_owned()),
            Just("'x\\'y'".to_owned()),
            Just("none".to_owned()),
            Just("true".to_owned()),
        ];
        leaf.prop_recursive(5, 40, 4, |inner| {
            let two = (inner.clone(), inner.clone());
            prop_oneof![
                (
                    two.clone(),
                    proptest::sample::select(vec![
                        "and", "or", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "**", "~", "in",
                        "not in",
                    ])
                )
                    .prop_map(|((left, right), op)| format!("({left}) {op} ({right})")),
                two.clone().prop_map(|(left, right)| format!("{left} + {right}")),
                inner.clone().prop_map(|part| format!("(not ({part}))")),
                inner.clone().prop_map(|part| format!("-({part})")),
                inner.clone().prop_map(|part| format!("({part}) | length")),
                two.clone().prop_map(|(left, right)| format!("({left}) | default({right}, k={left})")),
                inner.clone().prop_map(|part| format!("({part}) is defined")),
                inner.clone().prop_map(|part| format!("({part}) is not none")),
                two.clone().prop_map(|(left, right)| format!("({left}) is divisibleby({right})")),
                two.clone().prop_map(|(left, right)| format!("({left})[{right}]")),
                two.clone().prop_map(|(left, right)| format!("({left})[1:{right}]")),
                inner.clone().prop_map(|part| format!("({part}).name")),
                two.clone().prop_map(|(left, right)| format!("f({left}, x={right})")),
                two.clone().prop_map(|(left, right)| format!("[{left}, {right}]")),
                two.clone().prop_map(|(left, right)| format!("({left}, {right})")),
                two.clone().prop_map(|(left, right)| format!("{{'k': {left}, 'l': {right}}}")),
                (two.clone(), inner.clone()).prop_map(|((a, b), c)| format!("({a} if {b} else {c})")),
                (two, inner).prop_map(|((a, b), c)| format!("({a}) < ({b}) <= ({c})")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn what_is_printed_is_what_was_parsed(text in expressions()) {
            let Ok(tree) = parse_expr(&text) else { return Ok(()) };
            let printed = print::text(&tree);
            let again = parse_expr(&printed);
            prop_assert!(again.as_ref().is_ok_and(|again| same(&tree, again)), "{text}\n{printed}");
        }
    }
}
