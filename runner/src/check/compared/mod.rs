//! What the runs of a case with `holds_under` are compared by: the numbers that an expression finds in their output, those in the
//! files that they write, and how close they must be.

mod curves;
mod events;
mod fields;
mod files;
mod json;
mod table;

pub use curves::Curve;
pub use fields::Files;

use regex::bytes::Regex;

use crate::check::numbers::{self, Difference, Reading};
use crate::check::stream::Text;
use crate::check::{Failure, FailureKind};
use crate::observation::{Number, Observation, ProcessObservation, Role};
use crate::source::SourceLocation;

/// The group of the expression that is not a number, but names the place.
pub const STEP: &str = "step";

/// How far numbers may be apart by default where their sums have other parts, relative to the larger.
const OTHER_SUMS: f64 = 1e-5;

/// What to do about a part after a restart that has no number.
const WAIT_EARLIER: &str = "let `restart` wait for an earlier line: the program has to go on after it";

/// The numbers to compare.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Finds them in the output: each named group is a number, and [`STEP`] the step of the program.
    pub numbers: Option<Regex>,
    /// Those in files.
    pub files: Option<Files>,
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
        self.in_run(observation).map_err(|(source, why)| {
            let (expected, what) = match source {
                Source::Files(files) => (format!("the case writes numbers to files like `{}`", files.glob), "files"),
                Source::Output(numbers) => (format!("the case prints numbers like /{numbers}/"), "numbers"),
            };
            let or = if what == "files" { "`compared.fields`" } else { "`compared.rank`" };
            let next = format!("a relation that compares nothing proves nothing: correct `compared.{what}` or {or}");
            let place = Some(self.place.clone());
            Box::new(Failure { place, kind: FailureKind::Relation, expected, got: why, next })
        })
    }

    /// The numbers of a part that was killed; it may have none yet.
    ///
    /// # Errors
    /// A file cannot be read: one sentence.
    pub fn read_part(&self, observation: &Observation) -> Result<Vec<Number>, String> {
        let mut reading = Reading::default();
        if let Some(numbers) = &self.numbers {
            // What it has not printed yet is no mistake.
            let _ = self.in_output(numbers, observation, &mut reading);
        }
        if let Some(wanted) = &self.files {
            files::read_part(wanted, observation, &mut reading)?;
        }
        Ok(reading.finish())
    }

    /// The failure of a relation whose variant printed other numbers than `first`.
    pub fn compare(&self, relation: Named<'_>, first: &[Number], variant: &Observation) -> Option<Failure> {
        let (tolerance, why) = self.tolerance(relation);
        let close =
            if tolerance > 0.0 { format!("within {tolerance:e} of the larger") } else { self.exactly().to_owned() };
        let expected = format!("under `{}`, the numbers are the same {close} ({why})", relation.name);
        let second = match self.in_variant(first, variant) {
            Ok(numbers) => numbers,
            Err((why, next)) => return Some(failure(relation, expected, why, next)),
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

    /// The numbers of a relation that [differ](Compared::compare), by step.
    pub fn curves(&self, relation: Named<'_>, first: &[Number], variant: &Observation) -> Vec<Curve> {
        let Ok(second) = self.in_variant(first, variant) else { return Vec::new() };
        let (tolerance, _) = self.tolerance(relation);
        curves::differing(first, &second, &numbers::differences(first, &second, tolerance))
    }

    /// The numbers of a variant, in both parts if it was killed and started again; or why there are none, and what to do.
    fn in_variant(&self, first: &[Number], variant: &Observation) -> Result<Vec<Number>, (String, &'static str)> {
        let next = if variant.before.is_some() { WAIT_EARLIER } else { "" };
        let second = self.in_run(variant).map_err(|(_, why)| (why, next))?;
        match &variant.before {
            None => Ok(second),
            Some(before) => whole_run(first, before, second),
        }
    }

    /// The failure of a relation whose variant did not pass, and why it did not.
    pub fn failed(relation: Named<'_>, why: String) -> Failure {
        failure(relation, format!("under `{}`, the case passes, as it did without it", relation.name), why, "")
    }

    /// How numbers without tolerance are compared.
    fn exactly(&self) -> &'static str {
        match (&self.numbers, &self.files) {
            (_, None) => "as printed",
            (None, Some(_)) => "as written",
            (Some(_), Some(_)) => "as printed and written",
        }
    }

    /// The tolerance for a relation, and its reason.
    fn tolerance(&self, relation: Named<'_>) -> (f64, &'static str) {
        match (self.tolerance, relation.changes_sums) {
            (Some(tolerance), _) => (tolerance, "`compared.tolerance`"),
            (None, true) => (OTHER_SUMS, "the default where the number of ranks changes what is added up"),
            (None, false) => (0.0, "the default where the number of ranks stays the same"),
        }
    }

    /// The numbers of a run, or where they should have been and why they are not there.
    fn in_run<'s>(&'s self, observation: &Observation) -> Result<Vec<Number>, (Source<'s>, String)> {
        let mut reading = Reading::default();
        if let Some(numbers) = &self.numbers {
            self.in_output(numbers, observation, &mut reading).map_err(|why| (Source::Output(numbers), why))?;
        }
        if let Some(wanted) = &self.files {
            files::read(wanted, observation, &mut reading).map_err(|why| (Source::Files(wanted), why))?;
        }
        Ok(reading.finish())
    }

    fn in_output(&self, numbers: &Regex, observation: &Observation, reading: &mut Reading) -> Result<(), String> {
        let mut is_empty = true;
        let when = if observation.before.is_some() { " after the restart" } else { "" };
        for process in self.processes(observation) {
            let text = Text::from_captured(&process.stdout);
            let Some(found) = text.matches(numbers) else {
                return Err(format!("not all of stdout of {} was kept", process.role));
            };
            for (line, captures) in found {
                let group = |name: &str| {
                    let bytes = captures.name(name)?.as_bytes();
                    Some(String::from_utf8_lossy(bytes).trim().to_owned())
                };
                for name in numbers.capture_names().flatten().filter(|name| *name != STEP) {
                    let Some(text) = group(name) else { continue };
                    reading.add(name, group(STEP), text, format!("stdout of {}{when}, line {line}", process.role));
                    is_empty = false;
                }
            }
        }
        let whose = self.rank.map_or_else(String::new, |rank| format!(" of rank {rank}"));
        if is_empty { Err(format!("no match in stdout{whose}{when}")) } else { Ok(()) }
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
}

