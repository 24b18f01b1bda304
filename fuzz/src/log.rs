//! The event log of a run as `ftest replay` and the reports read it.

use std::io::Write;

use runner::record::event::Event;
use runner::record::{Run, log};
use runner::report::human::HumanReport;
use runner::report::junit::{self, Profile};

/// A log is read as far as it goes, and what was read makes whole reports.
pub fn log(data: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("a temporary file");
    let events: Vec<Event> = log::events(file.path()).expect("it is there").map_while(Result::ok).collect();
    let mut run = Run::default();
    let mut human = HumanReport::new(Box::new(std::io::sink()), false);
    for event in &events {
        run.apply(event);
        human.on(&run, event);
    }
    for profile in [Profile::Rich, Profile::Strict] {
        let document = junit::document(&run, profile).expect("a run is a document");
        let mut reader = quick_xml::Reader::from_str(&document);
        reader.config_mut().check_end_names = true;
        while !matches!(reader.read_event().expect("well-formed"), quick_xml::events::Event::Eof) {}
    }
    for event in &events {
        let line = serde_json::to_string(event).expect("an event is JSON");
        assert_eq!(&serde_json::from_str::<Event>(&line).expect("what is written is read"), event);
    }
}
