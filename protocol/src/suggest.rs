//! "Did you mean": the nearest known word to a misspelled one.

/// The candidate nearest to `word`, if it is near enough to be worth suggesting.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (nearness(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// From 0 to 1. Two exchanged letters are one mistake, also in a short word.
fn nearness(word: &str, candidate: &str) -> f64 {
    let one_mistake = word.len() > 2 && strsim::osa_distance(word, candidate) <= 1;
    strsim::jaro_winkler(word, candidate).max(if one_mistake { 0.9 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn proposes_a_near_word_and_nothing_for_a_far_one() {
        assert_eq!(nearest("h1000", ["a100", "h100", "t4"]), Some("h100"));
        assert_eq!(nearest("expects", ["expect", "launch"]), Some("expect"));
        assert_eq!(nearest("rnu", ["runs", "run", "new"]), Some("run"));
        assert_eq!(nearest("zzz", ["expect", "launch"]), None);
    }
}
