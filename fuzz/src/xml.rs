//! Text on its way into XML.

use quick_junit::{Report, TestCase, TestCaseStatus, TestSuite};
use quick_xml::XmlVersion;
use quick_xml::events::Event;
use runner::report::xml_text::XmlText;

/// Any bytes become text that is in an attribute and in an element and is read back as it was.
pub fn xml(data: &[u8]) {
    let text = XmlText::from_bytes(data);
    assert_eq!(XmlText::new(text.as_str()), text, "what is clean stays as it is");
    let mut test = TestCase::new(text.clone(), TestCaseStatus::success());
    test.set_system_out(text.clone());
    let mut suite = TestSuite::new("s");
    suite.add_test_case(test);
    let mut report = Report::new("r");
    report.add_test_suite(suite);
    let written = report.to_string().expect("a report can be written");
    let (name, out) = read(&written);
    // Ends of lines are the reader's to normalise, and white space in attributes.
    assert_eq!(words(&name), words(text.as_str()), "the attribute in {written}");
    assert_eq!(words(&out), words(text.as_str()), "the element in {written}");
}

fn words(text: &str) -> Vec<&str> {
    text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect()
}

/// The name of the test case and its output.
fn read(xml: &str) -> (String, String) {
    let mut reader = quick_xml::Reader::from_str(xml);
    let (mut name, mut out, mut inside) = (String::new(), String::new(), false);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Eof => return (name, out),
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == b"testcase" => {
                let attribute = tag.try_get_attribute("name").expect("well-formed").expect("a test has a name");
                name = attribute.normalized_value(XmlVersion::Implicit1_0).expect("well-formed").into_owned();
            }
            Event::Start(tag) if tag.name().as_ref() == b"system-out" => inside = true,
            Event::End(tag) if tag.name().as_ref() == b"system-out" => inside = false,
            Event::Text(text) if inside => out.push_str(&text.decode().expect("UTF-8")),
            Event::CData(text) if inside => out.push_str(&text.decode().expect("UTF-8")),
            Event::GeneralRef(name) if inside => {
                if let Some(character) = name.resolve_char_ref().expect("a character") {
                    out.push(character);
                } else {
                    let entity = name.decode().expect("UTF-8").into_owned();
                    out.push_str(quick_xml::escape::resolve_predefined_entity(&entity).expect("a known entity"));
                }
            }
            _ => {}
        }
    }
}
