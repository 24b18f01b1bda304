//! Collectives that meet others than they belong to are found by their lines, and lines that differ for a reason are not.

use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, SiteId};
use protocol::message::ToCoordinator;
use protocol::record::{Issue, OperationRecord};
use protocol::report::Finding;
use protocol::site::CallSite;

use crate::harness::{World, record};

/// The findings when every rank calls all_reduce from the lines of its word, one letter each; `.` is a line that is not known. `counts` are those
/// of the positions, over and over.
fn found(words: &[&str], counts: &[u64]) -> Vec<Finding> {
    run(words, counts, Operation::AllReduce).report().findings
}

fn run(words: &[&str], counts: &[u64], operation: Operation) -> World {
    let of_one_thread: Vec<String> = words.iter().map(|word| "1".repeat(word.len())).collect();
    run_in(words, &of_one_thread.iter().map(String::as_str).collect::<Vec<_>>(), counts, operation)
}

/// The same with the thread of each call, a digit; 0 is one that is not known.
fn run_in(words: &[&str], threads: &[&str], counts: &[u64], operation: Operation) -> World {
    let mut world = World::formed(None, words.len() as u32, 10);
    for ((process, word), threads) in (0..).zip(words).zip(threads) {
        // Every process numbers lines in its own way.
        for (number, letter) in (1..).zip('A'..='Z') {
            let site = CallSite::new("train.py".to_owned(), letter as u32 - 64, "step".to_owned());
            world.say(process, ToCoordinator::Site { id: SiteId(number * (process as u32 + 1)), site });
        }
        for ((sequence, letter), thread) in (1..).zip(word.chars()).zip(threads.bytes()) {
            let site = if letter == '.' { 0 } else { (letter as u32 - 64) * (process as u32 + 1) };
            let count = counts[(sequence as usize - 1) % counts.len()];
            let record = record(operation, sequence, process as u32, count);
            let root = (operation == Operation::Broadcast).then_some(Rank(0));
            let issue = Issue { place: sequence, together: 1, thread: u32::from(thread - b'0') };
            world.done(process, OperationRecord { site: SiteId(site), root, issue, ..record });
        }
    }
    world
}

#[test]
fn lines_that_differ_without_a_shift_are_a_note() {
    let long = ("LM".repeat(40), "ML".repeat(40));
    for (words, operation, expected) in [
        (&["AXB", "AYB"][..], Operation::AllReduce, Some(2)),
        (&["AB", "BC"], Operation::AllReduce, Some(1)),
        (&[&long.0, &long.1], Operation::AllGather, Some(1)),
        (&["AXBXC", "AYBZC", "AXBXC"], Operation::AllReduce, Some(2)),
        (&["ABCD", "ABCD"], Operation::AllReduce, None),
        // A shift, which is a finding.
        (&["ABC", "BCD"], Operation::AllReduce, None),
        (&["A.B", "AYB"], Operation::AllReduce, None),
        // A line for the root and one for the others.
        (&["AXB", "AYB"], Operation::Broadcast, None),
    ] {
        let notes = run(words, &[4], operation).report().notes;
        assert_eq!(notes.first().map(|note| note.seqno.0), expected, "{words:?}");
        let Some(note) = notes.first() else { continue };
        assert_eq!(
            note.sentence,
            format!("in communicator 1, ranks called {operation}, collective {}, from different lines", note.seqno)
        );
        assert_eq!((notes.len(), note.sites.len()), (1, words.len()));
    }
}

#[test]
fn shifts_by_table() {
    let (loops, shifted) = ("ABC".repeat(20), format!("BC{}A", "ABC".repeat(19)));
    let role = |first: char, others: char| -> String { format!("{first}{others}{others}{others}").repeat(12) };
    let roles = [role('L', 'M'), role('M', 'L')];
    for (words, counts, expected) in [
        (&["ABC", "BCD"][..], &[4][..], Some((1, 1, "rank 1 is 1 collective ahead of rank 0"))),
        (&["BCD", "ABC"], &[4], Some((1, 1, "rank 1 is 1 collective behind rank 0"))),
        (&["XABCY", "XBCDY"], &[4], Some((2, 1, "rank 1 is 1 collective ahead of rank 0"))),
        (&["ABCDE", "CDEFG"], &[4], Some((1, 1, "rank 1 is 2 collectives ahead of rank 0"))),
        (&[&loops, &shifted], &[4], Some((1, 1, "rank 1 is 1 collective ahead of rank 0"))),
        (&["ABCD", "ABCD", "BCDE"], &[4], Some((1, 2, "rank 2 is 1 collective ahead of rank 0"))),
        (&["BCDE", "ABCD", "ABCD"], &[4], Some((1, 0, "rank 0 is 1 collective ahead of rank 1"))),
        (&["ABCD", "ABCD"], &[4], None),
        // The only line of a loop: whether one was left out cannot be seen.
        (&["AAAA", "AAAA"], &[4], None),
        // Not long enough to be certain.
        (&["AB", "BC"], &[4], None),
        // A line for each role.
        (&["AXB", "AYB"], &[4], None),
        (&["ABAB", "BABA"], &[4], None),
        (&["ABBABB", "BABBAB", "BBABBA"], &[4], None),
        (&[&roles[0], &roles[1]], &[4], None),
        (&["ABCDEF", "GHIJKL"], &[4], None),
        // What belongs together has the same shape.
        (&["ABCD", "BCDE"], &[4, 8], None),
        (&["AB.DE", "BC.EF"], &[4], None),
    ] {
        let found = found(words, counts);
        let is = found.first().map(|finding| (finding.seqno.0, finding.ranks[0].0, finding.sentence.as_str()));
        let Some((at, rank, clause)) = expected else {
            assert_eq!(is, None, "{words:?}");
            continue;
        };
        let sentence = format!(
            "in communicator 1, from all_reduce, collective {at}, on, {clause}: calls are paired with calls from other lines, and the shapes match"
        );
        assert_eq!(is, Some((at, rank, sentence.as_str())), "{words:?}");
        assert_eq!((found.len(), found[0].kind), (1, FindingKind::CollectiveShift));
    }
}

