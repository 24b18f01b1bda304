//! Checks of reports: selections, quantifiers, and failure messages.

use super::*;
use crate::check::operator::Direction;
use serde_json::json;

fn check(path: &str) -> ReportCheck {
    ReportCheck {
        of: ReportKind::Cluster,
        rank: None,
        fatal: false,
        path: JsonPath::parse(path).unwrap(),
        operators: vec![],
        all: vec![],
        any: vec![],
        none: vec![],
        count: None,
        exists: None,
        because: None,
        place: SourceLocation::default(),
    }
}

fn observation() -> Observation {
    let report = json!({"world_size": 4, "ranks": [{"calls": 3, "time": 1.5}, {"calls": 5, "time": 2.5}], "none": [], "name": "dev"});
    Observation { cluster_report: Some(report), ..Observation::default() }
}

fn number_of_failures(change: impl FnOnce(&mut ReportCheck), path: &str) -> usize {
    let mut check = check(path);
    change(&mut check);
    check.check(&observation(), &Captures::default()).len()
}

#[test]
fn an_empty_selection_fails_unless_asked_for() {
    assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(0).into())], "$.ranks[*].typo"), 1);
    assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(0).into())], "$.none[*]"), 1);
    assert_eq!(number_of_failures(|check| check.exists = Some(false), "$.typo"), 0);
    assert_eq!(number_of_failures(|check| check.exists = Some(false), "$.name"), 1);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Len(0)], "$.none[*]"), 0);
    assert_eq!(
        number_of_failures(|check| check.operators = vec![Operator::Len(0)], "$.typo"),
        1,
        "a missing list is not an empty one"
    );
    assert_eq!(number_of_failures(|check| check.exists = Some(true), "$.typo"), 1);
}

#[test]
fn one_value_or_a_quantifier() {
    assert_eq!(
        number_of_failures(|check| check.operators = vec![Operator::Eq(json!(3).into())], "$.ranks[*].calls"),
        1
    );
    assert_eq!(number_of_failures(|check| check.any = vec![Operator::Eq(json!(5).into())], "$.ranks[*].calls"), 0);
    assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(4).into())], "$.ranks[*].calls"), 1);
    assert_eq!(
        number_of_failures(|check| check.operators = vec![Operator::Contains(json!(5).into())], "$.ranks[*].calls"),
        0
    );
    assert_eq!(
        number_of_failures(|check| check.operators = vec![Operator::Contains(json!(6).into())], "$.ranks[*].calls"),
        1
    );
    let one = "$.ranks[?@.calls == 5].calls";
    assert_eq!(
        number_of_failures(|check| check.operators = vec![Operator::Contains(json!(5).into())], one),
        0,
        "a list of one value"
    );
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Contains(json!(6).into())], one), 1);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Contains(json!("ev").into())], "$.name"), 0);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Len(2)], "$.ranks"), 0);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Len(2)], "$.ranks[*].calls"), 0);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Len(3)], "$.name"), 0);
}

#[test]
fn quantifiers_and_lists() {
    let calls = "$.ranks[*].calls";
    let ge = |number: u64| vec![Operator::Ge(json!(number).into())];
    assert_eq!(number_of_failures(|check| check.none = ge(6), calls), 0);
    assert_eq!(number_of_failures(|check| check.none = ge(5), calls), 1);
    assert_eq!(number_of_failures(|check| check.none = ge(5), "$.none[*]"), 1, "nothing proves nothing");
    let count = |of: Vec<Operator<Operand>>, min, max| Some(Count { of, min, max });
    assert_eq!(number_of_failures(|check| check.count = count(ge(4), Some(1), Some(1)), calls), 0);
    assert_eq!(number_of_failures(|check| check.count = count(ge(4), Some(2), None), calls), 1);
    assert_eq!(number_of_failures(|check| check.count = count(ge(4), None, Some(0)), calls), 1);
    assert_eq!(number_of_failures(|check| check.count = count(vec![], Some(1), None), "$.none[*]"), 1);
    assert_eq!(number_of_failures(|check| check.count = count(vec![], None, Some(3)), "$.none[*]"), 0);
    let nothing = |change: fn(&mut ReportCheck)| {
        let up_to_three = |check: &mut ReportCheck| {
            check.count = Some(Count { of: vec![], min: None, max: Some(3) });
            change(check);
        };
        number_of_failures(up_to_three, "$.none[*]")
    };
    assert_eq!(nothing(|check| check.all = vec![Operator::Eq(json!(5).into())]), 0);
    assert_eq!(nothing(|check| check.any = vec![Operator::Eq(json!(5).into())]), 1, "nothing is not a value that");
    assert_eq!(nothing(|check| check.operators = vec![Operator::Contains(json!(5).into())]), 1);
    assert_eq!(nothing(|check| check.operators = vec![Operator::Len(2)]), 1);
    assert_eq!(nothing(|check| check.operators = vec![Operator::Len(0)]), 0);
    let empty_and_one = |check: &mut ReportCheck| {
        check.operators = vec![Operator::Len(0)];
        check.count = Some(Count { of: vec![], min: Some(1), max: None });
    };
    assert_eq!(number_of_failures(empty_and_one, "$.none[*]"), 1);
    assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Unique], calls), 0);
    let sorted = |direction| vec![Operator::Sorted(direction)];
    assert_eq!(number_of_failures(|check| check.operators = sorted(Direction::Ascending), calls), 0);
    assert_eq!(number_of_failures(|check| check.operators = sorted(Direction::Descending), calls), 1);
    let unordered = vec![Operator::EqUnordered(json!([5, 3]).into())];
    assert_eq!(number_of_failures(|check| check.operators = unordered, calls), 0);
    let mut wrong = check(calls);
    wrong.count = count(ge(4), Some(2), None);
    let failure = wrong.check(&observation(), &Captures::default()).remove(0);
    assert_eq!(failure.expected, "at least 2 values of $.ranks[*].calls >= 4");
    assert_eq!(failure.got, "1 of 2: 3, 5");
}

