//! Scalars in TensorBoard's event files: TFRecords, each a protobuf `Event`. A record that the writer did not finish ends the file.

use super::fields::{Entry, Files, note};

/// Bytes before a record (its length and the checksum of that) and after it (its checksum).
const HEAD: usize = 12;
const TAIL: usize = 4;

/// The wire types of protobuf that events use.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// `DataType` of a tensor (tensorflow/core/framework/types.proto).
const FLOAT: u64 = 1;
const DOUBLE: u64 = 2;

/// The numbers of a file.
pub(super) fn read(files: &Files, bytes: &[u8], there: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    let (mut rest, mut record) = (bytes, 0);
    while let Some(length) = rest.get(..8) {
        record += 1;
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
        let Some(event) = HEAD.checked_add(length).and_then(|end| rest.get(HEAD..end)) else { break };
        for (tag, step, text) in event_scalars(event).ok_or_else(|| format!("record {record} is no event"))? {
            note(there, &tag);
            if files.fields.contains(&tag) {
                let (step, place) = (Some(step.to_string()), format!("record {record}"));
                entries.push(Entry { field: tag, step, text, place });
            }
        }
        rest = rest.get(HEAD + length + TAIL..).unwrap_or_default();
    }
    Ok(entries)
}

/// Tag, step and value of every scalar of an `Event` (tensorflow/core/util/event.proto); `None` if it is none.
fn event_scalars(event: &[u8]) -> Option<Vec<(String, i64, String)>> {
    let (mut step, mut summaries) = (0, Vec::new());
    for field in fields(event)? {
        match field {
            (2, Field::Number(number)) => step = number as i64,
            (5, Field::Bytes(summary)) => summaries.push(summary),
            _ => {}
        }
    }
    let mut scalars = Vec::new();
    for summary in summaries {
        for value in fields(summary)? {
            if let (1, Field::Bytes(value)) = value {
                scalars.extend(scalar(value)?.map(|(tag, text)| (tag, step, text)));
            }
        }
    }
    Some(scalars)
}

/// Tag and number of a `Summary.Value`; none if it is something else, as an image.
fn scalar(value: &[u8]) -> Option<Option<(String, String)>> {
    let (mut tag, mut text) = (None, None);
    for field in fields(value)? {
        match field {
            (1, Field::Bytes(name)) => tag = Some(String::from_utf8_lossy(name).into_owned()),
            (2, Field::Fixed32(bits)) => text = Some(f32::from_bits(bits).to_string()),
            (8, Field::Bytes(tensor)) => text = tensor_number(tensor)?,
            _ => {}
        }
    }
    Some(tag.zip(text))
}

/// The number in a `TensorProto` with one element, which newer writers use for scalars.
fn tensor_number(tensor: &[u8]) -> Option<Option<String>> {
    let (mut datatype, mut shape, mut content) = (0, 0, None);
    for field in fields(tensor)? {
        match field {
            (1, Field::Number(number)) => datatype = number,
            (2, Field::Bytes(dimensions)) => shape = dimensions.len(),
            (4..=6, Field::Bytes(bytes)) => content = Some(bytes.to_vec()),
            (5, Field::Fixed32(bits)) => content = Some(bits.to_le_bytes().to_vec()),
            (6, Field::Fixed64(bits)) => content = Some(bits.to_le_bytes().to_vec()),
            _ => {}
        }
    }
    let content = content.filter(|_| shape == 0).unwrap_or_default();
    Some(match datatype {
        FLOAT => content.as_slice().try_into().ok().map(|bytes| f32::from_le_bytes(bytes).to_string()),
        DOUBLE => content.as_slice().try_into().ok().map(|bytes| f64::from_le_bytes(bytes).to_string()),
        _ => None,
    })
}

enum Field<'b> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
    Fixed32(u32),
}

/// The fields of a protobuf message, by number; `None` if it is none.
fn fields(message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let (mut found, mut rest) = (Vec::new(), message);
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let field = match key & 7 {
            VARINT => Field::Number(varint(&mut rest)?),
            FIXED64 => Field::Fixed64(u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?)),
            BYTES => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            FIXED32 => Field::Fixed32(u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?)),
            _ => return None,
        };
        found.push((key >> 3, field));
    }
    Some(found)
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `torch.utils.tensorboard.SummaryWriter` of PyTorch 2.15 and tensorboard 2.21: two steps of `loss/train`, `norm`
    /// with `new_style=True`, and an image.
    const WRITTEN: &[u8] = include_bytes!("../../../tests/tensorboard/events.out.tfevents.1.host");

    fn scalars(bytes: &[u8]) -> Vec<String> {
        let fields = ["loss/train", "norm"].map(str::to_owned).to_vec();
        let files = Files { glob: String::new(), fields, step: String::new() };
        let mut there = Vec::new();
        let entries = read(&files, bytes, &mut there).unwrap();
        let text = |entry: &Entry| format!("{} {} {}", entry.step.clone().unwrap(), entry.field, entry.text);
        entries.iter().map(text).collect()
    }

    #[test]
    fn what_tensorboard_wrote() {
        let expected = ["1 loss/train 0.6931472", "1 norm 1.25", "2 loss/train 0.5", "2 norm NaN"];
        assert_eq!(scalars(WRITTEN), expected);
        // The writer was killed.
        assert!(scalars(&WRITTEN[..WRITTEN.len() - 1]).len() <= expected.len());
        assert!(scalars(&WRITTEN[..30]).is_empty());
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let files = Files { glob: String::new(), fields: Vec::new(), step: String::new() };
        let mut bytes = 3u64.to_le_bytes().to_vec();
        bytes.extend([0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(read(&files, &bytes, &mut Vec::new()).unwrap_err(), "record 1 is no event");
    }
}
