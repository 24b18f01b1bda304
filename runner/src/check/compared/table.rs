//! Numbers in a CSV file: the first line names the columns; an empty cell is no number.

use super::fields::{Entry, Files, note};

/// The numbers of a file.
pub(super) fn read(files: &Files, text: &str, there: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    let mut rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, first)) = rows.next() else { return Ok(Vec::new()) };
    let columns = cells(first.trim_start_matches('\u{feff}'));
    columns.iter().for_each(|column| note(there, column));
    let mut entries = Vec::new();
    for (index, line) in rows {
        let row = cells(line);
        if row.len() != columns.len() {
            return Err(format!("line {}: {} cells for {} columns", index + 1, row.len(), columns.len()));
        }
        let cell = |name: &str| {
            let place = columns.iter().position(|column| column == name)?;
            Some(row[place].clone()).filter(|cell| !cell.is_empty())
        };
        for field in &files.fields {
            let Some(text) = cell(field) else { continue };
            let place = format!("line {}", index + 1);
            entries.push(Entry { field: field.clone(), step: cell(&files.step), text, place });
        }
    }
    Ok(entries)
}

/// The cells of a line, without quotes (RFC 4180, but no cell has several lines).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut in_quotes) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if in_quotes && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            _ => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cell_is_no_number() {
        // Lightning's CSVLogger writes a row for training, and one for validation.
        let text = "epoch,step,train_loss,\"val,loss\"\n0,1,0.5,\n0,1,,0.75\n\n1,2,0.25,\n";
        let fields = ["train_loss", "val,loss"].map(str::to_owned).to_vec();
        let files = Files { glob: String::new(), fields, step: "step".to_owned() };
        let mut there = Vec::new();
        let entries = read(&files, text, &mut there).unwrap();
        let texts: Vec<String> =
            entries.iter().map(|entry| format!("{} {}, {}", entry.field, entry.text, entry.place)).collect();
        assert_eq!(texts, ["train_loss 0.5, line 2", "val,loss 0.75, line 3", "train_loss 0.25, line 5"]);
        assert!(entries.iter().all(|entry| entry.step.is_some()));
        assert_eq!(there, ["epoch", "step", "train_loss", "val,loss"]);
        assert_eq!(read(&files, "a,b\n1\n", &mut there).unwrap_err(), "line 2: 1 cells for 2 columns");
    }

    #[test]
    fn quotes_hold_commas_and_quotes() {
        assert_eq!(cells(r#"a,"b,c", "d ""e""" ,"#), ["a", "b,c", r#"d "e""#, ""]);
    }
}