/// The findings when every rank calls all_reduce from places of one line, given by digits, or from the lines of letters.
fn found_within(words: &[&str]) -> Vec<Finding> {
    let mut world = World::formed(None, words.len() as u32, 10);
    for (process, word) in (0..).zip(words) {
        for (at, letter) in (1..).zip(word.chars()) {
            let (line, place) = if letter.is_ascii_digit() { (31, letter as u32) } else { (letter as u32, 7) };
            let site = CallSite::new("train.py".to_owned(), line, "step".to_owned()).with_place(place);
            world.say(process, ToCoordinator::Site { id: SiteId(at as u32), site });
            let record = record(Operation::AllReduce, at, process as u32, 4);
            world.done(process, OperationRecord { site: SiteId(at as u32), ..record });
        }
    }
    let report = world.report();
    assert_eq!(report.notes, [], "one line is not several");
    report.findings
}

#[test]
fn shifts_between_calls_on_one_line() {
    for (words, expected) in [
        (&["123", "234"][..], Some((1, 1, "rank 1 is 1 collective ahead of rank 0"))),
        (&["A123B", "A234B"], Some((2, 1, "rank 1 is 1 collective ahead of rank 0"))),
        // A call for each role, on one line; and a compiler's copies of one call.
        (&["1212", "2121"], None),
        (&["1111", "2222"], None),
        (&["123", "123"], None),
    ] {
        let found = found_within(words);
        let is = found.first().map(|finding| (finding.seqno.0, finding.ranks[0].0));
        assert_eq!(is, expected.map(|(at, rank, _)| (at, rank)), "{words:?}");
        let Some((at, _, clause)) = expected else { continue };
        let sentence = format!(
            "in communicator 1, from all_reduce, collective {at}, on, {clause}: calls are paired with other calls on the same lines, and \
             the shapes match"
        );
        assert_eq!(found[0].sentence, sentence);
    }
}

#[test]
fn the_lines_are_those_of_the_first_that_meet() {
    let found = found(&["XABCY", "XBCDY"], &[4]);
    let lines: Vec<(u32, u32, u64)> =
        found[0].sites.iter().map(|site| (site.rank.0, site.line, site.seqno.0)).collect();
    assert_eq!(lines, [(0, 1, 2), (1, 2, 2)]);
}

#[test]
fn turns_of_threads_by_table() {
    let (long, turned) = ("KL".repeat(40), "LK".repeat(40));
    let (threads, others) = ("12".repeat(40), "21".repeat(40));
    let of = |words: &[&str], threads: &[&str], operation| run_in(words, threads, &[4], operation).report().findings;
    for (words, threads, expected) in [
        (&["KL", "LK"][..], &["12", "21"][..], Some((1, &[1][..]))),
        // What a thread is called differs between processes.
        (&["XKLY", "XLKY"], &["1121", "3433"], Some((2, &[1]))),
        (&["KKLL", "KLKL", "KKLL", "LLKK"], &["1122", "1212", "1122", "2211"], Some((1, &[1, 3]))),
        // Between the two turns all is alike.
        (&["XKKKL", "XLKKK"], &["11112", "12111"], Some((2, &[1]))),
        (&["XKKKML", "XLKKKM"], &["111112", "121111"], Some((2, &[1]))),
        (&["KMLP", "LPKM"], &["1122", "2211"], Some((1, &[1]))),
        (&["KL", "LK", "LK"], &["12", "21", "21"], Some((1, &[0]))),
        (&[&long, &turned], &[&threads, &others], Some((1, &[1]))),
        // One order on all ranks, whoever is first.
        (&["KLKL", "KLKL"], &["1212", "2121"], None),
        // One thread may have a line for each role.
        (&["KL", "LK"], &["11", "11"], None),
        (&["KL", "LK"], &["12", "11"], None),
        // The same line in two threads: which is which cannot be seen.
        (&["KKLL", "LLKK"], &["1212", "1212"], None),
        (&["KL", "MK"], &["12", "21"], None),
        (&["K.", ".K"], &["12", "21"], None),
        (&["KL", "LK"], &["10", "01"], None),
        // A thread that does not keep its own order is not a matter of turns.
        (&["KMNL", "MKLN"], &["1112", "1121"], None),
    ] {
        let findings = of(words, threads, Operation::AllReduce);
        let is = findings.first().map(|finding| (finding.seqno.0, finding.ranks.iter().map(|rank| rank.0).collect()));
        assert_eq!(is, expected.map(|(at, ranks)| (at, ranks.to_vec())), "{words:?} {threads:?}");
        assert!(findings.iter().all(|finding| finding.kind == FindingKind::ThreadOrder), "{words:?}");
    }
    // Ranks have roles where there is a root.
    assert_eq!(of(&["KL", "LK"], &["12", "21"], Operation::Broadcast), []);
    let findings = of(&["KL", "LK", "LK"], &["12", "21", "21"], Operation::AllReduce);
    assert_eq!(
        findings[0].sentence,
        "in communicator 1, from all_reduce, collective 1, on, threads of rank 0 take turns in a different order than those of rank \
         1: calls of one thread are paired with those of another, and the shapes match"
    );
    let lines: Vec<(u32, u32)> = findings[0].sites.iter().map(|site| (site.rank.0, site.line)).collect();
    assert_eq!(lines, [(0, 11), (1, 12)]);
}