#[test]
fn failures_say_where_and_what_there_is() {
    let mut wrong = check("$.world");
    wrong.operators = vec![Operator::Eq(json!(4).into())];
    let failure = wrong.check(&observation(), &Captures::default()).remove(0);
    assert_eq!(failure.next, "the keys of $ are: world_size, ranks, none, name");
    let mut wrong = check("$.ranks[*].calls");
    wrong.all = vec![Operator::Ge(json!(4).into())];
    let failure = wrong.check(&observation(), &Captures::default()).remove(0);
    assert_eq!((failure.expected.as_str(), failure.got.as_str()), ("$.ranks[0].calls >= 4", "3"));
}

#[test]
fn many_wrong_values_are_one_failure() {
    let report = json!({"ranks": [1, 2, 3, 4, 5, 6, 7]});
    let mut wrong = check("$.ranks[*]");
    wrong.all = vec![Operator::Lt(json!(2).into())];
    let failures =
        wrong.check(&Observation { cluster_report: Some(report), ..Observation::default() }, &Captures::default());
    assert_eq!(failures.len(), 1);
    assert!(failures[0].got.starts_with("$.ranks[1] = 2\n") && failures[0].got.ends_with("and 2 more of 7 values"));
}

#[test]
fn singular_paths() {
    for (path, singular) in [
        ("$.a.b", true),
        ("$['a.*']", true),
        ("$.a[0]", true),
        ("$.a[*]", false),
        ("$..a", false),
        ("$.a[0,1]", false),
        ("$.a[0:2]", false),
        ("$.a[?@.b]", false),
        ("$['a:b,c']", true),
    ] {
        assert_eq!(is_singular(path), singular, "{path}");
    }
}

#[test]
fn a_path_is_shown_as_it_is_written() {
    for (path, shown) in
        [("$..seqno", "$..seqno"), ("$..*", "$..*"), ("$.a..b.*", "$.a..b.*"), ("$..['a...b']", "$..['a...b']")]
    {
        let mut check = check(path);
        check.exists = Some(true);
        let failures = check
            .check(&Observation { cluster_report: Some(json!({})), ..Observation::default() }, &Captures::default());
        let exists: Vec<&str> = failures.iter().map(|failure| failure.expected.as_str()).collect();
        // `$..*` of nothing is nothing, too.
        assert_eq!(exists, [format!("{shown} exists")]);
    }
}

#[test]
fn a_rank_has_a_device_report_of_its_own() {
    let device = |rank: u32, peak: u64| json!({ "devices": [{ "peak": peak }], "measured": { "rank": rank } });
    let seen = Observation { device_reports: vec![device(0, 4), device(1, 8)], ..Observation::default() };
    let of = |rank| ReportCheck {
        rank: Some(rank),
        operators: vec![Operator::Eq(json!(8).into())],
        ..check("$.devices[0].peak")
    };
    assert!(of(1).check(&seen, &Captures::default()).is_empty());
    let wrong = &of(0).check(&seen, &Captures::default())[0];
    assert_eq!((wrong.expected.as_str(), wrong.got.as_str()), ("rank 0: $.devices[0].peak == 8", "4"));
    assert_eq!(of(2).check(&seen, &Captures::default())[0].got, "there is none");
}
