//! Words and sizes that every data connection uses after its hello, and how long to wait around the end of one.

use std::time::Duration;

use protocol::record::ErrorCode;

use crate::failure::number_of;

/// The channel of connections for puts and signals.
pub(crate) const ONE_SIDED_CHANNEL: u8 = 3;
/// Begins a chunk of a payload.
pub(crate) const DATA: u32 = 0x6174_6164;
/// Begins a notice: the kind of failure and a sentence.
pub(crate) const NOTICE: u32 = 0x6c69_6166;
/// Bytes of a tag and a length.
pub(crate) const HEADER: usize = 8;
/// How long to wait for the reason why a connection ended.
pub(crate) const REASON_PATIENCE: Duration = Duration::from_millis(500);
/// How long the end of a connection may take after the rank at its other end is gone: a process that the rank forked may hold it.
pub(crate) const HELD_PATIENCE: Duration = Duration::from_secs(2);
/// Longest sentence in a notice, bytes.
pub(crate) const MAX_NOTICE: usize = 4096;
/// Confirms to the connecting side that its connection was accepted: what it sends from now on reaches the rank even if the
/// sender leaves.
pub(crate) const WELCOME: u32 = 0x636c_6577;
/// How many times a connection is retried if it ends before it is welcomed: too many connections without a hello may have evicted
/// it.
pub(crate) const KNOCKS: u32 = 32;

/// A notice as it travels.
pub(crate) fn notice(code: ErrorCode, detail: &str) -> Vec<u8> {
    let length = (0..=detail.len().min(MAX_NOTICE)).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(HEADER + 4 + length);
    bytes.extend_from_slice(&NOTICE.to_le_bytes());
    bytes.extend_from_slice(&(length as u32 + 4).to_le_bytes());
    bytes.extend_from_slice(&number_of(code).to_le_bytes());
    bytes.extend_from_slice(&detail.as_bytes()[..length]);
    bytes
}
