//! "Did you mean": the nearest known word to a misspelled one.

/// The candidate nearest to `word`, if it is near enough to be worth suggesting.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn proposes_a_near_word_and_nothing_for_a_far_one() {
        assert_eq!(nearest("h1000", ["a100", "h100", "t4"]), Some("h100"));
        assert_eq!(nearest("expects", ["expect", "launch"]), Some("expect"));
        assert_eq!(nearest("zzz", ["expect", "launch"]), None);
    }
}
