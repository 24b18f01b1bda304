//! Table-driven filter tests: what filters accept, and where wrong ones are wrong.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::filter::exactly;
use crate::suite;

fn selected(filter: &Filter) -> Vec<String> {
    let text = "ftest: 1\nsuite: s\ndefaults: {tags: [all]}\ncases:\n\
                - {id: one, tags: [smoke], launch: {argv: [x], ranks: 4}}\n\
                - {id: two, matrix: {axes: {w: [2, 4], d: [bf16, fp32]}}, launch: {argv: [x]}}\n";
    let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap();
    let mut ids: Vec<String> =
        suite.cases.iter().filter(|case| filter.accepts(case)).map(|case| case.id.clone()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn filters_by_table() {
    let w2 = ["two[d=bf16,w=2]", "two[d=fp32,w=2]"];
    let w4 = ["two[d=bf16,w=4]", "two[d=fp32,w=4]"];
    let two = ["two[d=bf16,w=2]", "two[d=bf16,w=4]", "two[d=fp32,w=2]", "two[d=fp32,w=4]"];
    for (filter, ids) in [
        ("w=4", &w4[..]),
        ("s/one", &["one"]),
        ("one or w=2 & bf16", &["one", "two[d=bf16,w=2]"]),
        ("tag(smoke)", &["one"]),
        ("tag(all) & !tag(smoke)", &two),
        ("case(/w=2/) | case(one)", &["one", w2[0], w2[1]]),
        ("suite(s) && (case(two*) || tag(none))", &two),
        ("not suite(s)", &[]),
        ("id(s/one)", &["one"]),
        ("id(s/o)", &[]),
        ("id(~s/o)", &["one"]),
        ("case(=two)", &[]),
        ("id(\"s/one\")", &["one"]),
        ("case(=\"two[d=bf16,w=2]\")", &w2[..1]),
        ("case( /(2|4)\\]$/ ) and not case(/(fp)/)", &["two[d=bf16,w=2]", "two[d=bf16,w=4]"]),
        ("world(>=4)", &["one"]),
        ("world(4)", &["one"]),
        ("world( != 4 )", &[]),
        ("not world(<4)", &["one", two[0], two[1], two[2], two[3]]),
        ("matrix.w > 2", &w4),
        ("matrix.w=2.0", &w2),
        ("matrix.w>=2 and matrix.w <4", &w2),
        ("matrix.d = bf*", &["two[d=bf16,w=2]", "two[d=bf16,w=4]"]),
        ("matrix.d != bf16 & matrix.w = /^2$/", &["two[d=fp32,w=2]"]),
        ("matrix.d ~ 32 | none()", &["two[d=fp32,w=2]", "two[d=fp32,w=4]"]),
        ("matrix.d < 4", &[]),
        ("matrix.none != 1", &[]),
        ("not matrix.d = \"bf16\" & all()", &["one", "two[d=fp32,w=2]", "two[d=fp32,w=4]"]),
    ] {
        assert_eq!(selected(&Filter::parse(filter).unwrap()), ids, "{filter}");
    }
}

#[test]
fn several_filters_are_united_and_none_accepts_all() {
    assert_eq!(selected(&Filter::united(["one", "matrix.w = 2 & bf16"]).unwrap()), ["one", "two[d=bf16,w=2]"]);
    assert_eq!(selected(&Filter::united([]).unwrap()).len(), 5);
    assert_eq!(Filter::united(["one", "tag("]).unwrap_err().at, 4);
}

#[test]
fn a_wrong_expression_says_where() {
    for (filter, at, message) in [
        ("tag(", 4, "expected a name"),
        ("tag(a", 5, "expected `)`"),
        ("tag(a) tag(b)", 7, "expected `and`, `or` or the end"),
        ("tag(a) &", 8, "expected a filter"),
        ("(tag(a)", 7, "expected `)`"),
        ("tag(a))", 6, "expected `and`, `or` or the end"),
        ("case(/[/)", 5, "unclosed character class"),
        ("case(/a)", 5, "the expression has no end `/`"),
        ("tags(a)", 0, "there is no `tags(...)`; did you mean `tag`?"),
        ("é & tags(a)", 4, "there is no `tags(...)`; did you mean `tag`?"),
        ("world(>=x)", 8, "expected a number"),
        ("matrix.w", 8, "expected =, !=, <, <=, >, >= or ~"),
        ("matrix.w >= big", 12, "expected a number"),
        ("matrix. = 4", 7, "expected the name of an axis"),
        ("id(\"a)", 3, "the text has no end `\"`"),
        ("all(x)", 4, "expected `)`"),
        ("", 0, "expected a filter"),
    ] {
        let error = Filter::parse(filter).unwrap_err();
        assert_eq!((error.at, error.message.as_str()), (at, message), "{filter}");
    }
    let shown = Filter::parse("é & tags(a)").unwrap_err().to_string();
    assert!(shown.starts_with("filter: there is no `tags(...)`; did you mean `tag`?\n  é & tags(a)\n      ^\n"));
}

#[test]
fn a_long_filter_is_read_and_a_deep_one_refused_near_its_place() {
    for sign in ["|", "&", " or ", " and "] {
        let filter = Filter::parse(&vec!["one"; 60_000].join(sign)).unwrap();
        assert_eq!(selected(&filter.settled(&|_| false)), ["one"], "{sign}");
    }
    assert_eq!(selected(&Filter::parse(&format!("{}one{}", "(".repeat(64), ")".repeat(64))).unwrap()), ["one"]);
    for sign in ["(", "!", "not ", "!("] {
        let error = Filter::parse(&sign.repeat(50_000)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with("filter: more than 64 nested parentheses and negations\n"));
        assert!(shown.lines().nth(1).is_some_and(|line| line.len() <= 170), "{shown}");
    }
}

#[test]
fn the_axes_of_a_filter() {
    assert_eq!(Filter::parse("matrix.a=1 | !(matrix.b<2 & x)").unwrap().axes(), ["a", "b"]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_within_it(text in "[a-z()&|!=<>~/\" .*é\\\\-]{0,24}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!(error.at <= text.chars().count());
        }
    }

    #[test]
    fn an_exact_filter_means_its_case_alone(id in "[ -~]{1,20}") {
        let Filter::Id(matcher) = Filter::parse(&exactly(&id)).unwrap() else { panic!("{id}") };
        prop_assert!(matcher.matches(&id));
        let longer = format!("{id}x");
        prop_assert!(!matcher.matches(&longer));
    }
}
