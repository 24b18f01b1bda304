//! Who may join a run, and who may not.

use std::sync::{Arc, Mutex};

use super::*;
use crate::execute::machines::Gate;

const TOKEN: &str = "sixteen letters or more";

/// A run that waits for a machine, what it said, and its address.
async fn waiting() -> (tokio::task::JoinHandle<Gate>, Arc<Mutex<Vec<String>>>, String) {
    let mut gate = Gate::open(([127, 0, 0, 1], 0).into(), TOKEN).await.unwrap();
    let address = gate.address().to_string();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let task = tokio::spawn(async move {
        gate.fill(1, |sentence| heard.lock().unwrap().push(sentence)).await.unwrap();
        gate
    });
    (task, said, address)
}

fn hello(version: &str) -> Hello {
    Hello { version: version.to_owned(), host: "there".to_owned() }
}

#[tokio::test]
async fn only_the_same_token_and_the_same_version_join() {
    let (gate, said, address) = waiting().await;
    let other = join(&address, "another word of sixteen").await.err().unwrap();
    assert_eq!(other, JoinError::OtherToken { address: address.clone() });
    let old = join_as(hello("0.0.9"), &address, TOKEN).await.err().unwrap();
    let JoinError::Refused { why, .. } = &old else { panic!("{old}") };
    assert!(why.contains("it runs ftest 0.0.9, and the run is of ftest ") && why.contains(VERSION), "{why}");
    let mut agent = join_as(hello(VERSION), &address, TOKEN).await.unwrap();
    assert_eq!(agent.number, 1);
    let gate = gate.await.unwrap();
    let said = said.lock().unwrap().clone();
    assert!(said[0].starts_with("127.0.0.1 did not join: it is not an agent with this run's token"), "{said:?}");
    assert!(said[1].starts_with("there (127.0.0.1) did not join: it runs ftest 0.0.9"), "{said:?}");
    assert_eq!(&said[2..], ["there (127.0.0.1) has joined as machine 1"]);
    let machines = gate.close();
    let late = join(&address, TOKEN).await.err().unwrap();
    assert!(matches!(late, JoinError::Unreachable { .. }), "{late}");
    machines.dismiss().await;
    assert_eq!(agent.reader.next::<ToAgent>().await.unwrap(), Some(ToAgent::Done));
    assert_eq!(agent.reader.next::<ToAgent>().await.unwrap(), None);
}

#[tokio::test]
async fn what_was_sent_without_tls_is_no_agent() {
    use tokio::io::AsyncWriteExt;
    let (gate, said, address) = waiting().await;
    let mut stranger = TcpStream::connect(&address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let agent = join_as(hello(VERSION), &address, TOKEN).await.unwrap();
    gate.await.unwrap();
    assert_eq!((agent.number, said.lock().unwrap().len()), (1, 2));
}