/// The numbers of a run that was killed and started again, which must have resumed.
///
/// # Errors
/// It proves nothing: why, and what to do.
fn whole_run(
    uninterrupted: &[Number],
    before: &Observation,
    after: Vec<Number>,
) -> Result<Vec<Number>, (String, &'static str)> {
    let before = match &before.numbers {
        Some(Err(why)) => {
            let next = "write a file that is replaced under another name first, and rename it then";
            return Err((format!("when it was killed, its files could not be read: {why}"), next));
        }
        Some(Ok(numbers)) => numbers.as_slice(),
        None => &[],
    };
    let both = numbers::resumed(before, after);
    let Some(first) = both.after.first() else {
        let why = "after the restart, there is no new number".to_owned();
        return Err((why, WAIT_EARLIER));
    };
    if numbers::covers(&both.after, uninterrupted) {
        let step = first.key.step.as_ref().map_or_else(|| "the first number".to_owned(), |step| format!("step {step}"));
        let why = format!("after the restart, the case began with {step} again ({}): it did not resume", first.line);
        let next =
            "it has to write a checkpoint below FTEST_SCRATCH before the line that `restart` waits for, and load it";
        return Err((why, next));
    }
    Ok(both.all)
}

/// Where numbers come from.
enum Source<'s> {
    Output(&'s Regex),
    Files(&'s Files),
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
        Compared { numbers: Some(numbers), files: None, rank, tolerance, place: SourceLocation::default() }
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
    fn a_restarted_run_has_to_resume() {
        let whole = "step 1 loss 0.5\nstep 2 loss 0.25\nstep 3 loss 0.125\n";
        let got = |before: &str, after: &str| {
            let (place, compared) = (SourceLocation::default(), compared(None, None));
            let named = Named { name: "restart", changes_sums: false, place: &place };
            let mut killed = seen(&[before]);
            killed.numbers = Some(compared.read_part(&killed));
            let resumed = Observation { before: Some(Box::new(killed)), ..seen(&[after]) };
            compared.compare(named, &compared.read(&seen(&[whole])).unwrap(), &resumed).map(|failure| failure.got)
        };
        assert_eq!(got("step 1 loss 0.5\nstep 2 loss 0.3\n", "step 2 loss 0.25\nstep 3 loss 0.125\n"), None);
        let other = got("step 1 loss 0.5\nstep 2 loss 0.25\n", "step 3 loss 0.1\n").unwrap();
        assert!(other.contains("but 0.1 under `restart` (stdout of rank 0 after the restart, line 1)"), "{other}");
        let missing = got("step 1 loss 0.5\n", "step 3 loss 0.125\n").unwrap();
        assert!(missing.starts_with("step 2, `loss`: 0.25 (stdout of rank 0, line 2), but nothing under"), "{missing}");
        let again = got("step 1 loss 0.5\n", whole).unwrap();
        assert!(again.starts_with("after the restart, the case began with step 1 again"), "{again}");
        let none = got("step 1 loss 0.5\n", "done").unwrap();
        assert_eq!(none, "no match in stdout after the restart");
    }

    #[test]
    fn a_run_without_numbers_fails() {
        let failure = compared(Some(1), None).read(&seen(&["step 1 loss 0.5", "hello"])).unwrap_err();
        assert_eq!((failure.got.as_str(), failure.kind), ("no match in stdout of rank 1", FailureKind::Relation));
    }
}
