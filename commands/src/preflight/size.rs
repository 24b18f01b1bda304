//! Sizes as text.

/// `12.34 GiB`, or `12.34 MiB` below 1 GiB.
pub(super) fn gib(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.2} {name}", bytes as f64 / f64::from(unit))
}

/// The same with a sign.
pub(super) fn signed(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "-" } else { "" }, gib(bytes.unsigned_abs()))
}
