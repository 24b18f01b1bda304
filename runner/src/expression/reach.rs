//! How an expression reaches into a name: which fields of a report it reads.

use minijinja::machinery::ast::{CallArg, Expr, Filter};

use super::explain::{argument, children, parse};

/// Filters that give the items of a list, all or some of them.
const ITEMS: [&str; 8] = ["list", "sort", "unique", "reverse", "select", "reject", "selectattr", "rejectattr"];
/// Filters that give one item of a list.
const ITEM: [&str; 4] = ["first", "last", "min", "max"];

/// A path from a name, with nothing computed in it.
struct Reached {
    names: Vec<String>,
    /// The value is the list of everything that these names reach.
    is_list: bool,
}

impl Reached {
    /// The names of an item, whichever.
    fn item(&self) -> Vec<String> {
        let mut names = self.names.clone();
        if !self.is_list {
            names.push("0".to_owned());
        }
        names
    }

    /// The names of the attribute `path` of an item.
    fn of_item(&self, path: &str) -> Vec<String> {
        let mut names = self.item();
        names.extend(path.split('.').map(str::to_owned));
        names
    }
}

/// How `expression` reaches into the name `of`: `["measured", "ranks", "0"]` for `report.measured.ranks[0]`,
/// `["links", "0", "bytes"]` for `report.links | pluck('bytes')`, an empty list for the name itself. `None` for wrong syntax.
pub(crate) fn uses(expression: &str, of: &str) -> Option<Vec<Vec<String>>> {
    let tree = parse(expression)?;
    let mut found = Vec::new();
    walk(&tree, of, &mut found);
    Some(found)
}

fn walk(expr: &Expr<'_>, of: &str, found: &mut Vec<Vec<String>>) {
    match reached(expr, of, found) {
        Some(reached) => found.push(reached.names),
        None => children(expr, &mut |child| walk(child, of, found)),
    }
}

/// The path that `expr` is, if it is one that begins with `of`. What its filters read besides goes to `found`.
fn reached(expr: &Expr<'_>, of: &str, found: &mut Vec<Vec<String>>) -> Option<Reached> {
    let (base, name) = match expr {
        Expr::Var(var) if var.id == of => return Some(Reached { names: Vec::new(), is_list: false }),
        Expr::GetAttr(get) => (&get.expr, get.name.to_owned()),
        Expr::GetItem(get) => match &get.subscript_expr {
            Expr::Const(constant) => (&get.expr, constant.value.to_string()),
            _ => return None,
        },
        Expr::Filter(filter) => return filtered(filter, of, found),
        _ => return None,
    };
    let mut base = reached(base, of, found)?;
    // An index of a list that a filter made.
    if !std::mem::take(&mut base.is_list) {
        base.names.push(name);
    }
    Some(base)
}

fn filtered(filter: &Filter<'_>, of: &str, found: &mut Vec<Vec<String>>) -> Option<Reached> {
    let attribute = attribute(filter);
    let takes = ["pluck", "map"].contains(&filter.name) && attribute.is_some();
    if !takes && attribute.is_none() && !ITEMS.contains(&filter.name) && !ITEM.contains(&filter.name) {
        return None;
    }
    let base = reached(filter.expr.as_ref()?, of, found)?;
    filter.args.iter().for_each(|arg| walk(argument(arg), of, found));
    Some(match attribute.map(|path| base.of_item(path)) {
        Some(names) if takes => Reached { names, is_list: true },
        read => {
            found.extend(read);
            let is_item = ITEM.contains(&filter.name);
            if is_item || ITEMS.contains(&filter.name) {
                Reached { names: base.item(), is_list: !is_item }
            } else {
                base
            }
        }
    })
}

/// The attribute of each item that a filter reads: `pluck('bytes')`, `selectattr('bytes')`, `sum(attribute='bytes')`.
fn attribute<'e>(filter: &'e Filter<'_>) -> Option<&'e str> {
    let text = |expr: &'e Expr<'_>| match expr {
        Expr::Const(constant) => constant.value.as_str(),
        _ => None,
    };
    match filter.name {
        "pluck" | "selectattr" | "rejectattr" => match filter.args.first()? {
            CallArg::Pos(expr) => text(expr),
            _ => None,
        },
        _ => filter.args.iter().find_map(|arg| match arg {
            CallArg::Kwarg("attribute", expr) => text(expr),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_name_is_used() {
        let found = |expression: &str| uses(expression, "r").unwrap();
        assert_eq!(found("r.a.b[0]['c'].d > 1"), [["a", "b", "0", "c", "d"]]);
        assert_eq!(found("r.a | length + r['b'] if x else [r.c]"), [["a"], ["b"], ["c"]]);
        assert_eq!(found("r.a[r.b].c"), [["a"], ["b"]]);
        assert_eq!(found("f(r, k=r.a)"), [vec![], vec!["a"]]);
        assert_eq!(found("r.a[1:r.b]"), [["a"], ["b"]]);
        assert_eq!(found("x.r + other"), [[""; 0]; 0]);
        assert_eq!(uses("r.a +", "r"), None);
    }

    #[test]
    fn what_filters_read_of_items() {
        let found = |expression: &str| {
            let uses = uses(expression, "r").unwrap();
            uses.iter().map(|names| names.join(".")).collect::<Vec<_>>()
        };
        for (expression, expected) in [
            ("r.a | pluck('b.c') | sum > 0", vec!["a.0.b.c"]),
            ("r | pluck('b') | pluck('c') | list == []", vec!["0.b.c"]),
            ("r.a | map(attribute='b') | unique | length", vec!["a.0.b"]),
            ("(r.a | pluck('b'))[0].c", vec!["a.0.b.c"]),
            ("(r.a | first).b", vec!["a.0.b"]),
            ("r.a | selectattr('b', 'gt', r.x) | pluck('c')", vec!["x", "a.0.b", "a.0.c"]),
            ("r.a | sum(attribute='b')", vec!["a.0.b", "a"]),
            ("r.a | sort(attribute='b') | last", vec!["a.0.b", "a.0"]),
            ("[r.a] | pluck('b')", vec!["a"]),
            ("r.a | map('upper') | list", vec!["a"]),
            ("r.a | pluck(x)", vec!["a"]),
        ] {
            assert_eq!(found(expression), expected, "{expression}");
        }
    }
}
