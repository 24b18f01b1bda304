//! What `ftest` does: suites -> cases -> observations -> verdicts -> reports.
//!
//! The modules are stages; ARCHITECTURE.md lists them in order.
//!
//! - [`suite`] makes [`case`]s from YAML, with the file, line and column of every mistake; [`filter`] selects among them.
//! - [`execute`] runs one case as processes and produces an [`observation`]: exits, output, reports.
//! - [`check`] compares an observation with the case's expectations; [`verdict`] derives the result.
//! - [`schedule`] runs all cases of a run, [`record`] keeps its events, and [`report`] shows them.
//!
//! ```
//! use std::path::Path;
//!
//! use runner::filter::Filter;
//! use runner::suite;
//!
//! let text = "ftest: 1\nsuite: s\ncases:\n- {id: c, tags: [smoke], launch: {argv: [hostname]}}\n";
//! let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap();
//! assert_eq!(suite.cases[0].full_id(), "s/c");
//! assert!(Filter::united(["tag(smoke) & not case(d*)"]).unwrap().accepts(&suite.cases[0]));
//!
//! let mistakes = suite::parse(Path::new("s.yaml"), &text.replace("argv", "args"), Path::new("/")).unwrap_err();
//! assert!(mistakes.to_string().contains("s.yaml:4:"));
//! ```

#[macro_use]
pub mod host;

pub mod case;
pub mod check;
pub mod execute;
pub mod expression;
pub mod filter;
pub mod observation;
pub mod record;
pub mod report;
pub mod review;
pub mod schedule;
pub mod source;
pub mod suite;
pub mod verdict;
