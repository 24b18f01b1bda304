//! Collectives that meet others than they belong to are found by their lines, and lines that differ for a reason are not.

use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, SiteId};
use protocol::message::ToCoordinator;
use protocol::record::OperationRecord;
use protocol::report::Finding;
use protocol::site::CallSite;

use crate::harness::{World, record};

/// The findings when every rank calls all_reduce from the lines of its word, one letter each; `.` is a line that is not known. `counts` are those
/// of the positions, over and over.
fn found(words: &[&str], counts: &[u64]) -> Vec<Finding> {
    run(words, counts, Operation::AllReduce).report().findings
}

fn run(words: &[&str], counts: &[u64], operation: Operation) -> World {
    let mut world = World::formed(None, words.len() as u32, 10);
    for (process, word) in (0..).zip(words) {
        // Every process numbers lines in its own way.
        for (number, letter) in (1..).zip('A'..='Z') {
            let site = CallSite::new("train.py".to_owned(), letter as u32 - 64, "step".to_owned());
            world.say(process, ToCoordinator::Site { id: SiteId(number * (process as u32 + 1)), site });
        }
        for (sequence, letter) in (1..).zip(word.chars()) {
            let site = if letter == '.' { 0 } else { (letter as u32 - 64) * (process as u32 + 1) };
            let count = counts[(sequence as usize - 1) % counts.len()];
            let record = record(operation, sequence, process as u32, count);
            let root = (operation == Operation::Broadcast).then_some(Rank(0));
            world.done(process, OperationRecord { site: SiteId(site), root, ..record });
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
            "in communicator 1, from all_reduce, collective {at}, on, {clause}: each meets calls of other lines, and their shapes agree"
        );
        assert_eq!(is, Some((at, rank, sentence.as_str())), "{words:?}");
        assert_eq!((found.len(), found[0].kind), (1, FindingKind::CollectiveShift));
    }
}

#[test]
fn the_lines_are_those_of_the_first_that_meet() {
    let found = found(&["XABCY", "XBCDY"], &[4]);
    let lines: Vec<(u32, u32, u64)> =
        found[0].sites.iter().map(|site| (site.rank.0, site.line, site.seqno.0)).collect();
    assert_eq!(lines, [(0, 1, 2), (1, 2, 2)]);
}
