//! Classes of message sizes, and the median of what falls into one.

/// Classes of sizes, and the bytes below which each ends.
pub(super) const CLASSES: [(&str, u64); 4] =
    [("< 64 KiB", 1 << 16), ("64 KiB-1 MiB", 1 << 20), ("1-64 MiB", 64 << 20), (">= 64 MiB", u64::MAX)];

/// Index of the class of a size.
pub(super) fn class(bytes: u64) -> usize {
    CLASSES.iter().position(|(_, end)| bytes < *end).unwrap_or(CLASSES.len() - 1)
}

/// The value below which a part of the values lie; NaN if there are none. Sorts them.
pub(super) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return f64::NAN;
    }
    let place = (values.len() - 1) as f64 * part;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}
