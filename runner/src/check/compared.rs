//! What the runs of a case with `holds_under` are compared by: the numbers that an expression finds in their output, and how
//! close they must be.

use std::collections::HashMap;

use regex::bytes::Regex;

use crate::check::numbers::{self, Difference, Key, Number};
use crate::check::stream::Text;
use crate::check::{Failure, FailureKind};
use crate::observation::{Observation, ProcessObservation, Role};
use crate::source::SourceLocation;

/// The group of the expression that is not a number, but names the place.
pub const STEP: &str = "step";

/// How far numbers may be apart by default where their sums have other parts, relative to the larger.
const OTHER_SUMS: f64 = 1e-5;

/// The numbers to compare.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Finds them: each named group is a number, and [`STEP`] the step of the program.
    pub numbers: Regex,
    /// The rank that prints them; if absent, any.
    pub rank: Option<u32>,
    /// How far they may be apart, relative to the larger; 0 for equal as printed. If absent, that depends on the relation.
    pub tolerance: Option<f64>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// A relation as failures name it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// As the suite writes it.
    pub name: &'a str,
    /// Whether it changes what is summed up.
    pub changes_sums: bool,
    /// Where the suite defines it.
    pub place: &'a SourceLocation,
}

impl Compared {
    /// The numbers of a run.
    ///
    /// # Errors
    /// The failure of a run without any, or of one whose output was not kept in full.
    pub fn read(&self, observation: &Observation) -> Result<Vec<Number>, Box<Failure>> {
        let numbers = self.in_output(observation).map_err(|error| Box::new(self.nothing(error, "")))?;
        if numbers.is_empty() {
            let whose = self.rank.map_or_else(String::new, |rank| format!(" of rank {rank}"));
            let next = "a relation that compares nothing proves nothing: correct `compared.numbers` or `compared.rank`";
            return Err(Box::new(self.nothing(format!("no match in stdout{whose}"), next)));
        }
        Ok(numbers)
    }

    /// The failure of a relation whose variant printed other numbers than `first`.
    pub fn compare(&self, relation: Named<'_>, first: &[Number], variant: &Observation) -> Option<Failure> {
        let (tolerance, why) = self.tolerance(relation);
        let close =
            if tolerance > 0.0 { format!("within {tolerance:e} of the larger") } else { "as printed".to_owned() };
        let expected = format!("under `{}`, the numbers are the same {close} ({why})", relation.name);
        let second = match self.in_output(variant) {
            Ok(numbers) => numbers,
            Err(error) => return Some(failure(relation, expected, error, "")),
        };
        let differences = numbers::differences(first, &second, tolerance);
        let got = in_words(differences.first()?, relation.name);
        let rest = match differences.len() - 1 {
            0 => String::new(),
            1 => "; 1 more number differs".to_owned(),
            count => format!("; {count} more numbers differ"),
        };
        let is_repeated = first.iter().chain(&second).any(|number| number.key.earlier > 0);
        let next = match differences.first()? {
            Difference::Value(..) => "",
            _ if relation.changes_sums && self.rank.is_none() && is_repeated => {
                "if several ranks print it, `compared: {rank: 0}` looks at one"
            }
            _ => "",
        };
        Some(failure(relation, expected, format!("{got}{rest}"), next))
    }

    /// The failure of a relation whose variant did not pass, and why it did not.
    pub fn failed(relation: Named<'_>, why: String) -> Failure {
        failure(relation, format!("under `{}`, the case passes, as it did without it", relation.name), why, "")
    }

    /// The tolerance for a relation, and its reason.
    fn tolerance(&self, relation: Named<'_>) -> (f64, &'static str) {
        match (self.tolerance, relation.changes_sums) {
            (Some(tolerance), _) => (tolerance, "`compared.tolerance`"),
            (None, true) => (OTHER_SUMS, "the default where the number of ranks changes what is added up"),
            (None, false) => (0.0, "the default where the number of ranks stays the same"),
        }
    }

    fn in_output(&self, observation: &Observation) -> Result<Vec<Number>, String> {
        let mut numbers = Vec::new();
        let mut count: HashMap<(String, Option<String>), usize> = HashMap::new();
        for process in self.processes(observation) {
            let text = Text::from_captured(&process.stdout);
            let Some(found) = text.matches(&self.numbers) else {
                return Err(format!("not all of stdout of {} was kept", process.role));
            };
            for (line, captures) in found {
                let group = |name: &str| {
                    let bytes = captures.name(name)?.as_bytes();
                    Some(String::from_utf8_lossy(bytes).trim().to_owned())
                };
                let step = group(STEP);
                for name in self.numbers.capture_names().flatten().filter(|name| *name != STEP) {
                    let Some(text) = group(name) else { continue };
                    let earlier = count.entry((name.to_owned(), step.clone())).or_default();
                    let key = Key { name: name.to_owned(), step: step.clone(), earlier: *earlier };
                    *earlier += 1;
                    numbers.push(Number { key, text, line: format!("stdout of {}, line {line}", process.role) });
                }
            }
        }
        Ok(numbers)
    }

    /// The processes that print them: one rank, or every rank, or a launch without ranks.
    fn processes<'o>(&self, observation: &'o Observation) -> Vec<&'o ProcessObservation> {
        if let Some(rank) = self.rank {
            return observation.process(Role::Rank(rank)).into_iter().collect();
        }
        let has_ranks = observation.ranks().next().is_some();
        let counts = |role: Role| match role {
            Role::Rank(_) => true,
            Role::Launcher(_) | Role::Srun => !has_ranks,
            Role::Coordinator => false,
        };
        observation.processes.iter().filter(|process| counts(process.role)).collect()
    }

    fn nothing(&self, got: String, next: &str) -> Failure {
        Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Relation,
            expected: format!("the case prints numbers like /{}/", self.numbers),
            got,
            next: next.to_owned(),
        }
    }
}

