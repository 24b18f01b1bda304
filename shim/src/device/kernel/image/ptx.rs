//! Variables in PTX text: `.global .align 4 .b8 values[16] = {0, 0, 192, 63};` (PTX ISA, "State Spaces, Types, and Variables").

use super::Initial;

/// The initial value of the variable `name`.
pub(super) fn initial(text: &[u8], name: &str) -> Result<Initial, String> {
    let text = String::from_utf8_lossy(text);
    let text = without_comments(text.trim_end_matches('\0'));
    for statement in text.split(';') {
        // What comes before a declaration in the same piece is a body's end or a directive's line.
        let Some(start) = [".global", ".const"].iter().filter_map(|space| statement.rfind(space)).max() else {
            continue;
        };
        let declaration = &statement[start..];
        let (head, value) = declaration.split_once('=').map_or((declaration, ""), |(head, value)| (head, value.trim()));
        let (head, dimensions) = head.split_once('[').unwrap_or((head, ""));
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let [.., kind, known] = words.as_slice() else { continue };
        if *known != name {
            continue;
        }
        let unknown = || format!("{name} begins in a way that is not read: {value}");
        let width = width(kind).ok_or_else(unknown)?;
        let mut initial = Initial::default();
        if !value.is_empty() {
            let rows = rows(dimensions);
            fill(&mut initial, value, kind, width, &rows, 0).ok_or_else(unknown)?;
        }
        return Ok(initial);
    }
    Err(format!("no variable {name}"))
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Bytes of a value of this type.
fn width(kind: &str) -> Option<usize> {
    let bits: usize = kind.strip_prefix('.')?.trim_start_matches(['b', 'u', 's', 'f']).parse().ok()?;
    [8, 16, 32, 64].contains(&bits).then_some(bits / 8)
}

/// Number of elements per element of each dimension: `2][3]` is `[3, 1]`.
fn rows(dimensions: &str) -> Vec<usize> {
    let sizes: Vec<usize> = dimensions.split(['[', ']']).filter_map(|size| size.trim().parse().ok()).collect();
    (1..=sizes.len()).map(|from| sizes[from..].iter().product()).collect()
}

/// Writes a value, or a list in braces, at element `at`.
fn fill(initial: &mut Initial, value: &str, kind: &str, width: usize, rows: &[usize], at: usize) -> Option<()> {
    let value = value.trim();
    if let Some(list) = value.strip_prefix('{') {
        let list = list.strip_suffix('}')?;
        let step = rows.first().copied().unwrap_or(1);
        for (index, part) in parts(list).into_iter().enumerate().filter(|(_, part)| !part.trim().is_empty()) {
            fill(
                initial,
                part,
                kind,
                width,
                rows.get(1..).unwrap_or_default(),
                at.checked_add(index.checked_mul(step)?)?,
            )?;
        }
        return Some(());
    }
    let start = at.checked_mul(width).filter(|start| *start < 1 << 30)?;
    if initial.bytes.len() < start + width {
        initial.bytes.resize(start + width, 0);
    }
    match number(value, kind) {
        Some(number) => initial.bytes[start..start + width].copy_from_slice(&number.to_le_bytes()[..width]),
        None => {
            let (symbol, added) = address(value).filter(|_| width == 8)?;
            initial.addresses.push((start, symbol, added));
        }
    }
    Some(())
}

/// The parts of a list, split at its top-level commas.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// An integer, or a float given by its bits (`0f3F800000`, `0d3FF0000000000000`), as the low bytes of a number.
fn number(text: &str, kind: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest.trim()));
    let lower = digits.to_ascii_lowercase();
    let float = kind.starts_with(".f");
    let bits = match (lower.get(..2), lower.get(2..)) {
        (Some("0f"), Some(hex)) if hex.len() == 8 => Some((u64::from_str_radix(hex, 16).ok()?, 32)),
        (Some("0d"), Some(hex)) if hex.len() == 16 => Some((u64::from_str_radix(hex, 16).ok()?, 64)),
        _ => None,
    };
    if let Some((bits, size)) = bits {
        let bits = if negative { bits ^ 1 << (size - 1) } else { bits };
        return match (kind, size) {
            (".f64", 32) => Some(f64::from(f32::from_bits(bits as u32)).to_bits()),
            (".f32", 64) => Some(u64::from((f64::from_bits(bits) as f32).to_bits())),
            _ => Some(bits),
        };
    }
    if float {
        let value: f64 = lower.parse().ok()?;
        let value = if negative { -value } else { value };
        return if kind == ".f32" { Some(u64::from((value as f32).to_bits())) } else { Some(value.to_bits()) };
    }
    let lower = lower.trim_end_matches('u');
    let value = match lower.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => lower.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

/// `generic(name)`, `generic(name)+8`, `name+8`: the variable whose address it is, and the addend.
fn address(text: &str) -> Option<(String, u64)> {
    let (name, added) = match text.strip_prefix("generic(") {
        Some(rest) => rest.split_once(')')?,
        None => text.split_at(text.find('+').unwrap_or(text.len())),
    };
    let (name, inside) = name.split_at(name.find('+').unwrap_or(name.len()));
    let added =
        [inside, added].iter().map(|part| part.trim().trim_start_matches('+').trim()).find(|part| !part.is_empty());
    let is_name = name.trim().starts_with(|first: char| first.is_ascii_alphabetic() || "_$%".contains(first));
    is_name.then_some((name.trim().to_owned(), added.map_or(Some(0), |added| added.parse().ok())?))
}