fn failure(relation: Named<'_>, expected: String, got: String, next: &str) -> Failure {
    let (place, next) = (Some(relation.place.clone()), next.to_owned());
    Failure { place, kind: FailureKind::Relation, expected, got, next }
}

fn in_words(difference: &Difference<'_>, relation: &str) -> String {
    let (number, values) = match difference {
        Difference::Value(first, second) => {
            let apart = numbers::distance(&first.text, &second.text);
            let apart = apart.map_or_else(String::new, |apart| format!(": they differ by {apart:.1e} of the larger"));
            let second = format!("but {} under `{relation}` ({})", second.text, second.line);
            (first, format!("{} ({}), {second}{apart}", first.text, first.line))
        }
        Difference::OnlyFirst(first) => {
            (first, format!("{} ({}), but nothing under `{relation}`", first.text, first.line))
        }
        Difference::OnlySecond(second) => {
            (second, format!("nothing, but {} under `{relation}` ({})", second.text, second.line))
        }
    };
    let step = number.key.step.as_ref().map_or_else(String::new, |step| format!("step {step}, "));
    let occurrence = match number.key.earlier {
        0 => String::new(),
        earlier => format!(", occurrence {}", earlier + 1),
    };
    format!("{step}`{}`{occurrence}: {values}", number.key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Captured, Exit};

    fn compared(rank: Option<u32>, tolerance: Option<f64>) -> Compared {
        let numbers = Regex::new(r"(?m)^step (?P<step>\d+) loss (?P<loss>\S+)(?: norm (?P<norm>\S+))?$").unwrap();
        Compared { numbers, rank, tolerance, place: SourceLocation::default() }
    }

    fn seen(outputs: &[&str]) -> Observation {
        let process = |(rank, output): (u32, &&str)| {
            let stdout = Captured { head: output.as_bytes().to_vec(), ..Captured::default() };
            ProcessObservation { role: Role::Rank(rank), exit: Exit::Code(0), stdout, stderr: Captured::default() }
        };
        Observation { processes: (0..).zip(outputs).map(process).collect(), ..Observation::default() }
    }

    /// What differs, and the next step, when the first outputs become the second.
    fn got(compared: &Compared, changes_sums: bool, outputs: [&[&str]; 2]) -> Option<(String, String)> {
        let place = SourceLocation::default();
        let named = Named { name: "ranks: 1", changes_sums, place: &place };
        let first = compared.read(&seen(outputs[0])).unwrap();
        compared.compare(named, &first, &seen(outputs[1])).map(|failure| (failure.got, failure.next))
    }

    #[test]
    fn the_first_difference_is_named_with_both_lines() {
        let one = "hello\nstep 1 loss 0.5 norm 2\nstep 2 loss 0.25\n";
        let compared = compared(None, None);
        assert_eq!(got(&compared, false, [&[one], &[one]]), None);
        let other = one.replace("0.25", "0.26").replace("norm 2", "norm 3");
        assert_eq!(
            got(&compared, false, [&[one], &[&other]]).unwrap().0,
            "step 1, `norm`: 2 (stdout of rank 0, line 2), but 3 under `ranks: 1` (stdout of rank 0, line 2): they differ by \
             3.3e-1 of the larger; 1 more number differs"
        );
        let near = one.replace("0.25", "0.2500001");
        assert!(got(&compared, false, [&[one], &[&near]]).is_some(), "bits are promised");
        assert_eq!(got(&compared, true, [&[one], &[&near]]), None, "sums have other parts");
        let shorter = "step 1 loss 0.5 norm 2\n";
        assert_eq!(
            got(&compared, true, [&[one], &[shorter]]).unwrap().0,
            "step 2, `loss`: 0.25 (stdout of rank 0, line 3), but nothing under `ranks: 1`"
        );
        assert_eq!(
            got(&compared, true, [&[shorter], &[one]]).unwrap().0,
            "step 2, `loss`: nothing, but 0.25 under `ranks: 1` (stdout of rank 0, line 3)"
        );
    }

    #[test]
    fn any_rank_may_print_a_number_and_one_may_be_named() {
        let (line, other) = ("step 1 loss 0.5\n", "step 1 loss 0.75\n");
        assert_eq!(
            got(&compared(None, None), true, [&["", line], &[line]]),
            None,
            "the last rank, and then the only one"
        );
        let twice = got(&compared(None, None), true, [&[line, line], &[line]]).unwrap();
        assert_eq!(
            twice.0,
            "step 1, `loss`, occurrence 2: 0.5 (stdout of rank 1, line 1), but nothing under `ranks: 1`"
        );
        assert!(twice.1.contains("`compared: {rank: 0}`"), "{}", twice.1);
        assert_eq!(got(&compared(Some(0), None), true, [&[line, other], &[line]]), None);
    }

    #[test]
    fn a_run_without_numbers_fails() {
        let failure = compared(Some(1), None).read(&seen(&["step 1 loss 0.5", "hello"])).unwrap_err();
        assert_eq!((failure.got.as_str(), failure.kind), ("no match in stdout of rank 1", FailureKind::Relation));
    }
}
